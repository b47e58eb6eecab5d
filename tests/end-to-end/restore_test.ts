/** A new store from a backup: complete, or refused with nothing changed. */
import assert from "node:assert/strict";
import { leaveJournal, overwrite } from "../support/damage.ts";
import { isThere } from "../support/needs.ts";
import { makeLog } from "../support/places.ts";
import { assertOneLine, assertSucceeded, Program } from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { snapshot } from "../support/snapshot.ts";
import { traced } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { testsWith } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";
import {
  assertSameLines,
  backUp,
  copyBegun,
  createAndKill,
  createStore,
  exportLines,
  restore,
} from "../support/transfer.ts";

const NOBODY = 65_534;

/** A backup and a store, which the tests copy, and the lines of the backup. */
let originals: TemporaryDirectory;
let backedUp: readonly string[];

Deno.test.beforeAll(async () => {
  originals = new TemporaryDirectory();
  const other = originals.file("other.db");
  // Several pages of the listing, and of the database.
  backedUp = await createStore(other, 3_000, "Restored");
  assertSucceeded(await backUp(other, originals.file("backup.db")));
  await createStore(originals.file("plants.db"), 100, "Old");
});

Deno.test.afterAll(() => originals?.[Symbol.dispose]());

/** A directory with a backup. */
class Place extends TemporaryDirectory {
  readonly store = this.file("plants.db");
  readonly backup = this.file("backup.db");
  readonly real = Deno.realPathSync(this.path);

  constructor() {
    super();
    this.copy("backup.db");
  }

  /** Copies one of the files of all tests. */
  copy(name: string): void {
    Deno.copyFileSync(originals.file(name), this.file(name));
  }

  /** Asserts that a restore is refused with one line, and changes nothing. */
  async refuses(message: string | RegExp): Promise<string> {
    const before = snapshot(this.path);
    const ended = await restore(this.store, this.backup);
    assertOneLine(ended, 2, message);
    assert.deepEqual(snapshot(this.path), before);
    return ended.stderr;
  }

  /** Restores the backup, and asserts that this adds one complete file. */
  async restores(name = "plants.db"): Promise<void> {
    const before = snapshot(this.path);
    assert.deepEqual(await restore(this.store, this.backup), {
      status: 0,
      signal: null,
      stdout: "",
      stderr:
        `restored 3000 entries from ${this.backup} to ${this.real}/${name}\n`,
    });
    const { [name]: added = "", ...others } = snapshot(this.path);
    assert.match(added, /^600 /);
    assert.deepEqual(others, before);
    assertSameLines(await exportLines(this.store), backedUp);
  }
}

const makePlace = () => new Place();
const { test } = testsWith(makePlace);
const byRoot = testsWith(makePlace, Deno.uid() === 0);
const withStrace = testsWith(makePlace, isThere("strace"));
const onSmallDisk = testsWith(() => new SmallDisk(1), canMount());

/** Files that are not restored: how to make them of a backup, and the problem. */
const BAD_BACKUPS: readonly [
  name: string,
  make: (path: string) => unknown,
  problem: RegExp,
][] = [
  ["is missing", Deno.removeSync, /no such file: name another backup$/m],
  [
    "has an overwritten page",
    (path) => overwrite(path, 4_096 * 30, 4_096),
    /the database is corrupt, or its disk fails: name another backup$/m,
  ],
  [
    "is beside the log of another database",
    (path) => makeLog(`${path}-wal`),
    /backup\.db-wal belongs to another database: move that log away, or name another backup$/m,
  ],
];

for (const [name, make, problem] of BAD_BACKUPS) {
  test(`restore refuses a backup that ${name} before it refuses the store, and changes nothing`, async (place) => {
    place.copy("plants.db");
    await make(place.backup);
    const start = `plant-store: cannot restore ${place.backup}: `;
    const stderr = await place.refuses(problem);
    assert.ok(stderr.startsWith(start), stderr);
  });
}

