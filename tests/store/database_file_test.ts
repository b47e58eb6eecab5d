import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import {
  checkStoreExists,
  checkStoreUsable,
  companionsOf,
  copyClosed,
  DatabaseFile,
} from "../../src/store/database_file.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { entriesOf } from "../support/entries.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const KEY = ["plants", 1n];
const PLANT = { name: "Monstera" };

const IS_WINDOWS = Deno.build.os === "windows";

/** A path behind which a database can be, with what leads to it. */
interface Place {
  readonly name: string;
  /** The file itself; files beside it belong to it. */
  readonly real: string;
  /** Makes the links that lead to the file. @returns the path to use */
  link(directory: TemporaryDirectory): string;
}

const PLACES: readonly Place[] = [
  {
    name: "a path",
    real: "data/plants.db",
    link: (directory) => directory.file("data/plants.db"),
  },
  {
    name: "a link",
    real: "data/plants.db",
    link(directory) {
      const path = directory.file("plants.db");
      Deno.symlinkSync(directory.file("data/plants.db"), path);
      return path;
    },
  },
  {
    name: "a chain of relative links of other names",
    real: "data/plants.db",
    link(directory) {
      const path = directory.file("first.db");
      Deno.symlinkSync("data/second.db", path);
      Deno.symlinkSync("../data/plants.db", directory.file("data/second.db"));
      return path;
    },
  },
  {
    name: "a linked directory",
    real: "data/plants.db",
    link(directory) {
      Deno.symlinkSync("data", directory.file("linked"));
      return directory.file("linked/plants.db");
    },
  },
];

/** Makes a store with one plant, closed. */
async function makeStore(path: string): Promise<void> {
  using kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
}

/** Makes the log of a store that was killed, and nothing else. */
async function makeLog(path: string): Promise<void> {
  using directory = new TemporaryDirectory();
  using kv = await Deno.openKv(directory.file("other.db"));
  await kv.set(KEY, { name: "Ficus" });
  Deno.copyFileSync(directory.file("other.db-wal"), path);
}

/** Makes a store of one file that is not in WAL mode, as a backup is. */
async function makeBackup(path: string): Promise<void> {
  await makeStore(path);
  const database = new DatabaseSync(path);
  database.exec("PRAGMA journal_mode = DELETE");
  database.close();
}

function assertForeignLog(check: () => void, log: string): void {
  assert.throws(check, (error) => {
    assert.ok(error instanceof StoreError);
    assert.equal(error.problem, "foreign log");
    assert.ok(error.message.startsWith(`${log} has plants of another`));
    return true;
  });
}

