import assert from "node:assert/strict";
import { basename } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import type { KvStore } from "../../src/store/kv_store.ts";
import type { StoreLocation } from "../../src/store/location.ts";
import { openStore, openStoreToRead } from "../../src/store/open.ts";
import { toStoreError } from "../../src/store/store_error.ts";
import {
  FileError,
  type FileProblem,
  toFileError,
} from "../../src/files/file_error.ts";
import {
  execute,
  leaveJournal,
  makeLastNewer,
  makeNewer,
  makeOtherDatabase,
  overwrite,
  writeText,
} from "../support/damage.ts";
import { KV_ENV } from "../support/kv_server.ts";
import { eventually, range } from "../support/load.ts";
import { makeStore, PLANT } from "../support/places.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { fileStore, storeError } from "../support/stores.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";
import { test, testsIf, testsWith } from "../support/tests.ts";

const byRoot = testsIf(Deno.uid() === 0);
const onSmallDisk = testsWith(() => new SmallDisk(4), canMount());

/** The plants of the stores that {@link makeStore} makes. */
const PLANTS = [{ id: 1n, plant: PLANT }];

const TOKEN = KV_ENV.DENO_KV_ACCESS_TOKEN;

const FILE = fileAt("/plants.db");
const SERVER = { kind: "server", url: "http://kv.test", token: TOKEN } as const;

function fileAt(path: string): StoreLocation {
  return { kind: "file", path };
}

/** Returns the rows of a store, or the bytes of any other file. */
function contentOf(path: string, problem: FileProblem): unknown {
  if (problem === "directory") return undefined;
  if (problem !== "newer format") return Deno.readFileSync(path);
  using database = new DatabaseSync(path, { readOnly: true });
  return database.prepare("SELECT hex(k), hex(v) FROM kv").all();
}

const PAGE_BYTES = 4_096;

const NOT_A_STORE = /^not a Deno KV store$/;

const CORRUPT = [
  "corrupt",
  /^the database is corrupt: restore a backup$/,
] as const;

/** Asserts that a store is not opened, and why. */
async function assertRefused(
  opening: Promise<KvStore>,
  ...expected: Parameters<typeof storeError>
): Promise<void> {
  await assert.rejects(opening, storeError(...expected));
}

async function makeCorrupt(...[path, ...bytes]: Parameters<typeof overwrite>) {
  await makeStore(path);
  overwrite(path, ...bytes);
}

/** Paths without a store: what is there, the problem, and its message. */
const NO_STORES: readonly [
  name: string,
  make: (path: string) => void | Promise<void>,
  problem: FileProblem,
  message: RegExp,
][] = [
  ["a directory", Deno.mkdirSync, "directory", /directory/],
  ["a text", writeText, "not a store", NOT_A_STORE],
  ["another database", makeOtherDatabase, "not a store", NOT_A_STORE],
  [
    "a store that a newer Deno wrote",
    async (path) => {
      await makeStore(path);
      makeNewer(path);
    },
    "newer format",
    /^a newer Deno stored plants in it, or they are damaged$/,
  ],
  [
    "a store to which a newer Deno wrote the tenth plant",
    async (path) => {
      const store = await openStore(fileAt(path));
      await store.commit(MANY.slice(0, 10));
      store.close();
      makeLastNewer(path);
    },
    "newer format",
    /^a newer Deno stored plants in it, or they are damaged$/,
  ],
  ["a corrupt store", (path) => makeCorrupt(path, 1_024), ...CORRUPT],
  [
    "a store whose version is gone",
    async (path) => {
      await makeStore(path);
      execute(path, "DELETE FROM migration_state");
    },
    ...CORRUPT,
  ],
  // Deno reads these, and panics.
  ...[6, 8, 9].map((page): typeof NO_STORES[number] => [
    `a store whose page ${page} is corrupt`,
    (path) => makeCorrupt(path, (page - 1) * PAGE_BYTES, PAGE_BYTES),
    ...CORRUPT,
  ]),
];

