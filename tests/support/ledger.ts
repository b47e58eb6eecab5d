import assert from "node:assert/strict";
import type { NewPlant } from "../../src/plant/plant.ts";
import { History, isUnsettled } from "./history.ts";
import { toJson } from "./plants.ts";
import { post, type Target } from "./program.ts";
import { eventually, inParallel } from "./waiting.ts";

/** The reply to a create; status 0 if the connection was lost. */
export interface Answer {
  readonly status: number;
  /** The `error` number of a reply other than 200. */
  readonly error?: number;
}

/** Violations in a message; one cause often has thousands. */
const VIOLATIONS_SHOWN_MAX = 10;

/** Whether a create was answered 200. */
export function isStored({ status }: Answer): boolean {
  return status === 200;
}

/**
 * Sends a create and reads its reply: status 0 if the connection is lost.
 * @throws {assert.AssertionError} if the reply breaks the contract
 */
export async function sendCreate(
  target: Target,
  newPlant: NewPlant,
  signal?: AbortSignal,
): Promise<Answer> {
  try {
    const response = await post(target, toJson(newPlant), {}, signal);
    const { status, headers } = response;
    assert.equal(headers.get("content-type"), "application/json");
    const body: unknown = await response.json();
    if (status === 200) {
      assert.deepEqual(body, newPlant.plant);
      return { status };
    }
    assert.ok(typeof body === "object" && body !== null && "error" in body);
    assert.ok(typeof body.error === "number");
    assert.equal(Math.floor(body.error / 100), status);
    assert.equal(headers.has("retry-after"), status === 503);
    return { status, error: body.error };
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return { status: 0 };
  }
}

/** Clients of a service, with everything that they send and receive. */
export class Ledger extends History {
  /** Sends a create and records its reply. */
  async send(
    program: Target,
    newPlant: NewPlant,
    signal?: AbortSignal,
  ): Promise<Answer> {
    const create = this.mayStore(newPlant);
    const reply = await sendCreate(program, newPlant, signal);
    this.answered(create, reply.error ?? reply.status);
    return reply;
  }

  /** Waits until so many more plants were acknowledged. */
  async acknowledges(count: number): Promise<void> {
    const enough = this.acknowledged.size + count;
    await eventually(() => this.acknowledged.size >= enough);
  }

  /** Creates plants: each is answered 200. */
  async store(program: Target, newPlants: Iterable<NewPlant>): Promise<void> {
    await inParallel(newPlants, async (newPlant) => {
      const { status, error } = await this.send(program, newPlant);
      assert.equal(status, 200, `a create of ${newPlant.id}: ${error}`);
    });
  }

  /**
   * Forgets the replies since a time, as if none had arrived: a backup that was
   * made then may lack these plants.
   * @param time what {@link now} was
   */
  forgetSince(time: number): void {
    for (const create of [...this.sent.values()].flat()) {
      if (create.answeredAt < time) continue;
      create.answer = 0;
      this.acknowledged.delete(create.id);
    }
  }

  /** Repeats the creates that had no reply, or a 503: each is answered 200. */
  settle(program: Target): Promise<void> {
    const creates = [...this.sent.values()].flat();
    const unsettled = creates.filter(({ answer }) => isUnsettled(answer));
    return this.store(program, unsettled);
  }

  /**
   * Compares a file, which another process may have open, with what was sent
   * and acknowledged: nothing is missing, altered or of unknown origin.
   * @returns the number of stored plants
   */
  async assertFile(path: string): Promise<number> {
    using kv = await Deno.openKv(Deno.realPathSync(path));
    const stored = new Map<bigint, unknown>();
    const entries = kv.list({ prefix: ["plants"] }, { batchSize: 500 });
    for await (const { key: [, id], value } of entries) {
      assert.ok(typeof id === "bigint");
      stored.set(id, value);
    }
    return this.#assertStored(stored);
  }

  /** Does the same with the lines of an export. */
  assertLines(text: string): number {
    const stored = new Map<bigint, unknown>();
    const lines = text === "" ? [] : text.trimEnd().split("\n");
    for (const line of lines) {
      const [, id = "", plant = ""] = /^{"id":(-?\d+),(.*)$/.exec(line) ?? [];
      stored.set(BigInt(id), JSON.parse(`{${plant}`));
    }
    return this.#assertStored(stored);
  }

  #assertStored(stored: ReadonlyMap<bigint, unknown>): number {
    const violations = this.violations(stored);
    assert.deepEqual(violations.slice(0, VIOLATIONS_SHOWN_MAX), []);
    return stored.size;
  }
}
