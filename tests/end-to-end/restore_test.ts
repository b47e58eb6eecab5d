/** A backup in place of the store: complete, or refused with nothing changed. */
import assert from "node:assert/strict";
import {
  leaveJournal,
  leaveWalMode,
  makeNewer,
  makeOtherDatabase,
  overwrite,
  writeText,
} from "../support/damage.ts";
import {
  eventually,
  isStored,
  occurrences,
  PLANT,
  send,
} from "../support/load.ts";
import { makeLog } from "../support/places.ts";
import {
  assertOneLine,
  assertSucceeded,
  type Ended,
  Program,
  type ProgramOptions,
} from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { snapshot } from "../support/snapshot.ts";
import {
  assertInjected,
  HAS_STRACE,
  traced,
  tracedOn,
} from "../support/strace.ts";
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
  toLine,
} from "../support/transfer.ts";

const NOBODY = 65_534;

/** A plant that neither the stores nor the backup have, and its line. */
const NEW_PLANT = { id: -1n, plant: PLANT };
const NEW_LINE = toLine(-1n, PLANT.name, PLANT.tag);

/** Plants of the backup: several pages, more than a pipe holds as lines. */
const PLANTS = 3_000;

/** The files that all tests copy, and the lines of the stores. */
let originals: TemporaryDirectory;
let backedUp: readonly string[];
let stored: readonly string[];

Deno.test.beforeAll(async () => {
  originals = new TemporaryDirectory();
  const other = originals.file("other.db");
  backedUp = await createStore(other, PLANTS, "Restored");
  assertSucceeded(await backUp(other, originals.file("backup.db")));
  stored = await createStore(originals.file("plants.db"), 2_500, "Old");
});

Deno.test.afterAll(() => originals?.[Symbol.dispose]());

/** A directory with a store and a backup. */
class StoreAndBackup extends TemporaryDirectory {
  readonly store = this.file("plants.db");
  readonly backup = this.file("backup.db");

  constructor() {
    super();
    for (const name of ["plants.db", "backup.db"]) {
      Deno.copyFileSync(originals.file(name), this.file(name));
    }
  }

  /** Asserts that a restore is refused with one line, and changes nothing. */
  async refuses(
    message: string | RegExp,
    status: number,
    file = this.backup,
  ): Promise<void> {
    const before = snapshot(this.path);
    assertOneLine(await restore(this.store, file), status, message);
    assert.deepEqual(snapshot(this.path), before);
  }

  /**
   * Restores the backup, and asserts that the store has its plants afterwards.
   * @param directory what contains the real store
   * @returns the second names of the old store and of the files beside it
   */
  async restores(
    options: ProgramOptions = {},
    directory = this.path,
  ): Promise<string[]> {
    const before = snapshot(this.path);
    const ended = await restore(this.store, this.backup, options);
    const kept = [...Deno.readDirSync(directory)]
      .filter(({ name }) => name.includes(".replaced-"))
      .map(({ name }) => `${directory}/${name}`).toSorted();
    const real = Deno.realPathSync(this.store);
    const [old] = kept;
    const note = old === undefined
      ? ", a new store: there was none"
      : old.endsWith("-wal")
      ? `, a new store: there was none; the log of a missing one is ${old}`
      : `; the old store is ${old}`;
    assert.deepEqual(ended, {
      status: 0,
      signal: null,
      stdout: "",
      stderr:
        `restored ${PLANTS} entries from ${this.backup} to ${real}${note}\n`,
    });
    for (const path of kept) assert.ok(path.startsWith(old ?? ""), path);
    if (old !== undefined) {
      assert.ok(old.startsWith(real), old);
      assert.match(
        old.slice(real.length),
        /^\.replaced-\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z(-wal)?$/,
      );
    }
    // Nothing else was left, and the backup is as it was.
    const after = snapshot(this.path);
    assert.equal(after["backup.db"], before["backup.db"]);
    for (const path of Object.keys(after)) {
      const isNew = !(path in before) && path !== "plants.db";
      assert.ok(!isNew || path.includes(".replaced-"), path);
    }
    assertSameLines(await exportLines(this.store), backedUp);
    return kept;
  }

