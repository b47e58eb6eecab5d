import assert from "node:assert/strict";
import { FileError } from "../../src/files/file_error.ts";
import { CHECK_MS, PAGE_KEYS_MIN, RESCUE_RETRY_MS } from "../../src/limits.ts";
import { DatabaseError } from "../../src/store/files/database_error.ts";
import type { Listed, PageStart } from "../../src/store/listing.ts";
import {
  findRescued,
  Rescue,
  type RescuedStore,
  type RescueReports,
} from "../../src/store/rescue.ts";
import { FakeClock, settled } from "../support/fake_store.ts";
import { eventually } from "../support/load.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { test, testsIf, testsWith } from "../support/tests.ts";

/** Root may list every directory. */
const byUser = testsIf(Deno.uid() !== 0);

const NAME =
  /^plants\.db\.rescued-(\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z\.jsonl(?:\.[\da-f]{8}\.partial)?)$/;

/** Two pages, with an entry that is not a plant; the first one is full. */
const PAGES: readonly (readonly Listed[])[] = [
  [
    { id: -1n, plant: { name: "Monstera" } },
    '[ "plants", "other" ]',
    { id: 0n, plant: { name: "Olea" } },
    { id: 1n, plant: { name: "Fern" } },
  ],
  [{ id: 2n, plant: { name: "Ficus", tag: "" } }],
];
assert.equal(PAGES[0]?.length, PAGE_KEYS_MIN);

const LINES = `{"id":-1,"name":"Monstera"}
{"id":0,"name":"Olea"}
{"id":1,"name":"Fern"}
{"id":2,"name":"Ficus","tag":""}
`;

/** A store in two pages, which is lost. */
class LostStore implements RescuedStore {
  /** Called before each page, with its number. */
  onPage: (page: number) => void | Promise<void> = () => {};
  /** How often its plants were read. */
  reads = 0;
  /** How often its log was renamed. */
  renames = 0;
  readonly files: {
    readonly path: string;
    loss: DatabaseError | undefined;
    check(): DatabaseError | FileError | undefined;
    renameLog(): void;
  };

  constructor(path: string) {
    const files = {
      path,
      loss: new DatabaseError("lost", "it was deleted"),
      check: () => files.loss,
      renameLog: () => void this.renames++,
    };
    this.files = files;
  }

  async listPage(_keysMax: number, { cursor }: PageStart) {
    if (cursor === "") this.reads++;
    const page = Number(cursor);
    await this.onPage(page);
    return { page: PAGES[page] ?? [], cursor: `${page + 1}` };
  }
}

/** A rescue in an empty directory, with a clock and the reports it has made. */
class RescuePlace extends TemporaryDirectory {
  readonly storePath = this.file("plants.db");
  readonly store = new LostStore(this.storePath);
  readonly clock = new FakeClock();
  readonly reports: unknown[][] = [];
  readonly recorder: RescueReports = {
    plantsSaved: (...report) => this.reports.push(["saved", ...report]),
    plantsNotSaved: ({ message }) => this.reports.push(["not saved", message]),
    plantsLost: ({ message }) => this.reports.push(["lost", message]),
  };
  readonly rescue = new Rescue(this.store, this.recorder, this.clock);

  /** Lets time pass, and returns the report of the next attempt. */
  async nextReport(afterMs = RESCUE_RETRY_MS): Promise<unknown[]> {
    const { length } = this.reports;
    this.clock.now += afterMs;
    this.rescue.check();
    await eventually(
      (count) => count > length,
      () => this.reports.length,
      { everyMs: 1 },
    );
    return this.reports[length] ?? [];
  }

  /** Asserts that the only file is a complete one, and returns its name. */
  assertSaved(): string {
    const [name = "", ...others] = this.names();
    assert.match(name, NAME);
    assert.deepEqual(others, []);
    assert.equal(Deno.readTextFileSync(this.file(name)), LINES);
    return name;
  }
}