for (const { name, real, link } of PLACES) {
  /** Runs a test with an empty directory "data" and the links. */
  const testPlace = (
    title: string,
    run: (place: { path: string; real: string }) => void | Promise<void>,
  ) =>
    Deno.test({
      name: title,
      ignore: IS_WINDOWS,
      fn: async () => {
        using directory = new TemporaryDirectory();
        Deno.mkdirSync(directory.file("data"));
        const path = link(directory);
        const realPath = `${Deno.realPathSync(directory.path)}/${real}`;
        await run({ path, real: realPath });
      },
    });

  testPlace(
    `checkStoreUsable() refuses ${name} to a missing file that has left a log`,
    async ({ path, real }) => {
      checkStoreUsable(path);
      await makeLog(`${real}-wal`);
      assertForeignLog(() => checkStoreUsable(path), `${real}-wal`);
      assert.throws(() => Deno.statSync(real), Deno.errors.NotFound);
      Deno.removeSync(`${real}-wal`);
      checkStoreUsable(path);
    },
  );

  testPlace(
    `checkStoreUsable() refuses ${name} to an empty file beside a log`,
    async ({ path, real }) => {
      Deno.createSync(real).close();
      checkStoreUsable(path);
      await makeLog(`${real}-wal`);
      assertForeignLog(() => checkStoreUsable(path), `${real}-wal`);
    },
  );

  testPlace(
    `checkStoreUsable() and checkStoreExists() refuse ${name} to a backup beside a log`,
    async ({ path, real }) => {
      await makeBackup(real);
      checkStoreUsable(path);
      checkStoreExists(path);
      await makeLog(`${real}-wal`);
      const content = Deno.readFileSync(real);
      assertForeignLog(() => checkStoreUsable(path), `${real}-wal`);
      assertForeignLog(() => checkStoreExists(path), `${real}-wal`);
      assert.deepEqual(Deno.readFileSync(real), content);
    },
  );

  testPlace(
    `checkStoreUsable() accepts ${name} to a store and its own log`,
    async ({ path, real }) => {
      using kv = await Deno.openKv(path);
      await kv.set(KEY, PLANT);
      assert.ok(Deno.statSync(`${real}-wal`).size > 0);
      checkStoreUsable(path);
      checkStoreExists(path);
    },
  );

  testPlace(
    `companionsOf() finds what is beside the file behind ${name}`,
    ({ path, real }) => {
      for (const exists of [false, true]) {
        if (exists) Deno.createSync(real).close();
        assert.deepEqual(companionsOf(path), []);
        const companions = ["-wal", "-shm", "-journal"].map((it) => real + it);
        for (const companion of companions) {
          Deno.createSync(companion).close();
          assert.deepEqual(companionsOf(path), [companion]);
          Deno.removeSync(companion);
        }
        for (const other of ["-wal2", ".wal", "wal"]) {
          Deno.createSync(real + other).close();
        }
        assert.deepEqual(companionsOf(path), []);
      }
    },
  );

  testPlace(
    `DatabaseFile reports a file behind ${name} that is deleted, or moved away and back`,
    async ({ path, real }) => {
      using kv = await Deno.openKv(path);
      await kv.set(KEY, PLANT);
      const file = new DatabaseFile(path);
      assert.equal(file.problem(), undefined);
      for (let i = 0; i < 2; i++) {
        Deno.renameSync(real, `${real}.away`);
        assert.match(file.problem() ?? "", /^the database file was deleted: /);
        Deno.renameSync(`${real}.away`, real);
        assert.equal(file.problem(), undefined);
      }
      Deno.removeSync(real);
      assert.match(file.problem() ?? "", /^the database file was deleted: /);
    },
  );

  testPlace(
    `DatabaseFile reports a file behind ${name} that is replaced, and sets its companions aside`,
    async ({ path, real }) => {
      await makeBackup(`${real}.other`);
      const content = Deno.readFileSync(`${real}.other`);
      using kv = await Deno.openKv(path);
      await kv.set(KEY, PLANT);
      const file = new DatabaseFile(path);
      Deno.renameSync(real, `${real}.away`);
      Deno.renameSync(`${real}.other`, real);
      const problem = file.problem() ?? "";
      assert.match(problem, /^the database file was replaced: restart /);
      assert.match(
        problem,
        /plants\.db-wal of the old one is now plants\.db-wal/,
      );
      assert.match(
        problem,
        /plants\.db-shm of the old one is now plants\.db-shm/,
      );
      assert.deepEqual(companionsOf(path), []);
      assert.deepEqual(Deno.readFileSync(real), content);
      assert.equal(file.problem(), problem);
      // This is permanent: the open database has lost its log.
      Deno.renameSync(`${real}.away`, real);
      assert.equal(file.problem(), problem);
    },
  );

  testPlace(
    `DatabaseFile reports a lost companion of the file behind ${name} after checkCompanions()`,
    async ({ path, real }) => {
      for (const suffix of ["-wal", "-shm"]) {
        const kv = await Deno.openKv(path);
        await kv.set(KEY, PLANT);
        const file = new DatabaseFile(path);
        Deno.renameSync(real + suffix, `${real}.away`);
        assert.equal(file.problem(), undefined);
        file.checkCompanions();
        assert.match(
          file.problem() ?? "",
          new RegExp(`^plants\\.db${suffix} was deleted or replaced: restart `),
        );
        Deno.renameSync(`${real}.away`, real + suffix);
        file.checkCompanions();
        assert.equal(file.problem(), undefined);
        kv.close();
      }
    },
  );
}

Deno.test({
  name: "DatabaseFile reports a file that returns without its log",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    using kv = await Deno.openKv(path);
    await kv.set(KEY, PLANT);
    const file = new DatabaseFile(path);
    Deno.renameSync(path, directory.file("away"));
    Deno.renameSync(`${path}-wal`, directory.file("away-wal"));
    assert.match(file.problem() ?? "", /^the database file was deleted: /);
    Deno.renameSync(directory.file("away"), path);
    assert.match(
      file.problem() ?? "",
      /^plants\.db-wal was deleted or replaced: /,
    );
    Deno.renameSync(directory.file("away-wal"), `${path}-wal`);
    file.checkCompanions();
    assert.equal(file.problem(), undefined);
  },
});

