import assert from "node:assert/strict";
import { PAGE_KEYS, RESCUE_RETRY_MS } from "../../src/limits.ts";
import type { KvStore } from "../../src/store/kv_store.ts";
import { openStore } from "../../src/store/open.ts";
import { rescuePlants } from "../../src/store/rescue.ts";
import type { StoreError } from "../../src/store_error.ts";
import { FakeClock } from "../support/fake_store.ts";
import { replaced } from "../support/replaced.ts";
import { newPlants, range, toBody } from "../support/plants.ts";
import { eventually } from "../support/waiting.ts";
import { commitAll, fileAt } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { testsWith } from "../support/tests.ts";

/** The plants of two pages. */
const PLANTS = newPlants(range(-70n, PAGE_KEYS + 1));
const LINES = PLANTS.map((plant) => `${toBody(plant)}\n`).join("");

/** An open store whose database is gone, or another file is in its place. */
class LostStore extends TemporaryDirectory {
  readonly clock = new FakeClock();
  readonly failures: string[] = [];
  readonly #path = this.file("plants.db");
  #store: KvStore | undefined;
  /** Called before the plants are read. */
  onRead: () => void = () => {};

  /** Rescues the plants. */
  async rescue(isReplaced = false) {
    using kv = await Deno.openKv(this.#path);
    await kv.set(["plants", 0n, "note"], "of another program");
    const store = this.#store = await openStore(fileAt(this.#path));
    await commitAll(store, PLANTS);
    const { listPage } = store;
    store.listPage = (...args) => {
      this.onRead();
      return listPage.apply(store, args);
    };
    Deno.removeSync(this.#path);
    if (isReplaced) Deno.createSync(this.#path).close();
    const failed = ({ message }: StoreError) => this.failures.push(message);
    return await rescuePlants(store, this.#path, this.clock, failed);
  }

  /** Waits until an attempt has failed. */
  async hasFailed(): Promise<void> {
    await eventually((it) => it > 0, () => this.clock.sleeps.length);
  }

  /** Lets the time to the next attempt pass. */
  retry(): void {
    const sleep = this.clock.sleeps.shift();
    assert.equal(sleep?.ms, RESCUE_RETRY_MS);
    sleep.wake();
  }

  /** The names of the files, without the time in them. */
  kinds(): string[] {
    return this.names()
      .map((name) => name.replace(/\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z-\d+/, "TIME"));
  }

  override [Symbol.dispose](): void {
    this.#store?.close();
    super[Symbol.dispose]();
  }
}

const lost = testsWith(() => new LostStore());

const LOG = ["plants.db-shm", "plants.db-wal"];
const RENAMED = ["plants.db.lost-TIME-shm", "plants.db.lost-TIME-wal"];
const RESCUED = "plants.db.rescued-TIME.jsonl";

lost.test("rescuePlants() writes every plant to a file for its user only, and then renames the log beside no database", async (place) => {
  let before: string[] = [];
  place.onRead = () => before = place.kinds();
  const rescued = await place.rescue();
  assert.deepEqual(before.slice(0, 2), LOG);
  assert.deepEqual(place.kinds(), [...RENAMED, RESCUED]);
  assert.equal(rescued?.plants, PLANTS.length);
  assert.equal(rescued.file, place.file(place.names().at(-1) ?? ""));
  assert.equal(Deno.readTextFileSync(rescued.file), LINES);
  assert.equal((Deno.statSync(rescued.file).mode ?? 0) & 0o777, 0o600);
  assert.deepEqual([place.failures, place.clock.sleeps], [[], []]);
});

lost.test("rescuePlants() renames the log before it reads, if another file has the place of the database", async (place) => {
  let before: string[] = [];
  place.onRead = () => before = place.kinds();
  await place.rescue(true);
  assert.deepEqual(before.slice(0, 3), ["plants.db", ...RENAMED]);
  assert.deepEqual(place.kinds(), ["plants.db", ...RENAMED, RESCUED]);
});

lost.test("rescuePlants() tries again every RESCUE_RETRY_MS, reports each failure, and leaves no incomplete file", async (place) => {
  place.onRead = () => {
    throw new TypeError("database or disk is full");
  };
  const rescuing = place.rescue();
  for (let failures = 1; failures <= 2; failures++) {
    await place.hasFailed();
    assert.deepEqual(place.kinds(), LOG);
    place.retry();
  }
  await place.hasFailed();
  place.onRead = () => {};
  Deno.removeSync(place.path, { recursive: true });
  place.retry();
  await place.hasFailed();
  Deno.mkdirSync(place.path);
  place.retry();
  assert.equal((await rescuing).plants, PLANTS.length);
  assert.deepEqual(place.kinds(), [RESCUED]);
  const missing = "No such file or directory (os error 2)";
  const full = "database or disk is full";
  assert.deepEqual(place.failures, [full, full, full, missing]);
});

lost.test("rescuePlants() of a damaged store writes what can be read, counts the gaps, and keeps the log", async (place) => {
  place.onRead = () => {
    throw new TypeError("database disk image is malformed");
  };
  const { plants, gaps } = await place.rescue();
  assert.deepEqual([plants, gaps.length], [0, 1]);
  assert.deepEqual(place.kinds(), [...LOG, RESCUED].toSorted());
  assert.deepEqual([place.failures, place.clock.sleeps], [[], []]);
});

lost.test("rescuePlants() ends when the file is complete, even if its directory cannot be synced or the log not renamed", async (place) => {
  const failing = () => {
    throw new Error("Input/output error");
  };
  let syncs = 0;
  using _syncing = replaced(Deno.FsFile.prototype, "syncSync", () => {
    if (++syncs === 2) failing();
  });
  using _renaming = replaced(Deno, "renameSync", failing);
  assert.equal((await place.rescue())?.plants, PLANTS.length);
  assert.equal(syncs, 2);
  assert.deepEqual(place.kinds(), [...LOG, RESCUED]);
  assert.deepEqual(place.failures, []);
});

lost.test("rescuePlants() reads nothing while the log beside another database cannot be renamed", async (place) => {
  let reads = 0;
  place.onRead = () => reads++;
  using renaming = replaced(Deno, "renameSync", () => {
    throw new Error("Input/output error");
  });
  const rescuing = place.rescue(true);
  await place.hasFailed();
  renaming[Symbol.dispose]();
  assert.equal(reads, 0);
  place.retry();
  await rescuing;
  assert.deepEqual(place.kinds(), ["plants.db", ...RENAMED, RESCUED]);
  assert.deepEqual(place.failures, ["Input/output error"]);
});