const withRescue = testsWith(() => new RescuePlace());

withRescue.test("Rescue does nothing while the store is not lost, or was cut, or is a server", async (place) => {
  const { store, reports, rescue, clock } = place;
  for (const loss of [undefined, new DatabaseError("cut")]) {
    store.files.loss = loss;
    rescue.check();
    await rescue.finish();
    assert.equal(rescue.isPending, false);
  }
  const remote = { files: undefined, listPage: () => assert.fail() };
  const idle = new Rescue(remote, place.recorder, clock);
  idle.check();
  await idle.finish();
  assert.deepEqual([store.reads, reports, place.names()], [0, [], []]);
});

withRescue.test("Rescue saves every plant of a lost store once, in a file for its user only", async (place) => {
  const { store, clock, reports, rescue } = place;
  assert.equal(rescue.isPending, true);
  await place.nextReport();
  clock.now += 10 * RESCUE_RETRY_MS;
  rescue.check();
  await rescue.finish();
  assert.equal(rescue.isPending, false);
  assert.deepEqual([store.reads, store.renames], [1, 1]);
  const name = place.assertSaved();
  const path = place.file(name);
  const { mode } = Deno.statSync(path);
  if (mode !== null) assert.equal(mode & 0o777, 0o600);
  const rescued = findRescued(place.storePath);
  assert.deepEqual(reports, [["saved", rescued, 4, 1]]);
  const imported = `${place.storePath}.imported-${NAME.exec(name)?.[1]}`;
  const expected = { path, file: path, imported };
  assert.deepEqual(rescued, expected);
});

withRescue.test("Rescue makes one attempt at a time, however long it takes, and its file is found as incomplete meanwhile", async (place) => {
  const written = Promise.withResolvers<void>();
  place.store.onPage = () => written.promise;
  for (let i = 0; i < 3; i++) {
    place.rescue.check();
    place.clock.now += RESCUE_RETRY_MS;
  }
  const [name = "", ...others] = place.names();
  assert.match(name, /\.partial$/);
  assert.deepEqual(others, []);
  const path = place.file(name);
  const [file = ""] = place.names(name);
  assert.deepEqual(findRescued(place.storePath), {
    path,
    file: `${path}/${file}`,
    imported: `${place.storePath}.imported-${NAME.exec(name)?.[1]}`,
  });
  written.resolve();
  await place.nextReport();
  assert.equal(place.store.reads, 1);
  place.assertSaved();
});

withRescue.test("Rescue tries again RESCUE_RETRY_MS after a failure, which leaves no file", async (place) => {
  const { store, clock, rescue } = place;
  store.onPage = (page) => {
    if (page === 1) throw new TypeError("disk I/O error");
  };
  for (let failures = 1; failures <= 2; failures++) {
    const report = await place.nextReport(1);
    assert.deepEqual(report, ["not saved", "disk I/O error"]);
    assert.equal(rescue.isPending, true);
    clock.now += RESCUE_RETRY_MS - 1;
    rescue.check();
    assert.equal(store.reads, failures);
    assert.deepEqual(place.names(), []);
  }
  Deno.removeSync(place.path);
  store.onPage = () => {};
  const noDirectory = `no directory ${place.path}`;
  assert.deepEqual(await place.nextReport(1), ["not saved", noDirectory]);
  Deno.mkdirSync(place.path);
  const [event] = await place.nextReport();
  assert.equal(event, "saved");
  place.assertSaved();
  assert.equal(store.renames, 1);
});

withRescue.test("Rescue reports the plants once as lost, and saves none, if a page is damaged", async (place) => {
  const { store, clock, rescue, reports } = place;
  store.onPage = (page) => {
    if (page === 1) throw new TypeError("database disk image is malformed");
  };
  const message = "the database is corrupt, or its disk fails";
  assert.deepEqual(await place.nextReport(), ["lost", message]);
  clock.now += RESCUE_RETRY_MS;
  rescue.check();
  await rescue.finish();
  assert.deepEqual([reports.length, store.reads, store.renames], [1, 1, 0]);
  assert.deepEqual(place.names(), []);
});