Deno.test({
  name:
    "DatabaseFile reports a file that was moved and is reached by a link after checkCompanions()",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    using kv = await Deno.openKv(path);
    await kv.set(KEY, PLANT);
    const file = new DatabaseFile(path);
    Deno.renameSync(path, directory.file("moved.db"));
    Deno.symlinkSync("moved.db", path);
    file.checkCompanions();
    assert.match(file.problem() ?? "", /was moved, and a link leads to it: /);
    Deno.renameSync(directory.file("moved.db"), path);
    file.checkCompanions();
    assert.equal(file.problem(), undefined);
  },
});

Deno.test({
  name:
    "DatabaseFile reports a link that leads to another file, and leaves both files alone",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const [path, real, other] = ["link.db", "plants.db", "other.db"]
      .map((name) => directory.file(name));
    assert.ok(path !== undefined && real !== undefined && other !== undefined);
    await makeStore(other);
    Deno.symlinkSync(real, path);
    using kv = await Deno.openKv(path);
    await kv.set(KEY, PLANT);
    const file = new DatabaseFile(path);
    Deno.removeSync(path);
    assert.match(file.problem() ?? "", /^the database file was deleted: /);
    Deno.symlinkSync(other, path);
    assert.equal(
      file.problem(),
      "the database file was replaced: restart to open the new one",
    );
    assert.deepEqual(directory.names(), [
      "link.db",
      "other.db",
      "plants.db",
      "plants.db-shm",
      "plants.db-wal",
    ]);
  },
});

Deno.test("an empty log beside a missing file or a backup is not foreign", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  Deno.createSync(`${path}-wal`).close();
  checkStoreUsable(path);
  Deno.removeSync(`${path}-wal`);
  await makeBackup(path);
  Deno.createSync(`${path}-wal`).close();
  checkStoreUsable(path);
});

Deno.test("checkStoreUsable() leaves no files beside a closed store, and keeps those beside an open one", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path);
  checkStoreUsable(path);
  assert.deepEqual(directory.names(), ["plants.db"]);
  using kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
  const names = directory.names();
  checkStoreUsable(path);
  assert.deepEqual(directory.names(), names);
  assert.equal(names.length, 3);
});

Deno.test("copyClosed() copies a store that no process has open", async () => {
  for (const make of [makeStore, makeBackup]) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const target = directory.file("copy.db");
    await make(path);
    if (!IS_WINDOWS) Deno.chmodSync(path, 0o444);
    assert.equal(copyClosed(path, target), true);
    assert.deepEqual(Deno.readFileSync(target), Deno.readFileSync(path));
    assert.deepEqual(directory.names(), ["copy.db", "plants.db"]);
    // A copy of a file that may only be read can be opened.
    using kv = await Deno.openKv(target);
    assert.deepEqual(await entriesOf(kv), [[KEY, PLANT]]);
    await kv.set(["plants", 2n], PLANT);
  }
});

Deno.test("copyClosed() copies no store that is open, or was killed", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const killed = directory.file("killed.db");
  const target = directory.file("copy.db");
  const kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
  assert.equal(copyClosed(path, target), false);
  Deno.copyFileSync(path, killed);
  Deno.copyFileSync(`${path}-wal`, `${killed}-wal`);
  assert.equal(copyClosed(killed, target), false);
  kv.close();
  assert.ok(!directory.names().includes("copy.db"));
  assert.equal(copyClosed(path, target), true);
});

Deno.test({
  name: "checkStoreUsable() reports links that lead nowhere",
  ignore: IS_WINDOWS,
  fn: () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    Deno.symlinkSync("plants.db", path);
    assert.throws(() => checkStoreUsable(path), StoreError);
    Deno.removeSync(path);
    Deno.symlinkSync("missing/plants.db", path);
    assert.throws(
      () => checkStoreUsable(path),
      (error) =>
        error instanceof StoreError && error.problem === "no directory",
    );
  },
});