  /**
   * Restores the backup, and asserts that the old store is one file with all its
   * plants, and these.
   * @returns the path of the file
   */
  async keeps(
    added: readonly string[] = [],
    options?: ProgramOptions,
    directory?: string,
  ): Promise<string> {
    const [old = "", ...others] = await this.restores(options, directory);
    assert.deepEqual(others, []);
    assertSameLines(await exportLines(old), [...added, ...stored]);
    return old;
  }
}

const makePlace = () => new StoreAndBackup();
const { test } = testsWith(makePlace);
const byRoot = testsWith(makePlace, Deno.uid() === 0);
const withStrace = testsWith(makePlace, HAS_STRACE);
const onSmallDisk = testsWith(() => new SmallDisk(1), canMount());

/** A file that is not restored: how to make it of a backup, and the message. */
type RefusedBackup = readonly [
  name: string,
  make: (path: string) => void,
  problem: string,
];

const REFUSED_BACKUPS: readonly RefusedBackup[] = [
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
  ...[100, 4_096, 100_000].map((bytes): RefusedBackup => [
    `is cut after ${bytes} bytes`,
    (path) => Deno.truncateSync(path, bytes),
    "it is corrupt: name another backup",
  ]),
  ...[1, 2, 10, 30].map((page): RefusedBackup => [
    `has an overwritten page ${page}`,
    (path) => overwrite(path, 4_096 * page, 4_096),
    "it is corrupt: name another backup",
  ]),
  [
    "is of a newer Deno",
    makeNewer,
    "a newer Deno stored plants in it, or they are damaged: restore it with the " +
    "plant-store that wrote it, or name another backup",
  ],
];

for (const [name, make, problem] of REFUSED_BACKUPS) {
  test(`restore refuses a backup that ${name}, and changes nothing`, async (place) => {
    await make(place.backup);
    await place.refuses(`cannot restore ${place.backup}: ${problem}`, 2);
  });
}

test("restore refuses a backup beside the log of another database", async (place) => {
  await makeLog(`${place.backup}-wal`);
  const log = `${Deno.realPathSync(place.path)}/backup.db-wal`;
  await place.refuses(
    `cannot restore ${place.backup}: ${log} belongs to another database: ` +
      "move that log away, or name another backup",
    2,
  );
  Deno.removeSync(place.backup);
  await place.refuses(
    `cannot restore ${place.backup}: backup.db is missing or empty, but its log is ` +
      `here: ${log}: name the database of that log`,
    2,
  );
});

test("restore refuses the store itself, by any of its names", async (place) => {
  const [link, hardLink] = [place.file("link.db"), place.file("hard.db")];
  Deno.symlinkSync(place.store, link);
  Deno.linkSync(place.store, hardLink);
  for (const file of [place.store, link, hardLink]) {
    const message = `${file} is the store itself: name a backup of it`;
    await place.refuses(message, 2, file);
  }
});

test("restore refuses a special file as the backup with one line", async (place) => {
  for (const file of ["/dev/null", "/proc/self/mem", `${place.store}/file`]) {
    await place.refuses(/ cannot restore \S+: /, 2, file);
  }
});

test("restore refuses a store that is a directory, or has none", async (place) => {
  Deno.removeSync(place.store);
  Deno.mkdirSync(place.store);
  await place.refuses(
    `cannot replace ${place.store}: it is not a regular file: name another ` +
      "file with --kv or KV_PATH",
    2,
  );
  const before = snapshot(place.path);
  const store = place.file("no/plants.db");
  assertOneLine(
    await restore(store, place.backup),
    2,
    `cannot write ${Deno.realPathSync(place.path)}/no/plants.db: ` +
      `no directory ${Deno.realPathSync(place.path)}/no`,
  );
  assert.deepEqual(snapshot(place.path), before);
});

