import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import { BackgroundProcess } from "./background.ts";
import { History, isUnsettled } from "./history.ts";
import type { Random } from "./random.ts";
import { type Program, replyStatus, TOKEN } from "./program.ts";

/** The reply to a create; status 0 if the connection was lost. */
export interface Answer {
  readonly status: number;
  /** The `error` number of a reply other than 200. */
  readonly error?: number;
}

/** Where creates are sent. */
export interface Target {
  readonly origin: string;
  /** Defaults to that of `fetch`. */
  readonly httpClient?: Deno.HttpClient;
}

/** Violations in a message; one cause often has thousands. */
const VIOLATIONS_SHOWN_MAX = 10;

/** Time limit of an event, many times what it takes on a busy machine. */
const EVENT_MS_MAX = 120_000;

/** Whether a create was answered 200. */
export function isStored({ status }: Answer): boolean {
  return status === 200;
}

/** Returns a create as the text of a body: ids exceed doubles. */
export function toBody({ id, plant }: NewPlant): string {
  return `{"id":${id},${JSON.stringify(plant).slice(1)}`;
}

/** Waits for all parts, and only then throws the first failure. */
export async function settleAll(
  parts: readonly Promise<unknown>[],
): Promise<void> {
  for (const result of await Promise.allSettled(parts)) {
    if (result.status === "rejected") throw result.reason;
  }
}

/** Sends a create and reads its reply; never rejects. */
export async function send(
  { origin, httpClient }: Target,
  newPlant: NewPlant,
  init: RequestInit = {},
): Promise<Answer> {
  try {
    const response = await fetch(`${origin}/plants`, {
      ...(httpClient && { client: httpClient }),
      ...init,
      method: "POST",
      headers: {
        // Replies can be read in a trace: Deno compresses long ones.
        "accept-encoding": "identity",
        "authorization": `Bearer ${TOKEN}`,
        "content-type": "application/json",
      },
      body: toBody(newPlant),
    });
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
  /** The creates that had no reply, or a 503. */
  readonly ambiguous = new Map<bigint, NewPlant>();

  /** Sends a create and records its reply. */
  send(
    program: Target,
    newPlant: NewPlant,
    init?: RequestInit,
  ): Promise<Answer> {
    return this.record(newPlant, () => send(program, newPlant, init));
  }

  /** Records a create that is sent in any way, and its reply. */
  async record(
    newPlant: NewPlant,
    send: () => Promise<Answer>,
  ): Promise<Answer> {
    const create = this.sends(newPlant);
    const reply = await send();
    const answer = reply.error ?? reply.status;
    this.answered(create, answer);
    if (isUnsettled(answer)) this.ambiguous.set(newPlant.id, newPlant);
    return reply;
  }

  /** Creates plants: each is answered 200. */
  async store(
    program: Target,
    newPlants: Iterable<NewPlant>,
  ): Promise<void> {
    await inParallel(newPlants, async (newPlant) => {
      const { status, error } = await this.send(program, newPlant);
      assert.equal(status, 200, `a create of ${newPlant.id}: ${error}`);
    });
  }

  /**
   * Forgets the replies since an event, as if none had arrived: a copy of the
   * store that was made then may lack these plants.
   */
  forgetSince(event: number): void {
    for (const create of [...this.sent.values()].flat()) {
      if (create.answeredAt < event) continue;
      create.answer = 0;
      this.acknowledged.delete(create.id);
    }
  }

  /** Repeats the creates that had no reply, or a 503: each is answered 200. */
  settle(program: Target): Promise<void> {
    return this.store(program, this.ambiguous.values());
  }

  /**
   * Repeats acknowledged creates: each is answered 200. A plant that is missing
   * would be stored, so call {@link assertFile} before.
   */
  replay(program: Target): Promise<void> {
    return this.store(program, this.acknowledged.values());
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
    for (const line of text.trimEnd().split("\n")) {
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

/** Returns successive ids. */
export function range(first: bigint, count: number): bigint[] {
  return Array.from({ length: count }, (_, i) => first + BigInt(i));
}

/** Returns a plant for each id. */
export function newPlants(ids: readonly bigint[]): NewPlant[] {
  return ids.map((id) => ({ id, plant: { name: `Monstera ${id}` } }));
}

/** Calls a function for each item, several at a time. */
export async function inParallel<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
  atATime = 64,
): Promise<void> {
  const iterator = Iterator.from(items);
  await Promise.all(Array.from({ length: atATime }, async () => {
    for (const item of iterator) await work(item);
  }));
}

/** Returns a random plant: mostly small, sometimes of many pages. */
export function drawPlant(random: Random): Plant {
  const name = `${random.pick(["Monstera", "Ficus", "Олива", "竹"])} ${
    random.int(0, 1e9)
  }`;
  if (random.chance(0.02)) return { name: name.repeat(random.int(10, 1_000)) };
  const tag = random.pick([undefined, "", "climber", "shrub 🌿"]);
  return tag === undefined ? { name } : { name, tag };
}

/** Returns the resident memory of a program, or its peak (Linux only). */
export async function residentBytes(
  { process }: Program,
  field: "VmRSS" | "VmHWM" = "VmRSS",
): Promise<number> {
  // With another process: Deno itself needs all permissions to read /proc.
  const args = [`/proc/${process.pid}/status`];
  const { stdout } = await new BackgroundProcess("cat", { args }).ended();
  const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(stdout);
  assert.ok(found !== null, "the program has ended");
  return 1_024 * Number(found[1]);
}

// To time the steps of a load; eventually() waits for an event.
export { pause };

/** Counts the occurrences of a pattern in a text. */
export function occurrences(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}

/** Repeats something until its result is as expected; throws after minutes. */
export async function eventually<T>(
  isExpected: (reply: T) => boolean,
  attempt: () => T | Promise<T>,
  { everyMs = 50 } = {},
): Promise<T> {
  const untilMs = performance.now() + EVENT_MS_MAX;
  for (;;) {
    const reply = await attempt();
    if (isExpected(reply)) return reply;
    if (performance.now() > untilMs) {
      assert.fail(`not within minutes: ${JSON.stringify(reply)}`);
    }
    await pause(everyMs);
  }
}

/** Waits until GET /readyz has a status. */
export async function untilReady(
  { origin }: Pick<Program, "origin">,
  status = 200,
): Promise<void> {
  await eventually(
    (found) => found === status,
    () => replyStatus(fetch(`${origin}/readyz`)),
  );
}
