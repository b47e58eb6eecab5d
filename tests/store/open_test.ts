import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { WatchedFiles } from "../../src/store/files/watch.ts";
import type { Connection } from "../../src/store/kv_store.ts";
import {
  connectTo,
  openExistingStore,
  openMsMax,
  openStore,
  STORE_OPEN_MS_MAX,
  type StoreLocation,
  toServerError,
  WAL_BYTES_PER_MS_MIN,
} from "../../src/store/open.ts";
import { listPlants } from "../../src/store/plants.ts";
import { corrupt } from "../../src/store/store_error.ts";
import {
  destroyPage,
  execute,
  pagesOf,
  QUEUE_INDEX,
  StoreLock,
} from "../support/accidents.ts";
import { FIRST_TABLE, makeStore, newPlants } from "../support/plants.ts";
import {
  closing,
  fileAt,
  isStoreError,
  LOCKED,
  serverAt,
} from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { pause } from "../support/waiting.ts";

const PLANTS = newPlants([1n]);

/** Returns a way to open a store with {@link openStore}. */
function opener(mayCreate: boolean): typeof openExistingStore {
  return async (location, options) =>
    (await openStore(location, mayCreate, options)).store;
}

/** Every way to open a store. */
const OPEN = [opener(true), opener(false), openExistingStore];

/** Returns a way to connect that fails with these errors first. */
function failingFirst(...errors: Error[]) {
  return (location: StoreLocation): Promise<Connection> => {
    const error = errors.shift();
    return error === undefined ? connectTo(location) : Promise.reject(error);
  };
}

/** Opens a store to read everything in it. */
async function plantsIn(path: string) {
  using store = closing(await openExistingStore(fileAt(path)));
  return (await Array.fromAsync(listPlants(store))).flat();
}

Deno.test("openStore() creates a store in a missing or an empty file, readable only by its user", async () => {
  for (const isEmpty of [false, true]) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    if (isEmpty) Deno.createSync(path).close();
    for (const isNew of [true, false]) {
      {
        const opened = await openStore(fileAt(path), true);
        using store = closing(opened.store);
        assert.equal(opened.isNew, isNew);
        await store.commit(PLANTS);
      }
      assert.deepEqual(directory.names(), ["plants.db"]);
      assert.deepEqual(await plantsIn(path), PLANTS);
      assert.deepEqual(directory.names(), ["plants.db"]);
    }
    const { mode } = Deno.statSync(path);
    if (!isEmpty) assert.equal((mode ?? 0) & 0o777, 0o600);
  }
});

Deno.test("openStore() refuses a missing directory", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("a/plants.db");
  const missing = isStoreError("no store", /^No such file or directory/);
  await assert.rejects(openStore(fileAt(path), true), missing);
  assert.deepEqual(directory.names(), []);
});

for (
  const [name, open] of [
    ["openStore() that must not create", opener(false)],
    ["openExistingStore()", openExistingStore],
  ] as const
) {
  Deno.test(`${name} refuses a path without a store, or with the start of one, and changes nothing`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const missing = isStoreError("no store", "no such file");
    for (const file of [directory.file("a/plants.db"), path]) {
      await assert.rejects(open(fileAt(file)), missing);
      assert.deepEqual(directory.names(), []);
    }
    Deno.createSync(path).close();
    for (const sql of ["", FIRST_TABLE]) {
      execute(path, sql);
      const before = directory.contents();
      await assert.rejects(
        open(fileAt(path)),
        isStoreError("no store", "it is empty"),
      );
      assert.deepEqual(directory.contents(), before);
    }
  });
}

Deno.test("openStore() opens a store on a KV Connect server whether or not it may create one", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path);
  const location = serverAt("http://kv.test/");
  const connect = () => connectTo(fileAt(path));
  for (const mayCreate of [true, false]) {
    const opened = await openStore(location, mayCreate, { connect });
    using _store = closing(opened.store);
    assert.equal(opened.isNew, false);
  }
});

Deno.test("openStore() reports a store as new if a lock delays its first connection", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const connect = failingFirst(LOCKED);
  const opened = await openStore(fileAt(path), true, { connect });
  using _store = closing(opened.store);
  assert.equal(opened.isNew, true);
});

Deno.test("a store opens when another process has released the lock", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path, PLANTS);
  for (const open of OPEN) {
    using lock = new StoreLock(path);
    const opening = open(fileAt(path));
    // Deno itself waits for the lock, so no event shows that it has met it.
    await pause(200);
    lock.release();
    using _store = closing(await opening);
  }
});