test("restore refuses a link with the log of its database beside it, and succeeds after the command in its message", async (place) => {
  const moved = place.file("moved.db");
  await createAndKillOne(place.store);
  Deno.renameSync(place.store, moved);
  Deno.symlinkSync(moved, place.store);
  const { stderr } = await restore(place.store, place.backup);
  const [, command = ""] =
    /: it is a link, .*: (mv -n \S+plants\.db-wal \S+moved\.db-wal && mv .*)\n$/
      .exec(stderr) ?? [];
  await place.refuses(/: it is a link, but the log of its database is /, 2);
  await runTool("sh", ["-c", command]);
  await place.restores();
  const old = place.names().find((name) => name.includes(".replaced-")) ?? "";
  assertSameLines(await exportLines(place.file(old)), [NEW_LINE, ...stored]);
});

test("restore puts the log of a killed store into the restored one", async (place) => {
  const killed = place.file("killed.db");
  const ledger = await createAndKill(killed, 100);
  Deno.removeSync(`${killed}-shm`);
  const log = snapshot(place.path)["killed.db-wal"];
  assertSucceeded(await restore(place.store, killed));
  assert.equal(snapshot(place.path)["killed.db-wal"], log);
  assert.equal(await ledger.assertFile(place.store), 100);
});

/** Processes that have the store open; each ends when it is disposed of. */
const USERS: readonly [
  name: string,
  start: (store: string, place: StoreAndBackup) => Promise<Program>,
  added?: readonly string[],
][] = [
  ["a service", (store) => Program.start(["--kv", store]), [NEW_LINE]],
  [
    "an import that waits for its input",
    async (store, place) => {
      const pipe = place.file("pipe");
      await runTool("mkfifo", [pipe]);
      // With its own end to write to, the import never reads the end of the input.
      const program = Program.spawn(["import", "-", "--kv", store], {
        shell: `exec "$0" "$@" <>${pipe}`,
      });
      await Deno.writeTextFile(pipe, `${NEW_LINE}\n`);
      Deno.removeSync(pipe);
      await eventually(
        (lines) => lines.includes(NEW_LINE),
        () => exportLines(store),
      );
      return program;
    },
    [NEW_LINE],
  ],
  [
    "an export whose reader is slow",
    async (store, place) => {
      const pipe = place.file("pipe");
      await runTool("mkfifo", [pipe]);
      const program = Program.spawn(["export", "--kv", store], {
        shell: `exec "$0" "$@" >${pipe}`,
      });
      // It has opened the store when it writes, and writes more than fits.
      using reader = await Deno.open(pipe, { read: true, write: true });
      await reader.read(new Uint8Array(1));
      Deno.removeSync(pipe);
      program.process.kill("SIGSTOP");
      return program;
    },
  ],
];

for (const [name, start, added] of USERS) {
  test(`restore refuses a store that ${name} has open`, async (place) => {
    await using program = await start(place.store, place);
    await place.refuses(
      `cannot replace ${place.store}: another process has it open: stop it first`,
      1,
    );
    if (program.origin !== "") {
      // The service is not disturbed.
      assert.ok(isStored(await send(program, NEW_PLANT)));
      assertSucceeded(await program.stop());
    }
    await program.stop("SIGKILL");
    await place.keeps(added);
  });
}

/** Old stores of one readable database: each keeps all plants in one file. */
const READABLE: readonly [
  name: string,
  make: (store: string) => void | Promise<void>,
  added?: readonly string[],
][] = [
  ["closed", () => {}],
  ["killed, with a log", createAndKillOne, [NEW_LINE]],
  ["not in WAL mode", leaveWalMode],
  [
    "killed by the previous version, with a journal",
    (store) => leaveJournal(store, "DELETE FROM kv"),
  ],
];

/** Kills a service on a store: its log, and nothing else, has a new plant. */
async function createAndKillOne(store: string): Promise<void> {
  await using program = await Program.start(["--kv", store]);
  assert.ok(isStored(await send(program, NEW_PLANT)));
  await program.stop("SIGKILL");
}

for (const [name, make, added] of READABLE) {
  test(`restore keeps an old store that is ${name} under a second name`, async (place) => {
    await make(place.store);
    await place.keeps(added);
  });
}