/** What is where a store is to be, and whether it is one of 100 plants. */
const THERE: readonly [
  name: string,
  make: (store: string) => unknown,
  isStore?: true,
][] = [
  ["a killed store", (store) => createAndKill(store, 100), true],
  [
    "a store with the journal of a killed process",
    async (store) => {
      await createStore(store, 100);
      leaveJournal(store, "DELETE FROM kv");
    },
    true,
  ],
  ["a log alone", (store) => makeLog(`${store}-wal`)],
];

for (const [name, make, isStore] of THERE) {
  test(`restore refuses a path with ${name}, and succeeds after the command in its message, which keeps it`, async (place) => {
    await make(place.store);
    const before = snapshot(place.path);
    const stderr = await place.refuses(
      /: cannot restore to \S+plants\.db: a store is there, or a part of one: stop the service, move it away, and repeat: mv /,
    );
    await obey(stderr);
    await place.restores();
    const after = snapshot(place.path);
    const [, time = ""] = /plants\.db(\.old-[-\dT.]+Z)/.exec(stderr) ?? [];
    for (const [name, content] of Object.entries(before)) {
      const old = name.replace("plants.db", `plants.db${time}`);
      assert.equal(after[old], content, old);
    }
    if (!isStore) return;
    const old = await exportLines(place.store + time);
    assert.equal(old.length, 100);
  });
}

test("restore refuses a path with a directory, without advice to move it away", async (place) => {
  Deno.mkdirSync(place.store);
  await place.refuses(/: cannot write \S+plants\.db: it is a directory\n$/);
});

/** Runs the command at the end of a message. */
async function obey(stderr: string): Promise<void> {
  const [, command = ""] = /: (mv .+)\n$/.exec(stderr) ?? [];
  await runTool("sh", ["-c", command]);
}

test("restore makes the file that a link leads to, where it refuses a store", async (place) => {
  Deno.mkdirSync(place.file("data"));
  Deno.copyFileSync(originals.file("plants.db"), place.file("data/real.db"));
  Deno.symlinkSync("data/real.db", place.store);
  await obey(await place.refuses(/: a store is there/));
  await place.restores("data/real.db");
  assert.equal(Deno.readLinkSync(place.store), "data/real.db");
});

test("restore puts the log of a killed store into the new one, and leaves both as they were", async (place) => {
  const killed = place.file("killed.db");
  const ledger = await createAndKill(killed, 100);
  Deno.removeSync(`${killed}-shm`);
  const before = snapshot(place.path);
  assertSucceeded(await restore(place.store, killed));
  assert.equal(await ledger.assertFile(place.store), 100);
  const after = snapshot(place.path);
  for (const name of Object.keys(before)) {
    assert.equal(after[name], before[name]);
  }
});

byRoot.test("a restore by root makes a store for the owner of its directory only", async (place) => {
  Deno.chmodSync(place.backup, 0o644);
  Deno.chownSync(place.path, NOBODY, NOBODY);
  // This also asserts the mode.
  await place.restores();
  const { uid, gid } = Deno.statSync(place.store);
  assert.deepEqual([uid, gid], [NOBODY, NOBODY]);
});

onSmallDisk.test("restore fails with one line on a full disk, and leaves nothing", async (disk) => {
  const backup = originals.file("backup.db");
  const ballast = disk.fill("ballast");
  // Room for a part of the copy only.
  Deno.truncateSync(ballast, Deno.statSync(ballast).size - 100_000);
  const ended = await restore(disk.file("plants.db"), backup);
  assertOneLine(ended, 1, /: cannot write \S+plants\.db: the disk is full$/m);
  assert.deepEqual(disk.names(), ["ballast"]);
});

withStrace.test("a SIGINT ends a restore, which leaves nothing but a partial directory", async (place) => {
  using away = new TemporaryDirectory();
  await using program = Program.spawn(
    ["restore", place.backup, "--kv", place.store],
    traced(
      away.file("trace"),
      "trace=pwrite64",
      "inject=pwrite64:delay_enter=20000",
    ),
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
