/** A new store from a backup: complete, or refused with nothing changed. */
import assert from "node:assert/strict";
import {
  leaveJournal,
  makeNewer,
  makeOtherDatabase,
  overwrite,
  writeText,
} from "../support/damage.ts";
import { occurrences } from "../support/load.ts";
import { isThere } from "../support/needs.ts";
import { makeLog } from "../support/places.ts";
import {
  assertOneLine,
  assertSucceeded,
  Program,
  type ProgramOptions,
} from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { snapshot } from "../support/snapshot.ts";
import { assertInjected, traced, tracedOn } from "../support/strace.ts";
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
  async refuses(
    message: string | RegExp,
    { file = this.backup, status = 2 } = {},
  ): Promise<string> {
    const before = snapshot(this.path);
    const ended = await restore(this.store, file);
    assertOneLine(ended, status, message);
    assert.deepEqual(snapshot(this.path), before);
    return ended.stderr;
  }

  /** Restores the backup, and asserts that this adds one complete file. */
  async restores(options: ProgramOptions = {}, name = "plants.db") {
    const before = snapshot(this.path);
    assert.deepEqual(await restore(this.store, this.backup, options), {
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

/** A file that is not restored: how to make it of a backup, and the message. */
type BadBackup = readonly [
  name: string,
  make: (path: string) => unknown,
  problem: string,
];

const CORRUPT =
  "the database is corrupt, or its disk fails: name another backup";

const BAD_BACKUPS: readonly BadBackup[] = [
  ["is missing", Deno.removeSync, "no such file: name a backup"],
  ["is empty", Deno.truncateSync, "it is empty: name a backup"],
  [
    "is a directory",
    (path) => {
      Deno.removeSync(path);
      Deno.mkdirSync(path);
    },
    "it is a directory: name a backup in it",
  ],
  ["is a text", writeText, "not a Deno KV store: name a backup"],
  [
    "is another database",
    (path) => {
      Deno.removeSync(path);
      makeOtherDatabase(path);
    },
    "not a Deno KV store: name a backup",
  ],
  ...[100, 4_096, 100_000].map((bytes): BadBackup => [
    `is cut after ${bytes} bytes`,
    (path) => Deno.truncateSync(path, bytes),
    CORRUPT,
  ]),
  ...[1, 2, 10, 30].map((page): BadBackup => [
    `has an overwritten page ${page}`,
    (path) => overwrite(path, 4_096 * page, 4_096),
    CORRUPT,
  ]),
  [
    "is of a newer Deno",
    makeNewer,
    "a newer Deno stored plants in it, or they are damaged: restore it with the " +
    "plant-store that stored them, or name another backup",
  ],
];

for (const [name, make, problem] of BAD_BACKUPS) {
  test(`restore refuses a backup that ${name}, and changes nothing, with and without a store`, async (place) => {
    await make(place.backup);
    const message = `cannot restore ${place.backup}: ${problem}`;
    await place.refuses(message);
    place.copy("plants.db");
    await place.refuses(message);
  });
}

test("restore refuses a backup beside the log of another database, and changes nothing", async (place) => {
  await makeLog(`${place.backup}-wal`);
  const log = `${place.real}/backup.db-wal`;
  await place.refuses(
    `cannot restore ${place.backup}: ${log} belongs to another database: ` +
      "move that log away, or name another backup",
  );
  Deno.removeSync(place.backup);
  await place.refuses(
    `cannot restore ${place.backup}: backup.db is missing or empty, but its log is ` +
      `here: ${log}: name the database of that log`,
  );
});

test("restore refuses a special file as the backup, and changes nothing", async (place) => {
  for (const file of ["/dev/null", "/proc/self/mem", `${place.backup}/file`]) {
    await place.refuses(/ cannot restore \S+: /, { file });
  }
});

/** What is where a store is to be, and whether it is one of 100 plants. */
const THERE: readonly [
  name: string,
  make: (store: string) => unknown,
  isStore?: true,
][] = [
  ["a store", (store) => createStore(store, 100), true],
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
  ["an index alone", (store) => Deno.writeTextFileSync(`${store}-shm`, "")],
  [
    "a journal alone",
    (store) => Deno.writeTextFileSync(`${store}-journal`, "journal"),
  ],
  ["an empty file", (store) => Deno.writeTextFileSync(store, "")],
  ["a text", writeText],
  ["a directory", (store) => Deno.mkdirSync(store)],
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

/** Runs the command at the end of a message. */
async function obey(stderr: string): Promise<void> {
  const [, command = ""] = /: (mv .+)\n$/.exec(stderr) ?? [];
  await runTool("sh", ["-c", command]);
}

test("restore refuses the store itself, by any of its names, and changes nothing", async (place) => {
  Deno.renameSync(place.backup, place.store);
  const [link, hardLink] = [place.file("link.db"), place.file("hard.db")];
  Deno.symlinkSync(place.store, link);
  Deno.linkSync(place.store, hardLink);
  for (const file of [place.store, link, hardLink]) {
    await place.refuses(/: a store is there/, { file });
  }
});

test("restore makes the file that a link leads to, where it refuses a store", async (place) => {
  Deno.mkdirSync(place.file("data"));
  Deno.copyFileSync(originals.file("plants.db"), place.file("data/real.db"));
  Deno.symlinkSync("data/real.db", place.store);
  await obey(await place.refuses(/: a store is there/));
  await place.restores({}, "data/real.db");
  assert.equal(Deno.readLinkSync(place.store), "data/real.db");
});

test("restore refuses a path without a directory, and makes none", async (place) => {
  const store = place.file("no/plants.db");
  assertOneLine(
    await restore(store, place.backup),
    2,
    `cannot write ${place.real}/no/plants.db: no directory ${place.real}/no`,
  );
  assert.deepEqual(place.names(), ["backup.db"]);
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

test("only one of several restores to one path at the same time succeeds", async (place) => {
  const ended = await Promise.all(
    Array.from({ length: 3 }, () => restore(place.store, place.backup)),
  );
  const statuses = ended.map(({ status }) => status);
  assert.deepEqual(statuses.toSorted(), [0, 2, 2]);
  assert.deepEqual(place.names(), ["backup.db", "plants.db"]);
  assertSameLines(await exportLines(place.store), backedUp);
});

for (const command of ["backup", "restore"] as const) {
  const run = { backup: backUp, restore }[command];
  /** Where the command reads, and the paths of its arguments. */
  const arrange = (place: Place) => {
    if (command === "restore") return place.store;
    Deno.renameSync(place.backup, place.store);
    return place.backup;
  };

  withStrace.test(`a ${command} whose directory cannot be synced makes a complete file, says so, and fails`, async (place) => {
    using away = new TemporaryDirectory();
    const trace = away.file("trace");
    const inject = (path: string, ...expressions: string[]) =>
      tracedOn(path, trace, "trace=fsync", ...expressions);
    // The last sync of the directory, as a run before has counted them.
    using other = new Place();
    arrange(other);
    const options = inject(other.path);
    assertSucceeded(await run(other.store, other.backup, options));
    const syncs = occurrences(Deno.readTextFileSync(trace), /fsync\(/g);
    const last = `inject=fsync:error=EIO:when=${syncs}`;
    const made = arrange(place);
    assertOneLine(
      await run(place.store, place.backup, inject(place.path, last)),
      1,
      `cannot write ${made}: it is complete, but a power cut may remove it: ` +
        "cannot sync its directory: Input/output error (os error 5)",
    );
    assertInjected(trace);
    assertSameLines(await exportLines(made), backedUp);
  });

  withStrace.test(`a SIGINT ends a ${command}, which leaves nothing but a partial directory`, async (place) => {
    using away = new TemporaryDirectory();
    arrange(place);
    const before = place.names();
    const calls = "pwrite64";
    await using program = Program.spawn(
      [command, place.backup, "--kv", place.store],
      traced(
        away.file("trace"),
        `trace=${calls}`,
        `inject=${calls}:delay_enter=20000`,
      ),
    );
    await copyBegun(place);
    const { signal, stdout } = await program.stop("SIGINT");
    assert.deepEqual([signal, stdout], ["SIGINT", ""]);
    const [partial, ...others] = place.names()
      .filter((name) => !before.includes(name));
    assert.match(`${partial}`, /\.[\da-f]{8}\.partial$/);
    assert.deepEqual(others, []);
    assertSucceeded(await run(place.store, place.backup));
  });
}
