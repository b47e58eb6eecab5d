import assert from "node:assert/strict";
import { saveLostStore } from "../../src/commands/save_lost.ts";
import { openStore } from "../../src/store/open.ts";
import { Log } from "../../src/telemetry/log.ts";
import { isMissing } from "../support/needs.ts";
import { makeStore, newPlants, range, toLines } from "../support/plants.ts";
import { closing, commitAll, fileAt, isStoreError } from "../support/stores.ts";
import { SmallDisk, TemporaryDirectory } from "../support/temporary.ts";
import { eventually, pause } from "../support/waiting.ts";

const PLANTS = newPlants(range(-150n, 1_000));

const NEVER = new Promise(() => {});

const SAVED = /^\S+Z error: saved 1000 plants of (\S+) in (\S+): stop the .*$/;

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
  stop: Promise<unknown> = NEVER,
): Promise<string> {
  assert.throws(() => store.verifyFiles(), isStoreError("lost"));
  const logged: string[] = [];
  const log = new Log("text", (line) => logged.push(line));
  await saveLostStore(store, path, { log, stop });
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
    const [, of, file = ""] = SAVED.exec(logged) ?? [];
    assert.equal(of, path, logged);
    const nearest = what.includes("directory") ? "plants.db" : "data/plants.db";
    const name = file.replace(/\d{4}-\d\d-\d\d-\d{6}/, "TIME");
    assert.equal(name, directory.file(`${nearest}.saved-TIME.jsonl`));
    assert.equal(Deno.readTextFileSync(file), toLines(PLANTS));
    assert.equal(Deno.statSync(file).mode! & 0o777, 0o600);
    assert.equal(logged.split(file).length, 3, logged);
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

Deno.test("saveLostStore() takes another name if another process saves the store in the same second", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  using store = await openLosable(path);
  Deno.removeSync(path);
  const files = new Set<string>();
  const logged = await Promise.all([save(store, path), save(store, path)]);
  for (const line of logged) {
    const [, , file = ""] = SAVED.exec(line) ?? [];
    assert.equal(Deno.readTextFileSync(file), toLines(PLANTS));
    files.add(file);
  }
  assert.equal(files.size, 2);
});

Deno.test({
  name:
    "saveLostStore() reports a full disk once, leaves no file there, and saves the store when there is room",
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
    const saving = saveLostStore(store, path, {
      log,
      stop: NEVER,
      retryMs: 10,
    });
    await eventually(() => logged.length === 1);
    await pause(50);
    // A try that is running has a file.
    const left = "full,plants.db-shm,plants.db-wal";
    await eventually(() => `${disk.names()}`, (names) => names === left);
    Deno.removeSync(full);
    await saving;
    assert.match(
      logged[0] ?? "",
      /error: cannot save the plants of \S+ in \S+: No space left on device \(os error 28\): fix this, but do not stop the service, which tries again$/,
    );
    assert.equal(logged.length, 2);
    assert.match(logged[1] ?? "", SAVED);
  },
});

Deno.test({
  name: "saveLostStore() tries for the last time when the service stops",
  ignore: isMissing("mount"),
  async fn() {
    for (const hasRoom of [true, false]) {
      using disk = new SmallDisk(8);
      const path = disk.file("plants.db");
      using store = await openLosable(path);
      Deno.removeSync(path);
      const full = disk.fill("full");
      assert.throws(() => store.verifyFiles(), isStoreError("lost"));
      const logged: string[] = [];
      const log = new Log("text", (line) => logged.push(line));
      const stop = Promise.withResolvers<void>();
      const options = { log, stop: stop.promise };
      const saving = saveLostStore(store, path, options);
      await eventually(() => logged.length === 1);
      if (hasRoom) Deno.removeSync(full);
      stop.resolve();
      await saving;
      const last = hasRoom ? SAVED : /: the service stops without them$/;
      assert.match(logged[1] ?? "", last);
      assert.equal(logged.length, 2);
    }
  },
});