for (const [name, make, problem, message] of NO_STORES) {
  test(`openStore() refuses ${name}, openStoreToRead() also if none of it can be read, and both keep its content`, async ({ directory, store: path }) => {
    await make(path);
    const content = contentOf(path, problem);
    await assertRefused(openStore(fileAt(path)), problem, message);
    const reading = openStoreToRead(fileAt(path));
    // Its other plants can be read.
    if (problem === "newer format") (await reading).close();
    else await assertRefused(reading, problem, message);
    assert.deepEqual(directory.names(), ["plants.db"]);
    assert.deepEqual(contentOf(path, problem), content);
  });
}

test("openStore() refuses a missing directory, and openStoreToRead() a missing or empty file; both create nothing", async ({ directory }) => {
  const path = directory.file("missing/plants.db");
  const noDirectory = /^no directory .*\/missing$/;
  await assertRefused(openStore(fileAt(path)), "no directory", noDirectory);
  await assertRefused(openStoreToRead(fileAt(path)), "missing", "no such file");
  assert.deepEqual(directory.names(), []);
  const empty = directory.file("empty.db");
  Deno.createSync(empty).close();
  await assertRefused(openStoreToRead(fileAt(empty)), "missing", "it is empty");
  assert.equal(Deno.statSync(empty).size, 0);
});

Deno.test("openStore() creates a store in a missing or an empty file, which openStoreToRead() reads; both leave no file beside it", async () => {
  for (const isEmpty of [false, true]) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    if (isEmpty) Deno.createSync(path).close();
    const store = await openStore(fileAt(path));
    assert.equal(store.isNew, true);
    // Others may not read the plants.
    const { mode } = Deno.statSync(path);
    if (!isEmpty) assert.equal((mode ?? 0) & 0o777, 0o600);
    await store.commit(PLANTS);
    store.close();
    assert.deepEqual(directory.names(), ["plants.db"]);
    const reader = await openStoreToRead(fileAt(path));
    assert.equal(reader.isNew, false);
    assert.deepEqual(await Array.fromAsync(reader.pages()), [PLANTS]);
    reader.close();
    assert.deepEqual(directory.names(), ["plants.db"]);
  }
});

byRoot.test("openStore() by root gives a new file to the owner of its directory", async ({ directory, store: path }) => {
  Deno.chownSync(directory.path, 65_534, 65_533);
  const store = await openStore(fileAt(path));
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    const { uid, gid } = Deno.statSync(file);
    assert.deepEqual([uid, gid], [65_534, 65_533]);
  }
  store.close();
});

fileStore.test("commit() is locked and probe() fails while another process holds the lock, and write nothing", async ({ store, path }) => {
  {
    using _lock = new StoreLock(path);
    assert.equal(await store.commit(PLANTS), "locked");
    await assert.rejects(
      store.probe(),
      storeError("in use", "database is locked by another process"),
    );
  }
  assert.deepEqual(await store.read([1n]), new Map());
  await store.probe();
  assert.equal(await store.commit(PLANTS), "committed");
});

fileStore.test("commit() does not wait for a probe while another process holds the lock", async ({ store, path }) => {
  let id = 0n;
  await eventually((result) => result === "locked", async () => {
    const lock = new StoreLock(path);
    const probed = store.probe().catch(() => {});
    const committed = store.commit([{ id: ++id, plant: PLANT }]);
    // SQLite itself would wait until the lock is released, and write both. On a
    // busy machine the commit may start as late, but not every time.
    await sleep(100);
    lock[Symbol.dispose]();
    await probed;
    return committed;
  });
});

/** Asserts that every operation on a store fails with a message. */
async function assertFails(store: KvStore, message: string): Promise<void> {
  const failed = storeError("other", message);
  await assert.rejects(store.commit(PLANTS), failed);
  await assert.rejects(store.read([1n]), failed);
  await assert.rejects(store.probe(), failed);
  assert.equal(store.checkFiles(), message);
}