/** Old files that SQLite cannot read: each is kept as it is, with its log. */
const UNREADABLE: readonly [
  name: string,
  make: (store: string) => void | Promise<void>,
  suffixes: readonly string[],
][] = [
  ["a corrupt store", (store) => overwrite(store, 1_024), [""]],
  [
    "a killed store without a header",
    async (store) => {
      await createAndKillOne(store);
      overwrite(store, 0, 18);
    },
    ["", "-wal"],
  ],
  [
    "a killed store that was cut",
    async (store) => {
      await createAndKillOne(store);
      Deno.truncateSync(store, 8_192);
    },
    ["", "-wal"],
  ],
  ["a text", writeText, [""]],
  [
    "a store beside the log of another database",
    async (store) => {
      leaveWalMode(store);
      await makeLog(`${store}-wal`);
    },
    ["", "-wal"],
  ],
  [
    "a missing database with a log",
    async (store) => {
      Deno.removeSync(store);
      await makeLog(`${store}-wal`);
    },
    ["-wal"],
  ],
  ["an empty file", Deno.truncateSync, [""]],
];

for (const [name, make, suffixes] of UNREADABLE) {
  test(`restore keeps ${name} as it is`, async (place) => {
    await make(place.store);
    const before = snapshot(place.path);
    const old = (await place.restores()).filter((it) => !it.endsWith("-shm"));
    const after = snapshot(place.path);
    assert.deepEqual(
      old.map((path) => after[path.slice(place.path.length + 1)]),
      suffixes.map((suffix) => before[`plants.db${suffix}`]),
    );
  });
}

test("restore without an old store creates one, for the user only", async (place) => {
  Deno.removeSync(place.store);
  assert.deepEqual(await place.restores(), []);
  assert.equal((Deno.statSync(place.store).mode ?? 0) & 0o777, 0o600);
});

test("restore replaces the file behind a link, and keeps the old one beside it", async (place) => {
  Deno.mkdirSync(place.file("data"));
  const real = place.file("data/real.db");
  Deno.renameSync(place.store, real);
  Deno.symlinkSync("data/real.db", place.store);
  await place.keeps([], {}, place.file("data"));
  assert.equal(Deno.readLinkSync(place.store), "data/real.db");
});

test("a restored store is served with exactly the plants of the backup", async (place) => {
  await place.restores();
  await using program = await Program.start(["--kv", place.store]);
  const plant = { name: "Restored 1" };
  assert.ok(isStored(await send(program, { id: 1n, plant })));
  assert.equal((await send(program, { id: 1n, plant: PLANT })).status, 409);
  assert.ok(isStored(await send(program, NEW_PLANT)));
  assertSucceeded(await program.stop());
  assertSameLines(await exportLines(place.store), [NEW_LINE, ...backedUp]);
});

byRoot.test("a restore by root keeps owner and mode of the old store", async (place) => {
  Deno.chmodSync(place.store, 0o640);
  Deno.chownSync(place.store, NOBODY, NOBODY);
  for (const path of [...await place.restores(), place.store]) {
    assert.deepEqual(ownerAndMode(path), [NOBODY, NOBODY, 0o640]);
  }
});

byRoot.test("a restore by root without an old store keeps the owner of the directory", async (place) => {
  Deno.removeSync(place.store);
  Deno.chownSync(place.path, NOBODY, NOBODY);
  assert.deepEqual(await place.restores(), []);
  assert.deepEqual(ownerAndMode(place.store), [NOBODY, NOBODY, 0o600]);
});

function ownerAndMode(path: string) {
  const { uid, gid, mode } = Deno.statSync(path);
  return [uid, gid, (mode ?? 0) & 0o777];
}

onSmallDisk.test("restore without room for the copy fails with one line", async (disk) => {
  const store = disk.file("plants.db");
  const lines = await createStore(store, 10);
  disk.fill("ballast");
  const before = snapshot(disk.path);
  const ended = await restore(store, originals.file("backup.db"));
  assertOneLine(ended, 1, /: cannot write \S+plants\.db: .*full/);
  assert.deepEqual(snapshot(disk.path), before);
  Deno.removeSync(disk.file("ballast"));
  assertSameLines(await exportLines(store), lines);
});

