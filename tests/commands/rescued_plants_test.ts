import assert from "node:assert/strict";
import {
  findRescuedFiles,
  importRescued,
  rescue,
} from "../../src/commands/rescued_plants.ts";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import { openStore } from "../../src/store/open.ts";
import { StoreError } from "../../src/store_error.ts";
import { Log } from "../../src/telemetry/log.ts";
import { FakeStore } from "../support/fake_store.ts";
import { replaced } from "../support/replaced.ts";
import { WHOLE } from "../support/plants.ts";
import { readConfig } from "../support/settings.ts";
import { fileAt, storeError } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { testsWith } from "../support/tests.ts";
import { toLine, writeLines } from "../support/transfer.ts";

const TIME = "2026-01-02T030405.678Z";
const RESCUED = `plants.db.rescued-${TIME}.jsonl`;
const IMPORTED = `plants.db.imported-${TIME}.jsonl`;

/** A directory with a store that starts, and what the start logs. */
class Start extends TemporaryDirectory {
  readonly store = new FakeStore();
  readonly logged: string[] = [];
  readonly log = new Log("journal", (text) => {
    this.logged.push(text.replaceAll(`${this.path}/`, ""));
  });

  /** Writes a rescued file. */
  write(lines: readonly string[]): void {
    writeLines(this.file(RESCUED), lines);
  }

  import(): Promise<void> {
    const files = findRescuedFiles(this.file("plants.db"), this.log);
    return importRescued(this.store, files, this.log);
  }
}

const start = testsWith(() => new Start());

start.test("rescue() asks for a restart if it has all plants, and for a backup if some cannot be read", async (place) => {
  const path = place.file("plants.db");
  for (
    const [damage, plants, next] of [
      [undefined, "all plants (1)", "restart the service"],
      ["corrupt", "the plants that can be read (0)", "restore a backup"],
    ] as const
  ) {
    const store = await openStore(fileAt(path));
    await store.commit([{ id: 1n, plant: WHOLE }]);
    if (damage !== undefined) {
      store.listPage = () => Promise.reject(new StoreError(damage));
    }
    Deno.removeSync(path);
    await rescue(store, readConfig({ "--kv": path }), place.log);
    store.close();
    if (damage !== undefined) {
      const gap = `<3>ids ${ID_MIN} to ${ID_MAX} cannot be read`;
      assert.equal(place.logged.shift(), gap);
    }
    const entry = place.logged.shift() ?? "";
    assert.ok(entry.startsWith(`<3>rescued ${plants} in plants.db.rescued-`));
    assert.ok(entry.endsWith(`.jsonl: ${next}`), entry);
  }
  assert.deepEqual(place.logged, []);
});

start.test("rescue() writes beside the configured path, where the next start looks, also if that is a link", async (place) => {
  Deno.mkdirSync(place.file("disk"));
  const path = place.file("disk/plants.db");
  const link = place.file("plants.db");
  Deno.symlinkSync(path, link);
  const config = readConfig({ "--kv": link });
  const store = await openStore(config.store);
  await store.commit([{ id: 1n, plant: WHOLE }]);
  Deno.removeSync(path);
  await rescue(store, config, place.log);
  store.close();
  assert.equal(findRescuedFiles(link, place.log).length, 1);
});

start.test("importRescued() imports every file beside the store, and renames it so that none is imported twice", async (place) => {
  const others = [
    "other.db.rescued-1.jsonl",
    "plants.db.imported-0.jsonl",
    "plants.db.rescued-0.jsonl.old",
    "plants.db.rescued.jsonl",
  ];
  for (const name of others) Deno.createSync(place.file(name)).close();
  place.write([toLine(1n, "Monstera"), toLine(-2n, "Ficus", "tree")]);
  Deno.createSync(place.file("plants.db.rescued-2.jsonl")).close();
  place.store.plants.set(1n, { name: "Monstera" });
  place.store.isNew = true;
  await place.import();
  // Nothing that an operator must know.
  assert.equal(place.store.isNew, false);
  const plants = [[1n, { name: "Monstera" }], [
    -2n,
    { name: "Ficus", tag: "tree" },
  ]];
  assert.deepEqual([...place.store.plants], plants);
  const renamed = [IMPORTED, "plants.db.imported-2.jsonl"];
  assert.deepEqual(place.names(), [...others, ...renamed].toSorted());
  const message = "plants of a lost store from";
  assert.deepEqual(place.logged.toSorted(), [
    `<4>imported 0 ${message} plants.db.imported-2.jsonl`,
    `<4>imported 2 ${message} ${IMPORTED}`,
  ]);
  // A removal after the import stays one.
  place.store.plants.clear();
  await place.import();
  assert.equal(place.store.plants.size, 0);
});