withRescue.test("Rescue counts the plants as saved if the directory cannot be synced", async (place) => {
  const { prototype } = Deno.FsFile;
  const { syncSync } = prototype;
  let syncs = 0;
  prototype.syncSync = () => {
    if (++syncs === 2) throw new Error("Input/output error");
  };
  try {
    const [event, , plants] = await place.nextReport();
    assert.deepEqual([event, plants, syncs], ["saved", 4, 2]);
  } finally {
    prototype.syncSync = syncSync;
  }
  place.assertSaved();
  assert.equal(place.store.renames, 1);
  await place.rescue.finish();
});

withRescue.test("finish() waits until an attempt saves the plants", async (place) => {
  const { store, clock, rescue } = place;
  const { loss } = store.files;
  // Only finish() notices the loss.
  store.files.loss = undefined;
  store.files.check = () => store.files.loss = loss;
  store.onPage = () => {
    throw new TypeError("disk I/O error");
  };
  let isFinished = false;
  const finished = rescue.finish().then(() => isFinished = true);
  for (const isSaved of [false, true]) {
    if (isSaved) store.onPage = () => {};
    const [event] = await place.nextReport();
    assert.equal(event, isSaved ? "saved" : "not saved");
    assert.equal(isFinished, false);
    const sleep = clock.sleeps.shift();
    assert.equal(sleep?.ms, CHECK_MS);
    sleep?.wake();
    await settled();
  }
  await finished;
  place.assertSaved();
});

withRescue.test("finish() does not wait for files that cannot be examined", async ({ store, rescue }) => {
  store.files.loss = undefined;
  store.files.check = () => new FileError("other", "Input/output error");
  await rescue.finish();
  assert.equal(store.reads, 0);
});

test("findRescued() finds nothing in a missing directory, or beside files of other names", ({ directory, store: path }) => {
  assert.equal(findRescued(directory.file("missing/plants.db")), undefined);
  for (
    const name of [
      "plants.db",
      "plants.db-wal",
      "plants.db.rescued",
      "plants.db.imported-2026.jsonl",
      "plants.db.old-2026",
      "other-plants.db.rescued-2026.jsonl",
    ]
  ) Deno.createSync(directory.file(name)).close();
  assert.equal(findRescued(path), undefined);
});

test("findRescued() finds the oldest file, or directory with or without a file", ({ directory, store: path }) => {
  const names = ["1.jsonl", "2.jsonl.partial", "3.jsonl.partial"];
  const [file = "", full = "", empty = ""] = names
    .map((name) => `${path}.rescued-${name}`);
  Deno.mkdirSync(empty);
  Deno.mkdirSync(full);
  Deno.createSync(`${full}/plants.jsonl`).close();
  Deno.createSync(file).close();
  for (
    const [i, expected] of [
      { path: file, file },
      { path: full, file: `${full}/plants.jsonl` },
      { path: empty, file: undefined },
    ].entries()
  ) {
    const imported = `${path}.imported-${names[i]}`;
    assert.deepEqual(findRescued(path), { ...expected, imported });
    Deno.removeSync(expected.path, { recursive: true });
  }
  assert.deepEqual(directory.names(), []);
});

test("findRescued() throws if the directory cannot be examined", ({ directory }) => {
  Deno.symlinkSync("loop", directory.file("loop"));
  const path = directory.file("loop/plants.db");
  assert.throws(() => findRescued(path), Deno.errors.FilesystemLoop);
});

byUser.test("findRescued() throws if the directory cannot be listed", ({ directory, store: path }) => {
  Deno.chmodSync(directory.path, 0o300);
  assert.throws(() => findRescued(path), Deno.errors.PermissionDenied);
  Deno.chmodSync(directory.path, 0o700);
});
