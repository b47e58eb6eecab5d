/** Random numbers from a seed (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Returns a number from 0 to below 1. */
  float(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Returns a whole number, both bounds included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.float() * (max - min + 1));
  }

  /** Returns any int64. */
  int64(): bigint {
    const high = BigInt(this.int(0, 2 ** 32 - 1));
    return BigInt.asIntN(64, high << 32n | BigInt(this.int(0, 2 ** 32 - 1)));
  }

  /** Returns `true` with a probability. */
  chance(probability: number): boolean {
    return this.float() < probability;
  }

  /** Returns one of some values. */
  pick<T>(values: readonly T[]): T {
    const index = this.int(0, values.length - 1);
    // Not `values[index]`: a value may be undefined itself.
    for (const value of values.slice(index, index + 1)) return value;
    throw new RangeError("nothing to pick");
  }
}

/** Reads a whole number from the environment, or returns the fallback. */
export function numberFromEnv(variable: string, fallback: number): number {
  const text = Deno.env.get(variable);
  if (text === undefined || text === "") return fallback;
  if (!/^\d{1,10}$/.test(text)) {
    throw new RangeError(`${variable}: expected a whole number, got "${text}"`);
  }
  return Number(text);
}

/** Runs a test with random numbers; its failure names the seed. */
export async function withSeed(
  run: (random: Random) => void | Promise<void>,
): Promise<void> {
  const seed = seedOfRun();
  try {
    await run(new Random(seed));
  } catch (cause) {
    throw new Error(`with SEED=${seed}`, { cause });
  }
}

/** Returns the seed of a run: SEED, or a new one. */
export function seedOfRun(): number {
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
  return numberFromEnv("SEED", random);
}