fileStore.test("commit(), read() and probe() fail if the database file is gone", async ({ store, path }) => {
  Deno.renameSync(path, `${path}.away`);
  await assertFails(store, "it was deleted or moved");
});

const LOG_GONE = "its plants.db-wal was deleted or replaced";

fileStore.test("commit(), read() and probe() fail once checkFiles() has found the log gone", async ({ store, path }) => {
  Deno.removeSync(`${path}-wal`);
  assert.equal(store.checkFiles(), LOG_GONE);
  await assertFails(store, LOG_GONE);
  // Not even into the files that are open: another process may use them.
  assert.deepEqual(await Array.fromAsync(store.pages()), [[]]);
});

fileStore.test("probe() fails if checkFiles() finds the log gone meanwhile", async ({ store, path }) => {
  const probed = assert.rejects(store.probe(), storeError("other", LOG_GONE));
  Deno.removeSync(`${path}-wal`);
  store.checkFiles();
  await probed;
});

test("openStore() refuses a store beside saved plants, except for their import, and openStoreToRead() opens it", async ({ directory, store: path }) => {
  await makeStore(path);
  const saved = `${path}.rescued-2026-01-01T000000.000Z.jsonl`;
  Deno.createSync(saved).close();
  const message = `plants that may not be in it were saved in ${saved}`;
  const names = directory.names();
  await assertRefused(openStore(fileAt(path)), "saved plants", message);
  (await openStoreToRead(fileAt(path))).close();
  (await openStore(fileAt(path), true)).close();
  assert.deepEqual(directory.names(), names);
  // An empty store would make the ids free again.
  Deno.removeSync(path);
  await assertRefused(openStore(fileAt(path)), "saved plants", message);
  assert.deepEqual(directory.names(), names.slice(1));
});

test("openStore() refuses a store beside plants that are being saved, and a name that is too long", async ({ directory, store: path }) => {
  const partial = `${path}.rescued-2026-01-01T000000.000Z.jsonl.partial`;
  Deno.createSync(partial).close();
  await assertRefused(
    openStore(fileAt(path)),
    "saved plants",
    "plants that may not be in it are being saved, or were by a service that " +
      `was killed, in ${partial}`,
  );
  const tooLong = fileAt(directory.file("x".repeat(201)));
  const message = /^the name of the store has 201 bytes, and may /;
  await assertRefused(openStore(tooLong), "bad path", message);
  assert.deepEqual(directory.names(), [basename(partial)]);
});

/** The plants of a store of many pages, without pages of long values. */
const MANY = range(1n, 1_000)
  .map((id) => ({ id, plant: { name: "x".repeat(500) } }));

/** Makes a store with these plants. */
async function makeLarge(path: string): Promise<void> {
  const store = await openStore(fileAt(path));
  for (let i = 0; i < MANY.length; i += 100) {
    await store.commit(MANY.slice(i, i + 100));
  }
  store.close();
}

/** Makes a store with these plants, and damages a part of it. */
async function makeDamaged(path: string): Promise<void> {
  await makeLarge(path);
  overwrite(path, 100 * PAGE_BYTES, PAGE_BYTES);
}

test("pages() of a corrupt store has every plant before the damage, and then fails", async ({ store: path }) => {
  await makeDamaged(path);
  const store = await openStoreToRead(fileAt(path));
  const found: unknown[] = [];
  await assert.rejects(async () => {
    for await (const page of store.pages()) found.push(...page);
  }, storeError(...CORRUPT));
  assert.ok(found.length > 10 && found.length < MANY.length, `${found.length}`);
  assert.deepEqual(found, MANY.slice(0, found.length));
  // Only the damage is missing: the next plant cannot be read.
  const [next] = MANY.slice(found.length);
  await assert.rejects(store.read([next?.id ?? 0n]), storeError(...CORRUPT));
  store.close();
});

