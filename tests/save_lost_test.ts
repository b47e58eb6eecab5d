import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { saveLostStore } from "../src/save_lost.ts";
import { openStore } from "../src/store/open.ts";
import { Log } from "../src/telemetry/log.ts";
import { isMissing } from "./support/needs.ts";
import { makeStore, newPlants, range, toLines } from "./support/plants.ts";
import { closing, commitAll, fileAt, isStoreError } from "./support/stores.ts";
import { SmallDisk, TemporaryDirectory } from "./support/temporary.ts";

const PLANTS = newPlants(range(-150n, 1_000));

const SAVED =
  /^\S+Z error: saved 1000 plants of (\S+) in (\S+): put nothing back, .* the command import --kv NEW --kv-create yes (\S+) makes a new store of the plants$/;

/** Opens a store whose plants are partly in its log only. */
async function openLosable(path: string) {
  const { store } = await openStore(fileAt(path), true);
  await commitAll(store, PLANTS);
  return closing(store);
}

/** Saves a lost store; returns what is logged. */
async function save(
  store: Awaited<ReturnType<typeof openLosable>>,
  path: string,
): Promise<string> {
  assert.throws(() => store.verifyFiles(), isStoreError("lost"));
  const logged: string[] = [];
  const log = new Log("text", (line) => logged.push(line));
  await saveLostStore(store, path, { log });
  return logged.join("\n");
}

const LOSSES: Readonly<
  Record<string, (at: TemporaryDirectory) => void | Promise<void>>
> = {
  "is deleted": (at) => Deno.removeSync(at.file("data/plants.db")),
  "lost its log": (at) => Deno.removeSync(at.file("data/plants.db-wal")),
  "lost its index": (at) => Deno.removeSync(at.file("data/plants.db-shm")),
  "lost all files"(at) {
    for (const suffix of ["", "-wal", "-shm"]) {
      Deno.removeSync(at.file(`data/plants.db${suffix}`));
    }
  },
  "is moved": (at) =>
    Deno.renameSync(at.file("data/plants.db"), at.file("elsewhere.db")),
  async "is replaced"(at) {
    await makeStore(at.file("other.db"));
    Deno.renameSync(at.file("other.db"), at.file("data/plants.db"));
  },
  "is in a moved directory": (at) =>
    Deno.renameSync(at.file("data"), at.file("moved")),
  "is in a deleted directory": (at) =>
    Deno.removeSync(at.file("data"), { recursive: true }),
};

for (const [what, lose] of Object.entries(LOSSES)) {
  Deno.test(`saveLostStore() saves all plants of a store that ${what}, in the nearest directory`, async () => {
    using directory = new TemporaryDirectory();
    Deno.mkdirSync(directory.file("data"));
    const path = directory.file("data/plants.db");
    using store = await openLosable(path);
    await lose(directory);
    const logged = await save(store, path);
    const [, lost, file = "", imported] = SAVED.exec(logged) ?? [];
    assert.deepEqual([lost, imported], [path, file], logged);
    const nearest = what.includes("directory") ? "plants.db" : "data/plants.db";
    const name = file.replace(/\d{4}-\d\d-\d\d-\d{6}-\d{3}/, "TIME");
    assert.equal(name, directory.file(`${nearest}.saved-TIME.jsonl`));
    assert.equal(Deno.readTextFileSync(file), toLines(PLANTS));
    assert.equal(Deno.statSync(file).mode! & 0o777, 0o600);
    assert.throws(() => Deno.statSync(`${file}.partial`), Deno.errors.NotFound);
  });
}

Deno.test("saveLostStore() saves the plants around values that are no plants or cannot be read, and reports these", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  using store = await openLosable(path);
  {
    using kv = await Deno.openKv(path);
    await kv.set(["plants", -150n], "text");
  }
  Deno.removeSync(path);
  const logged = await save(store, path);
  assert.match(logged, /: saved 999 plants of .*, but 1 value is no plant: /);
});

Deno.test("saveLostStore() saves in another file if another process saves the store at the same time", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  using store = await openLosable(path);
  Deno.removeSync(path);
  assert.throws(() => store.verifyFiles(), isStoreError("lost"));
  const logged: string[] = [];
  const log = new Log("text", (line) => logged.push(line));
  // Within a millisecond, the second one finds the file of the first, and tries again.
  const saving = () => saveLostStore(store, path, { log, pause: turn });
  await Promise.all([saving(), saving()]);
  const files = logged.flatMap((line) => SAVED.exec(line)?.[2] ?? []);
  assert.equal(new Set(files).size, 2, logged.join("\n"));
  for (const file of files) {
    assert.equal(Deno.readTextFileSync(file), toLines(PLANTS));
  }
});

Deno.test({
  name:
    "saveLostStore() reports each attempt on a full disk, leaves no file there, and saves the store when there is room",
  ignore: isMissing("mount"),
  async fn() {
    using disk = new SmallDisk(8);
    const path = disk.file("plants.db");
    using store = await openLosable(path);
    Deno.removeSync(path);
    const full = disk.fill("full");
    assert.throws(() => store.verifyFiles(), isStoreError("lost"));
    const logged: string[] = [];
    const log = new Log("text", (line) => logged.push(line));
    await saveLostStore(store, path, {
      log,
      async pause() {
        await turn();
        assert.equal(`${disk.names()}`, "full,plants.db-shm,plants.db-wal");
        if (logged.length === 2) Deno.removeSync(full);
      },
    });
    const [saved = "", ...failures] = logged.toReversed();
    assert.equal(failures.length, 2);
    for (const failure of failures) {
      assert.match(
        failure,
        /error: cannot save the plants of \S+ in \S+ \(disk\): No space left on device \(os error 28\): correct this, and do not kill the service: only it has them, and it tries again every minute$/,
      );
    }
    assert.match(saved, SAVED);
  },
});
