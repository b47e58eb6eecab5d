import { setTimeout as sleep } from "node:timers/promises";
import type { CommitResult, CommitStore } from "./committer.ts";
import { messageOf } from "./faults.ts";
import {
  COMMIT_PLANTS_MAX_FILE,
  COMMIT_PLANTS_MAX_REMOTE,
  COMMITS_IN_FLIGHT_MAX_FILE,
  COMMITS_IN_FLIGHT_MAX_REMOTE,
  LIST_CHARACTERS,
  LIST_KEYS_MAX,
  LIST_KEYS_MIN,
  LIST_MS_MAX,
  READ_KEYS_MAX,
  READY_MS_MAX,
  STORE_OPEN_MS_MAX,
} from "./limits.ts";
import type { NewPlant, Plant } from "./plant.ts";
import { EXIT_FAILURE, StartError } from "./start_error.ts";
import {
  assertStoreExists,
  assertStoreFile,
  OpenedFile,
} from "./store_file.ts";

/** Where plants are kept: an absolute path, or a KV Connect server. */
export type StoreLocation = string | URL;

/** First part of every plant's key; the second is its id. */
const PLANTS = "plants";

/** A key that never holds anything: deleting it is a write without a trace. */
const PROBE_KEY = ["probe"];

/** How long the first write rests while another process holds the store. */
const PROBE_AGAIN_MS = 50;

/** What SQLite says when another process writes; nothing was written then. */
const BUSY = /database is locked/;

/** What to say in place of a message that only Deno and SQLite understand. */
const IN_WORDS: readonly (readonly [RegExp, string])[] = [
  [
    /unable to open database file|read-?only database|permission denied/i,
    "this user may not read or write it, or not in its folder",
  ],
  [/malformed/, "it is broken: restore a backup"],
];

/** The plants in Deno KV. No other file knows `Deno.Kv`. */
export class Store implements CommitStore {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  readonly #kv: Deno.Kv;
  /** The file that was opened; `undefined` for a KV Connect server. */
  readonly #file: OpenedFile | undefined;
  /** Whether the store answers, from the read that is under way. */
  #answers: Promise<boolean> | undefined;

  constructor(kv: Deno.Kv, file: OpenedFile | undefined) {
    this.#kv = kv;
    this.#file = file;
    this.commitPlantsMax = file === undefined
      ? COMMIT_PLANTS_MAX_REMOTE
      : COMMIT_PLANTS_MAX_FILE;
    this.commitsInFlightMax = file === undefined
      ? COMMITS_IN_FLIGHT_MAX_REMOTE
      : COMMITS_IN_FLIGHT_MAX_FILE;
  }

  /** See {@link CommitStore}. Throws where the store failed. */
  async commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    const operation = this.#kv.atomic();
    for (const { id, plant } of plants) {
      const key = [PLANTS, id];
      operation.check({ key, versionstamp: null })
        .mutate({ type: "set", key, value: plant });
    }
    try {
      const { ok } = await operation.commit();
      this.#file?.assertInPlace();
      return ok ? "committed" : "exists";
    } catch (error) {
      if (error instanceof Error && BUSY.test(error.message)) return "busy";
      throw error;
    }
  }

  /** See {@link CommitStore}. */
  async read(ids: readonly bigint[]): Promise<(Plant | null | undefined)[]> {
    const found: (Plant | null | undefined)[] = [];
    for (let i = 0; i < ids.length; i += READ_KEYS_MAX) {
      const keys = ids.slice(i, i + READ_KEYS_MAX).map((id) => [PLANTS, id]);
      for (const entry of await this.#kv.getMany<unknown[]>(keys)) {
        found.push(
          entry.versionstamp === null ? undefined : toPlant(entry.value),
        );
      }
    }
    return found;
  }

  /**
   * Every plant in the order of their ids, page by page, while the next page
   * is read. A string names a key that holds no plant of ours.
   */
  async *pages(): AsyncGenerator<readonly (NewPlant | string)[]> {
    let size = LIST_KEYS_MIN;
    let entries = this.#list(size, undefined);
    let next = entries.next();
    for (;;) {
      const page: (NewPlant | string)[] = [];
      let characters = 1;
      let entry = await within(LIST_MS_MAX, next);
      while (entry.done !== true) {
        const found = toNewPlant(entry.value);
        page.push(found);
        if (typeof found !== "string") characters += charactersOf(found.plant);
        entry = await entries.next();
      }
      if (page.length < size) {
        yield page;
        return;
      }
      // Fewer plants where they are large, so that memory stays small.
      size = Math.floor(LIST_CHARACTERS * page.length / characters);
      size = Math.max(LIST_KEYS_MIN, Math.min(size, LIST_KEYS_MAX));
      entries = this.#list(size, entries.cursor);
      next = entries.next();
      // Who stops here does not ask what became of the next page.
      next.catch(() => {});
      yield page;
    }
  }

  /** Whether the store answers a read, within {@link READY_MS_MAX}. */
  async isReady(): Promise<boolean> {
    this.#answers ??= this.#ask();
    return await this.#answers && this.look() === undefined;
  }

  /**
   * Asks the store for something. A KV Connect server that is away never
   * settles a read: until it does, all who want to know get this answer.
   */
  #ask(): Promise<boolean> {
    const read = this.#kv.get(PROBE_KEY);
    const settled = () => this.#answers = undefined;
    read.then(settled, settled);
    return within(READY_MS_MAX, read).then(() => true, () => false);
  }

  /**
   * See {@link CommitStore}. Looks whether the file is in its place, and sees
   * to what is left of it.
   */
  look(): string | undefined {
    try {
      this.#file?.look();
      this.#file?.assertInPlace();
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  }

  /** Closes the store; nothing may be under way. */
  close(): void {
    this.look();
    this.#kv.close();
  }

  /** The next so many entries, in one read. */
  #list(size: number, cursor: string | undefined) {
    return this.#kv.list({ prefix: [PLANTS] }, {
      batchSize: size,
      limit: size,
      ...(cursor !== undefined && { cursor }),
    });
  }
}