test("pages() of a store with an old page in the place of a newer one has no plant twice, and fails unless it has all", async ({ directory, store: path }) => {
  await makeLarge(path);
  const bytes = Deno.readFileSync(path);
  const copy = directory.file("copy.db");
  let failures = 0;
  for (let page = 40; page < 140; page += 10) {
    const from = (page - 20) * PAGE_BYTES;
    const damaged = bytes.slice()
      .copyWithin(page * PAGE_BYTES, from, from + PAGE_BYTES);
    Deno.writeFileSync(copy, damaged);
    const store = await openStoreToRead(fileAt(copy));
    const found: bigint[] = [];
    try {
      for await (const plants of store.pages()) {
        for (const plant of plants) {
          if (typeof plant !== "string") found.push(plant.id);
        }
      }
      assert.equal(found.length, MANY.length);
    } catch (error) {
      storeError(...CORRUPT)(error);
      failures++;
    }
    assert.deepEqual(
      found,
      [...new Set(found)].toSorted((a, b) => a < b ? -1 : 1),
    );
    store.close();
  }
  assert.ok(failures > 0);
});

test("a store that was found corrupt accepts no further write, and does not recover", async ({ store: path }) => {
  await makeDamaged(path);
  const store = await openStore(fileAt(path));
  assert.equal(await store.commit([{ id: 2_000n, plant: PLANT }]), "committed");
  await assert.rejects(Array.fromAsync(store.pages()), storeError(...CORRUPT));
  const corrupt = storeError("other", CORRUPT[1]);
  const created = store.commit([{ id: 2_001n, plant: PLANT }]);
  await assert.rejects(created, corrupt);
  await assert.rejects(store.probe(), corrupt);
  assert.match(store.checkFiles() ?? "", CORRUPT[1]);
  store.close();
});

test("openStore() waits while another process holds the lock", async ({ store: path }) => {
  await makeStore(path);
  const lock = new StoreLock(path);
  const opening = openStore(fileAt(path));
  const early = await Promise.race([opening, sleep(200, "waits")]);
  lock[Symbol.dispose]();
  assert.equal(early, "waits");
  (await opening).close();
});

Deno.test("openStore() and openStoreToRead() open a store that a killed process left with a journal, and roll it back", async () => {
  for (const open of [openStore, openStoreToRead]) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    await makeStore(path);
    // As an earlier version that was killed while it entered WAL mode.
    leaveJournal(path, "UPDATE kv SET v = zeroblob(100000)");
    const store = await open(fileAt(path));
    assert.deepEqual(await Array.fromAsync(store.pages()), [PLANTS]);
    store.close();
    assert.deepEqual(directory.names(), ["plants.db"]);
  }
});

test("openStore() at the same time by several callers creates one store", async ({ directory, store: path }) => {
  const openings = Array.from({ length: 4 }, () => openStore(fileAt(path)));
  const stores = await Promise.all(openings);
  assert.ok(stores.some(({ isNew }) => isNew));
  const results = [];
  for (const store of stores) results.push(await store.commit(PLANTS));
  assert.deepEqual(results, ["committed", "exists", "exists", "exists"]);
  for (const store of stores) store.close();
  assert.deepEqual(directory.names(), ["plants.db"]);
});

/** Returns the message for an error of a KV Connect server. */
function serverMessage(text: string): string {
  return toStoreError(new Error(text), SERVER).message;
}

Deno.test("toStoreError() masks the token everywhere, even at the end of the part it keeps", () => {
  assert.equal(
    serverMessage(`${TOKEN} is not ${TOKEN}${TOKEN}`),
    "[token] is not [token][token]",
  );
  for (let length = 150; length < 250; length++) {
    const message = serverMessage("x".repeat(length) + TOKEN);
    assert.doesNotMatch(message, /a-token|for-tests/);
  }
});

Deno.test("toStoreError() puts the message of a server on one line of 200 UTF-16 code units, with escapes", () => {
  assert.equal(
    serverMessage(" one\r\n\r\n  two\n\x1b[2J "),
    String.raw`one two \u{1b}[2J`,
  );
  assert.equal(serverMessage("x".repeat(200)), "x".repeat(200));
  assert.equal(serverMessage("x".repeat(201)), `${"x".repeat(200)}…`);
  // It is truncated after the escapes.
  assert.equal(serverMessage("\x1b".repeat(10_000)).length, 201);
  assert.equal(serverMessage(" ".repeat(100_000) + "x"), "x");
});