onSmallDisk.test("restore without room for the log in the old store fails with one line, and that store keeps its plants", async (disk) => {
  using directory = new TemporaryDirectory();
  const backup = directory.file("backup.db");
  await createStore(backup, 10);
  const store = disk.file("plants.db");
  const plant = { name: "x".repeat(15_000) };
  const ledger = await createAndKill(store, 24, plant);
  const ballast = disk.fill("ballast");
  // Room for the copy only.
  Deno.truncateSync(ballast, Deno.statSync(ballast).size - 250_000);
  const ended = await restore(store, backup);
  assertOneLine(ended, 1, /: cannot replace \S+plants\.db: .*full/);
  Deno.removeSync(ballast);
  assert.equal(await ledger.assertFile(store), 24);
});

withStrace.test("restore on a file system without hard links is refused, and succeeds after the command in its message", async (place) => {
  using away = new TemporaryDirectory();
  const trace = away.file("trace");
  const calls = "?link,linkat";
  const withoutLinks = traced(
    trace,
    `trace=${calls}`,
    `inject=${calls}:error=EPERM`,
  );
  const ended = await restore(place.store, place.backup, withoutLinks);
  assertInjected(trace);
  assert.deepEqual(place.names(), ["backup.db", "plants.db"]);
  assertSameLines(await exportLines(place.store), stored);
  assertOneLine(
    ended,
    2,
    /: its file system has no hard links: move it away first: mv /,
  );
  const [, command = "", left = ""] =
    /: (mv \S+ (\S+))\n$/.exec(ended.stderr) ??
      [];
  await runTool("sh", ["-c", command]);
  assertSucceeded(await restore(place.store, place.backup, withoutLinks));
  assertSameLines(await exportLines(place.store), backedUp);
  assertSameLines(await exportLines(left), stored);
});

const UNSYNCED =
  "cannot sync its directory, so it may lose its name in a power cut: " +
  "Input/output error (os error 5)";

for (
  const [old, make] of [
    ["a killed store", createAndKillOne],
    ["a text", writeText],
  ] as const
) {
  withStrace.test(`restore over ${old} that cannot rename the copy undoes what it has done`, async (place) => {
    using away = new TemporaryDirectory();
    await make(place.store);
    const isStore = make === createAndKillOne;
    const before = isStore ? [NEW_LINE, ...stored] : snapshot(place.path);
    const trace = away.file("trace");
    // As a mount point.
    const renames = "?rename,renameat,renameat2";
    const ended = await restore(
      place.store,
      place.backup,
      traced(
        trace,
        `trace=?link,linkat,${renames}`,
        `inject=${renames}:error=EBUSY:when=1`,
      ),
    );
    assertInjected(trace);
    assertOneLine(ended, 1, / cannot replace \S+plants\.db: .*busy/);
    if (isStore) {
      assert.deepEqual(place.names(), ["backup.db", "plants.db"]);
      assert.deepEqual(await exportLines(place.store), before);
    } else assert.deepEqual(snapshot(place.path), before);
  });
}

