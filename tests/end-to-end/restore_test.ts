/** A new store from a backup: complete, or refused with nothing changed. */
import assert from "node:assert/strict";
import { isThere } from "../support/needs.ts";
import { makeLog } from "../support/places.ts";
import { assertOneLine, assertSucceeded, Program } from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { snapshot } from "../support/snapshot.ts";
import { traced } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { testsWith } from "../support/tests.ts";
import {
  assertSameLines,
  backUp,
  copyBegun,
  createAndKill,
  createStore,
  exportLines,
  restore,
} from "../support/transfer.ts";

/** A backup, which the tests copy, and its lines. */
let originals: TemporaryDirectory;
let backedUp: readonly string[];

Deno.test.beforeAll(async () => {
  originals = new TemporaryDirectory();
  const store = originals.file("plants.db");
  // Several pages of the listing, and of the database.
  backedUp = await createStore(store, 3_000);
  assertSucceeded(await backUp(store, originals.file("backup.db")));
});

Deno.test.afterAll(() => originals?.[Symbol.dispose]());

/** A directory with a backup. */
class Place extends TemporaryDirectory {
  readonly store = this.file("plants.db");
  readonly backup = this.file("backup.db");

  constructor() {
    super();
    Deno.copyFileSync(originals.file("backup.db"), this.backup);
  }

  /** Asserts that a restore is refused with one line, and changes nothing. */
  async refuses(message: RegExp): Promise<void> {
    const before = snapshot(this.path);
    assertOneLine(await restore(this.store, this.backup), 2, message);
    assert.deepEqual(snapshot(this.path), before);
  }

  /** Restores the backup, and asserts that this adds one complete file. */
  async restores(): Promise<void> {
    const { store, backup } = this;
    const before = snapshot(this.path);
    const { status, stderr } = await restore(store, backup);
    const message = `restored 3000 entries from ${backup} to ${store}\n`;
    assert.deepEqual([status, stderr], [0, message]);
    const { "plants.db": added = "", ...others } = snapshot(this.path);
    assert.match(added, /^600 /);
    assert.deepEqual(others, before);
    assertSameLines(await exportLines(store), backedUp);
  }
}

const makePlace = () => new Place();
const { test } = testsWith(makePlace);
const withStrace = testsWith(makePlace, isThere("strace"));
const onSmallDisk = testsWith(() => new SmallDisk(1), canMount());

test("restore refuses a backup beside the log of another database before it refuses the store, and changes nothing", async (place) => {
  await createStore(place.store, 1);
  await makeLog(`${place.backup}-wal`);
  await place.refuses(/backup\.db-wal belongs to another database,/);
});

/** What is where a store is to be. */
const THERE: readonly [name: string, make: (store: string) => unknown][] = [
  ["a killed store", (store) => createAndKill(store, 100)],
  ["a log alone", (store) => makeLog(`${store}-wal`)],
];

for (const [name, make] of THERE) {
  test(`restore refuses a path with ${name}, names its files, and succeeds when they are moved away`, async (place) => {
    await make(place.store);
    const files = ["plants.db", "plants.db-wal", "plants.db-shm"]
      .filter((name) => place.names().includes(name));
    const list = files.map((name) => place.file(name)).join(", ");
    const advice = `: stop the service, and move away ${list}$`;
    await place.refuses(new RegExp(advice, "m"));
    Deno.mkdirSync(place.file("old"));
    for (const name of files) {
      Deno.renameSync(place.file(name), place.file(`old/${name}`));
    }
    await place.restores();
  });
}

test("restore refuses a path with a directory, without advice to move it away", async (place) => {
  Deno.mkdirSync(place.store);
  await place.refuses(/: cannot write \S+plants\.db: it is a directory\n$/);
});

test("restore puts the log of a killed store into the new one, and leaves both as they were", async (place) => {
  const killed = place.file("killed.db");
  const ledger = await createAndKill(killed, 100);
  Deno.removeSync(`${killed}-shm`);
  const before = snapshot(place.path);
  assertSucceeded(await restore(place.store, killed));
  assert.equal(await ledger.assertFile(place.store), 100);
  const after = snapshot(place.path);
  for (const name in before) assert.equal(after[name], before[name]);
});

onSmallDisk.test("restore fails with one line on a full disk, and leaves nothing", async (disk) => {
  const ballast = disk.fill("ballast");
  // Room for a part of the copy only.
  Deno.truncateSync(ballast, Deno.statSync(ballast).size - 100_000);
  const backup = originals.file("backup.db");
  const ended = await restore(disk.file("plants.db"), backup);
  assertOneLine(ended, 1, /: cannot write \S+plants\.db: .*disk is full$/m);
  assert.deepEqual(disk.names(), ["ballast"]);
});

withStrace.test("a SIGINT ends a restore, which leaves nothing but a partial directory", async (place) => {
  using away = new TemporaryDirectory();
  const delay = "inject=pwrite64:delay_enter=20000";
  await using program = Program.spawn(
    ["restore", place.backup, "--kv", place.store],
    traced(away.file("trace"), "trace=pwrite64", delay),
  );
  await copyBegun(place);
  const { signal, stdout } = await program.stop("SIGINT");
  assert.deepEqual([signal, stdout], ["SIGINT", ""]);
  const [partial, ...others] = place.names()
    .filter((name) => name !== "backup.db");
  assert.match(`${partial}`, /^plants\.db\.[\da-f]{8}\.partial$/);
  assert.deepEqual(others, []);
  await place.restores();
});
