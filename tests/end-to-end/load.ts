import assert from "node:assert/strict";
import type { NewPlant, Plant } from "../../src/plant.ts";
import type { Random } from "../random.ts";
import { type Program, TOKEN } from "./program.ts";

/** What became of a create; status 0 where the connection was lost. */
export interface Answer {
  readonly status: number;
  /** The `error` number of a reply that is not a success. */
  readonly error?: number;
  readonly retryAfter?: string;
}

/** A create as the text of a request's body: ids are beyond doubles. */
export function toBody({ id, plant }: NewPlant): string {
  return `{"id":${id},${JSON.stringify(plant).slice(1)}`;
}

/** Sends a create and reads its answer; never rejects. */
export async function send(
  { origin }: Pick<Program, "origin">,
  newPlant: NewPlant,
): Promise<Answer> {
  try {
    const response = await fetch(`${origin}/plants`, {
      method: "POST",
      headers: {
        "authorization": `Bearer ${TOKEN}`,
        "content-type": "application/json",
      },
      body: toBody(newPlant),
    });
    const { status } = response;
    const body: unknown = await response.json();
    if (status === 200) {
      assert.deepEqual(body, newPlant.plant);
      return { status };
    }
    assert.ok(typeof body === "object" && body !== null && "error" in body);
    assert.ok(typeof body.error === "number");
    const retryAfter = response.headers.get("retry-after");
    return {
      status,
      error: body.error,
      ...(retryAfter !== null && { retryAfter }),
    };
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return { status: 0 };
  }
}

/** Everything that clients sent and were told, to hold the store to it. */
export class Ledger {
  /** Every plant that was sent for an id. */
  readonly sent = new Map<bigint, Plant[]>();
  /** What a reply of 200 said is stored. */
  readonly acknowledged = new Map<bigint, Plant>();
  /** Creates that ended without a reply, or with a 503. */
  readonly ambiguous = new Map<bigint, Plant>();

  /** Sends a create and enters it and its answer. */
  async send(
    program: Pick<Program, "origin">,
    newPlant: NewPlant,
  ): Promise<Answer> {
    const { id, plant } = newPlant;
    const sent = this.sent.get(id);
    if (sent === undefined) this.sent.set(id, [plant]);
    else sent.push(plant);
    const answer = await send(program, newPlant);
    if (answer.status === 200) {
      const before = this.acknowledged.get(id);
      if (before !== undefined) {
        assert.deepEqual(plant, before, `${id} was acknowledged as two plants`);
      }
      this.acknowledged.set(id, plant);
    } else if (answer.status === 409) {
      const before = this.acknowledged.get(id);
      assert.notDeepEqual(plant, before, `${id} conflicts with itself`);
    } else {
      this.ambiguous.set(id, plant);
    }
    return answer;
  }

  /** Sends what was acknowledged again: each is answered 200. */
  async replay(
    program: Pick<Program, "origin">,
    ids: Iterable<bigint> = this.acknowledged.keys(),
  ): Promise<void> {
    await together(ids, async (id) => {
      const plant = this.acknowledged.get(id);
      assert.ok(plant !== undefined);
      const { status } = await send(program, { id, plant });
      assert.equal(status, 200, `${id} was acknowledged and is answered so`);
    });
  }

  /**
   * Compares all that is stored with what was sent and acknowledged: nothing
   * is missing, altered or of unknown origin.
   * @returns how many plants are stored
   */
  async assertStored(kv: Deno.Kv): Promise<number> {
    const stored = new Map<bigint, unknown>();
    const entries = kv.list({ prefix: ["plants"] }, { batchSize: 500 });
    for await (const { key: [, id], value } of entries) {
      assert.ok(typeof id === "bigint");
      stored.set(id, value);
    }
    for (const [id, plant] of this.acknowledged) {
      assert.ok(stored.has(id), `${id} was acknowledged and is not stored`);
      assert.deepEqual(stored.get(id), plant, `${id} was altered`);
    }
    for (const [id, value] of stored) {
      const sent = this.sent.get(id);
      assert.ok(sent !== undefined, `${id} is stored and nobody sent it`);
      if (this.acknowledged.has(id)) continue;
      const text = JSON.stringify(value);
      assert.ok(
        sent.some((plant) => JSON.stringify(plant) === text),
        `${id} is stored as nobody sent it: ${text.slice(0, 80)}`,
      );
    }
    return stored.size;
  }

  /** The same, of a file that may be open elsewhere. */
  async assertFile(path: string): Promise<number> {
    const kv = await Deno.openKv(path);
    try {
      return await this.assertStored(kv);
    } finally {
      kv.close();
    }
  }
}

/** Does one thing for each of many, several at a time. */
export async function together<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
  atATime = 64,
): Promise<void> {
  const iterator = Iterator.from(items);
  await Promise.all(Array.from({ length: atATime }, async () => {
    for (const item of iterator) await work(item);
  }));
}

/** A plant that is mostly small and now and then fills many pages. */
export function drawPlant(random: Random): Plant {
  const name = `${random.pick(["Monstera", "Ficus", "Олива", "竹"])} ${
    random.int(0, 1e9)
  }`;
  if (random.chance(0.02)) return { name: name.repeat(random.int(10, 1_000)) };
  const tag = random.pick([undefined, "", "climber", "shrub 🌿"]);
  return tag === undefined ? { name } : { name, tag };
}

/** Answers by status and error number, such as `{ "200": 5, "50303": 2 }`. */
export class Tally {
  readonly counts: Record<string, number> = {};

  add({ status, error }: Answer): void {
    const name = String(error ?? status);
    this.counts[name] = this.of(name) + 1;
  }

  of(name: string | number): number {
    return this.counts[name] ?? 0;
  }
}

/** Waits; for the moments of a load, never for something to have happened. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Memory of a program that is in use, or 0 where the system has no /proc. */
export async function residentBytes({ process }: Program): Promise<number> {
  if (Deno.build.os !== "linux") return 0;
  // By another process: Deno reads there itself with all permissions only.
  const { stdout } = await new Deno.Command("cat", {
    args: [`/proc/${process.pid}/status`],
  }).output();
  const found = /^VmRSS:\s+(\d+) kB$/m.exec(new TextDecoder().decode(stdout));
  assert.ok(found !== null, "the program has ended");
  return 1_024 * Number(found[1]);
}

/** How often a pattern occurs in a text. */
export function occurrences(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}

/** Sends something until it is answered as wished, or throws. */
export async function until<T>(
  isWished: (answer: T) => boolean,
  trySomething: () => Promise<T>,
  { withinMs, everyMs = 50 }: { withinMs: number; everyMs?: number },
): Promise<T> {
  const untilMs = performance.now() + withinMs;
  for (;;) {
    const answer = await trySomething();
    if (isWished(answer)) return answer;
    if (performance.now() > untilMs) {
      assert.fail(`not within ${withinMs} ms: ${JSON.stringify(answer)}`);
    }
    await pause(everyMs);
  }
}