start.test("importRescued() syncs the directory after it has renamed a file, so that no power cut repeats the import", async (place) => {
  place.write([toLine(1n, "Monstera")]);
  const synced: (readonly string[])[] = [];
  using _ = replaced(
    Deno.FsFile.prototype,
    "syncSync",
    function (this: Deno.FsFile) {
      if (this.statSync().isDirectory) synced.push(place.names());
    },
  );
  await place.import();
  assert.deepEqual(synced, [[IMPORTED]]);
});

start.test("importRescued() counts the plants whose ids are taken, also by what cannot be read, and the lines that are no plants, in one error, and renames their file, too", async (place) => {
  const lines = [1n, 2n, 3n].map((id) => toLine(id, "Monstera"));
  place.write([...lines, "no plant"]);
  for (const id of [1n, 3n]) place.store.plants.set(id, { name: "Ficus" });
  place.store.unreadable = 3n;
  await place.import();
  assert.deepEqual(place.store.plants.get(1n), { name: "Ficus" });
  assert.deepEqual(place.store.plants.get(2n), { name: "Monstera" });
  assert.deepEqual(place.names(), [IMPORTED]);
  const [first, second = "", ...others] = place.logged;
  assert.equal(first, `<4>imported 1 plant of a lost store from ${IMPORTED}`);
  const conflicts = `<3>3 plants in ${IMPORTED} not imported: `;
  assert.ok(second.startsWith(conflicts), second);
  assert.deepEqual(others, []);
});

start.test("importRescued() fails if the store fails, and keeps the file for the next start", async (place) => {
  place.write([toLine(1n, "Monstera")]);
  place.store.problem = "database or disk is full";
  await assert.rejects(place.import(), storeError("other"));
  assert.deepEqual(place.names(), [RESCUED]);
  place.store.problem = undefined;
  await place.import();
  assert.deepEqual(place.names(), [IMPORTED]);
  assert.equal(place.logged.length, 1);
});

start.test("importRescued() by two starts at once imports a file once", async (place) => {
  place.write([toLine(1n, "Monstera")]);
  await Promise.all([place.import(), place.import()]);
  assert.deepEqual([...place.store.plants.keys()], [1n]);
  assert.deepEqual(place.names(), [IMPORTED]);
  assert.equal(place.logged.length, 1, place.logged.join("\n"));
});

start.test("importRescued() names what a killed rescue has left, and imports the others", async (place) => {
  const partial = `${RESCUED}.0123abcd.partial`;
  Deno.mkdirSync(place.file(partial));
  place.write([toLine(1n, "Monstera")]);
  await place.import();
  assert.deepEqual(place.names(), [IMPORTED, partial].toSorted());
  assert.deepEqual([...place.store.plants.keys()], [1n]);
  const errors = place.logged.filter((text) => text.startsWith("<3>"));
  assert.deepEqual(errors, [
    `<3>${partial} is incomplete: it is being written, or the service was killed`,
  ]);
});

start.test("importRescued() fails if it cannot read a file, or not rename it, since its plants were acknowledged", async (place) => {
  const unreadable = "plants.db.rescued-1.jsonl";
  Deno.mkdirSync(place.file(unreadable));
  await assert.rejects(place.import(), /cannot read .*: it is a directory/);
  Deno.removeSync(place.file(unreadable));
  place.write([toLine(1n, "Monstera")]);
  Deno.mkdirSync(place.file(IMPORTED));
  await assert.rejects(place.import(), /cannot rename .*: Is a directory/);
  assert.deepEqual(place.names(), [IMPORTED, RESCUED].toSorted());
});