/**
 * Opens the store and sees a write of it through, within
 * {@link STORE_OPEN_MS_MAX}.
 * @throws {StartError} that says what is wrong with it
 */
export async function openStore(location: StoreLocation): Promise<Store> {
  if (typeof location === "string") assertStoreFile(location);
  try {
    return await within(STORE_OPEN_MS_MAX, openAndProbe(location));
  } catch (error) {
    throw storeError("store anything in", location, error);
  }
}

/**
 * Opens a store to read it: it must exist, and nothing is written to it.
 * @throws {StartError} that says what is wrong with it
 */
export async function openStoreToRead(location: StoreLocation): Promise<Store> {
  if (typeof location === "string") assertStoreExists(location);
  try {
    return await within(STORE_OPEN_MS_MAX, open(location));
  } catch (error) {
    throw storeError("open", location, error);
  }
}

/** What to say where something cannot be done with a store. */
export function storeError(
  what: string,
  location: StoreLocation,
  error: unknown,
): StartError {
  const name = typeof location === "string" ? location : location.href;
  const reason = messageOf(error);
  if (/could not deserialize/.test(reason)) {
    return new StartError(
      `cannot ${what} ${name}: a newer Deno stored plants in it: run with ` +
        "that one, or export with it and import here into a new store",
    );
  }
  if (typeof location !== "string") {
    return new StartError(
      `cannot ${what} ${name}: ${reason}: see that a KV Connect server ` +
        "answers there and takes the token in DENO_KV_ACCESS_TOKEN",
      EXIT_FAILURE,
    );
  }
  const words = IN_WORDS.find(([pattern]) => pattern.test(reason))?.[1];
  if (words !== undefined) {
    return new StartError(`cannot ${what} ${name}: ${words}`);
  }
  return new StartError(`cannot ${what} ${name}: ${reason}`, EXIT_FAILURE);
}

/** Rejects where there is no answer in time; the work itself may go on. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`no answer in ${ms / 1000} s`)),
      ms,
    );
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

async function open(location: StoreLocation): Promise<Store> {
  return typeof location === "string"
    ? new Store(await Deno.openKv(location), new OpenedFile(location))
    : new Store(await Deno.openKv(location.href), undefined);
}

async function openAndProbe(location: StoreLocation): Promise<Store> {
  const isFile = typeof location === "string";
  const kv = await Deno.openKv(isFile ? location : location.href);
  // A read-only file opens well and fails at its first write.
  for (;;) {
    try {
      await kv.atomic().delete(PROBE_KEY).commit();
      // Where a newer Deno stored all there is, no plant could be read.
      await kv.list({ prefix: [PLANTS] }, { limit: 1 }).next();
      return new Store(kv, isFile ? new OpenedFile(location) : undefined);
    } catch (error) {
      if (!(error instanceof Error && BUSY.test(error.message))) throw error;
      await sleep(PROBE_AGAIN_MS);
    }
  }
}

/** A stored value as a plant, or `null` where it is none. */
function toPlant(value: unknown): Plant | null {
  if (typeof value !== "object" || value === null) return null;
  if (!("name" in value) || typeof value.name !== "string") return null;
  if (!("tag" in value)) return { name: value.name };
  if (typeof value.tag !== "string") return null;
  return { name: value.name, tag: value.tag };
}

function charactersOf({ name, tag }: Plant): number {
  return name.length + (tag?.length ?? 0);
}

/** What stands under a key, or the name of the key where it is no plant. */
function toNewPlant({ key, value }: Deno.KvEntry<unknown>): NewPlant | string {
  const id = key[1];
  const plant = toPlant(value);
  return typeof id === "bigint" && key.length === 2 && plant !== null
    ? { id, plant }
    : Deno.inspect(key);
}