Deno.test("toFileError() distinguishes what an operator must change from what may pass", () => {
  for (
    const [thrown, problem, message] of [
      [new Deno.errors.PermissionDenied("x"), "denied", "permission denied"],
      ["Too many levels of symbolic links (os error 40)", "bad path"],
      ["File name too long (os error 36): open 'x'", "bad path"],
      ["Input/output error (os error 5): stat '/a'", "other"],
      ["Stale file handle (os error 116): stat '/a'", "other"],
      // A path is not a message.
      ["Input/output error (os error 5): stat '/malformed'", "other"],
      [new Deno.errors.NotFound("x"), "missing", "no such file"],
      [new Deno.errors.NotADirectory("x"), "missing", "no such file"],
      [new Deno.errors.IsADirectory("x"), "directory", "it is a directory"],
      [new Deno.errors.AlreadyExists("x"), "other"],
      [
        "Read-only file system (os error 30): open '/plants.db'",
        "read-only",
        "the file system is read-only",
      ],
      ["Cannot allocate memory (os error 12)", "other"],
      ["Too many open files in system (os error 23)", "other"],
      ["Too many open files (os error 24): open '/a'", "other"],
      ["No space left on device (os error 28): open", "full"],
      ["Disk quota exceeded (os error 122): open", "full"],
      [new Deno.errors.NotCapable("Requires all access"), "special path"],
      [new Deno.errors.NotCapable("Requires read access"), "other"],
    ] as const
  ) {
    const error = toFileError(
      typeof thrown === "string" ? new Error(thrown) : thrown,
    );
    assert.equal(error.problem, problem, `${thrown}`);
    if (message !== undefined) assert.equal(error.message, message);
  }
});

onSmallDisk.test("openStore() finds why SQLite cannot open a file: a read-only file system, or no inode for its log", async (disk) => {
  const path = disk.file("plants.db");
  await makeStore(path);
  disk.remount("ro");
  const message = "the file system is read-only";
  for (const open of [openStore, openStoreToRead]) {
    await assertRefused(open(fileAt(path)), "read-only", message);
  }
  // The root and the store.
  disk.remount("rw,nr_inodes=2");
  await assertRefused(openStore(fileAt(path)), "full", /^the disk is full/);
  disk.remount("nr_inodes=10");
  (await openStore(fileAt(path))).close();
});

Deno.test("toStoreError() describes what SQLite, Deno or anything else threw", () => {
  const newer = "could not deserialize value";
  for (
    const [location, thrown, problem, message] of [
      [FILE, new TypeError("unable to open database file"), "other"],
      [FILE, new TypeError("database or disk is full"), "full"],
      [FILE, new TypeError("database disk image is malformed"), "corrupt"],
      [FILE, new TypeError(newer), "newer format"],
      [SERVER, new TypeError(newer), "newer format"],
      [FILE, new TypeError("The value encoding 9 is unknown."), "newer format"],
      [FILE, new Deno.errors.InvalidData("invalid tag"), "corrupt"],
      [
        FILE,
        new Deno.errors.UnexpectedEof("unexpected end of file"),
        "corrupt",
      ],
      [FILE, new TypeError("disk I/O error"), "other", "disk I/O error"],
      [FILE, "thrown text", "other", "thrown text"],
      [FILE, undefined, "other", "undefined"],
      [SERVER, new TypeError("database disk image is malformed"), "server"],
      [SERVER, "thrown text", "server", "thrown text"],
    ] as const
  ) {
    const error = toStoreError(thrown, location);
    assert.equal(error.problem, problem);
    if (message !== undefined) assert.equal(error.message, message);
  }
  const error = new FileError("missing", "no such file");
  assert.equal(toStoreError(error, SERVER), error);
});