Deno.test("openStore() fails in time if another process keeps the lock, or nothing answers", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path, PLANTS);
  // With a real lock, Deno's own first writes would wait until its end.
  const waits = {
    "locked": () => Promise.reject(LOCKED),
    "no answer": () => new Promise<never>(() => {}),
  } as const;
  for (const kind of ["locked", "no answer"] as const) {
    const options = { connect: waits[kind], timeoutMs: 500 };
    const opening = openStore(fileAt(path), true, options);
    await assert.rejects(opening, isStoreError(kind));
  }
});

Deno.test("openMsMax() grows with the log that a killed service has left", () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  assert.equal(openMsMax(fileAt(path)), STORE_OPEN_MS_MAX);
  Deno.createSync(`${path}-wal`).close();
  Deno.truncateSync(`${path}-wal`, 5_000 * WAL_BYTES_PER_MS_MIN);
  assert.equal(openMsMax(fileAt(path)), STORE_OPEN_MS_MAX + 5_000);
  assert.equal(openMsMax(serverAt("http://kv.test/")), STORE_OPEN_MS_MAX);
});

Deno.test("a store opens if one read fails, but not if it is damaged", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path, PLANTS);
  for (const open of OPEN) {
    const once = failingFirst(corrupt());
    {
      using _store = closing(await open(fileAt(path), { connect: once }));
    }
    const twice = failingFirst(corrupt(), corrupt());
    const opening = open(fileAt(path), { connect: twice });
    await assert.rejects(opening, isStoreError("corrupt"));
  }
  for (const page of pagesOf(path, QUEUE_INDEX)) destroyPage(path, page);
  for (const open of OPEN) {
    await assert.rejects(open(fileAt(path)), isStoreError("corrupt"));
  }
});

Deno.test("a store does not open if Deno has opened another one in its place", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path, PLANTS);
  const other = directory.file("other.db");
  for (const open of OPEN) {
    // As with variables that replace the file.
    const connect = async (location: StoreLocation) => ({
      ...await connectTo(fileAt(other)),
      files: new WatchedFiles(location.name, Deno.lstatSync(location.name)),
    });
    const opening = open(fileAt(path), { connect });
    await assert.rejects(opening, isStoreError("wrong store"));
  }
});

Deno.test("a store opens that was killed while a journal was beside it, which is rolled back", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  for (const open of OPEN) {
    await makeStore(path, PLANTS);
    const killed = directory.file("killed.db");
    {
      // As a process that is killed while it enters WAL mode.
      using database = new DatabaseSync(path);
      database.exec(
        `PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1;
         BEGIN; UPDATE kv SET v = zeroblob(100000)`,
      );
      for (const suffix of ["", "-journal"]) {
        Deno.copyFileSync(path + suffix, killed + suffix);
      }
    }
    {
      using _store = closing(await open(fileAt(killed)));
    }
    assert.deepEqual(await plantsIn(killed), PLANTS);
    assert.deepEqual(directory.names(), ["killed.db", "plants.db"]);
  }
});

const TOKEN = "a-token/for-tests";

/** Returns the message for an error of a KV Connect server. */
function serverMessage(text: string): string {
  return toServerError(new Error(text), TOKEN).message;
}

Deno.test("toServerError() masks the token in the message of a server, also where it is truncated", () => {
  const message = serverMessage(`${TOKEN} is not ${TOKEN}${TOKEN}`);
  assert.equal(message, "[token] is not [token][token]");
  for (let length = 150; length < 250; length++) {
    const message = serverMessage("x".repeat(length) + TOKEN);
    assert.doesNotMatch(message, /a-token|for-tests/);
  }
});

Deno.test("toServerError() puts the message of a server on one line of 200 UTF-16 code units, with escapes", () => {
  const message = serverMessage(" one\r\n\r\n  two\n\x1b[2J ");
  assert.equal(message, String.raw`one two \u{1b}[2J`);
  // It is truncated after the escapes.
  assert.equal(serverMessage("\x1b".repeat(10_000)).length, 201);
});

Deno.test("toServerError() recognizes of the errors of a server only that its plants are newer", () => {
  const malformed = new TypeError("database disk image is malformed");
  isStoreError("server", malformed.message)(toServerError(malformed, TOKEN));
  const newer = new RangeError("could not deserialize value");
  isStoreError("newer format", /^a newer Deno /)(toServerError(newer, TOKEN));
});