withStrace.test("a backup or a restore whose directory cannot be synced is complete, says so, and fails", async (place) => {
  using away = new TemporaryDirectory();
  const trace = away.file("trace");
  /** Fails the last sync of the directory, as a run before has counted them. */
  async function withoutLastSync(
    run: (place: StoreAndBackup, options: ProgramOptions) => Promise<Ended>,
  ): Promise<Ended> {
    const inject = (path: string, ...expressions: string[]) =>
      tracedOn(path, trace, "trace=fsync", ...expressions);
    using other = new StoreAndBackup();
    assertSucceeded(await run(other, inject(other.path)));
    const syncs = occurrences(Deno.readTextFileSync(trace), /fsync\(/g);
    const last = `inject=fsync:error=EIO:when=${syncs}`;
    const ended = await run(place, inject(place.path, last));
    assertInjected(trace);
    assert.equal(ended.status, 1);
    assert.ok(ended.stderr.includes(UNSYNCED), ended.stderr);
    return ended;
  }

  const copied = await withoutLastSync((place, options) =>
    backUp(place.store, place.file("copy.db"), options)
  );
  assert.match(copied.stderr, /copy\.db is a complete copy, 2500 entries: /);
  assertSameLines(await exportLines(place.file("copy.db")), stored);
  const restored = await withoutLastSync((place, options) =>
    restore(place.store, place.backup, options)
  );
  assert.match(restored.stderr, /^restored 3000 entries .*; the old store is /);
  assertSameLines(await exportLines(place.store), backedUp);
});

for (const command of ["backup", "restore"]) {
  withStrace.test(`a SIGINT ends a ${command}, which leaves the stores and a partial directory`, async (place) => {
    using away = new TemporaryDirectory();
    const before = place.names();
    const isBackup = command === "backup";
    const file = isBackup ? place.file("copy.db") : place.backup;
    const calls = "pwrite64";
    await using program = Program.spawn(
      [command, file, "--kv", place.store],
      traced(
        away.file("trace"),
        `trace=${calls}`,
        `inject=${calls}:delay_enter=20000`,
      ),
    );
    await copyBegun(place);
    const { signal, stdout } = await program.stop("SIGINT");
    assert.deepEqual([signal, stdout], ["SIGINT", ""]);
    // And the empty log of a store that was open.
    const [partial, ...others] = place.names().filter((name) =>
      !before.includes(name) && !/^plants\.db-(wal|shm)$/.test(name)
    );
    assert.match(`${partial}`, /\.[\da-f]{8}\.partial$/);
    assert.deepEqual(others, []);
    assertSameLines(await exportLines(place.store), stored);
    assertSucceeded(await restore(place.store, place.backup));
  });
}

withStrace.test("a service that starts during a restore stores nothing in the old store", async (place) => {
  using away = new TemporaryDirectory();
  const trace = away.file("trace");
  const renames = "?rename,renameat,renameat2";
  const links = "?link,linkat";
  const restoring = restore(
    place.store,
    place.backup,
    traced(
      trace,
      `trace=${links},${renames}`,
      `inject=${renames}:delay_enter=2000000`,
    ),
  );
  // It locks the old store before it gives it a second name.
  await eventually(
    (text) => text.includes("link"),
    () => Deno.readTextFile(trace).catch(() => ""),
  );
  await using program = Program.spawn(["--port", "0", "--kv", place.store]);
  let lines = backedUp;
  const listens = await program.printed(/listens on (\S+)\n/).catch(() => []);
  program.origin = listens[1] ?? "";
  if (program.origin === "") {
    assertOneLine(await program.ended(), 1, / cannot store plants in /);
  } else {
    assert.ok(isStored(await send(program, NEW_PLANT)));
    lines = [NEW_LINE, ...backedUp];
  }
  assertSucceeded(await restoring);
  const { signal } = await program.stop();
  assert.equal(signal, null);
  assertSameLines(await exportLines(place.store), lines);
  const old = place.names().filter((name) => name.includes(".replaced-"));
  assert.equal(old.length, 1);
  assertSameLines(await exportLines(place.file(old[0] ?? "")), stored);
  assertInjected(trace);
});

test("restores at the same time keep every store", async (place) => {
  const ended = await Promise.all(
    Array.from({ length: 3 }, () => restore(place.store, place.backup)),
  );
  for (const { status, stderr } of ended) {
    if (status === 0) assert.match(stderr, /^restored 3000 entries from /);
    else assert.match(stderr, /another process has (it open|opened it)/);
  }
  const isDone = ended.filter(({ status }) => status === 0);
  const old = place.names().filter((name) => name.includes(".replaced-"));
  assert.equal(old.length, isDone.length);
  assert.ok(isDone.length > 0);
  assertSameLines(await exportLines(place.file(old[0] ?? "")), stored);
  assertSameLines(await exportLines(place.store), backedUp);
});
