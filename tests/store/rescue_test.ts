import assert from "node:assert/strict";
import { basename } from "node:path";
import { CHECK_MS, RESCUE_RETRY_MS } from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import { markImported } from "../../src/store/files/saved.ts";
import { Rescue } from "../../src/store/rescue.ts";
import { eventually } from "../support/load.ts";
import { FakeClock, settled } from "../support/fake_store.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { testsWith } from "../support/tests.ts";

const NAME = /^plants\.db\.rescued-\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z\.jsonl$/;

const PAGES: readonly (readonly (NewPlant | string)[])[] = [
  [{ id: -1n, plant: { name: "Monstera" } }, '[ "plants", "other" ]'],
  [{ id: 2n, plant: { name: "Ficus", tag: "" } }],
];

const FIRST_LINE = '{"id":-1,"name":"Monstera"}\n';
const LINES = `${FIRST_LINE}{"id":2,"name":"Ficus","tag":""}\n`;

/** A store whose plants are read, and whose files have what a test sets. */
class FakeStore {
  /** Called before each page. */
  onPage: () => void | Promise<void> = () => {};
  /** The second page fails with this problem, if there is one. */
  problem: string | undefined;
  /** Number of times that its plants were read. */
  reads = 0;

  readonly files: {
    path: string;
    readonly real: string;
    loss: string | undefined;
    isCut: boolean;
    check(): string | undefined;
    setAside(): void;
  };
  /** Number of calls of `files.setAside`. */
  asides = 0;

  constructor(real: string) {
    const files = {
      path: real,
      real,
      loss: "it was deleted or moved",
      isCut: false,
      check: () => files.loss,
      setAside: () => this.asides++,
    };
    this.files = files;
  }

  async *pages(): AsyncGenerator<readonly (NewPlant | string)[]> {
    this.reads++;
    for (const [i, page] of PAGES.entries()) {
      await this.onPage();
      if (i === 1 && this.problem !== undefined) throw new Error(this.problem);
      yield page;
    }
  }
}

/** A rescue in an empty directory, with a clock and the reports it has made. */
class RescuePlace extends TemporaryDirectory {
  readonly store = new FakeStore(this.file("plants.db"));
  readonly clock = new FakeClock();
  readonly reports: [
    path: string,
    ...(string | number | boolean | undefined)[],
  ][] = [];
  readonly rescue = new Rescue(this.store, {
    plantsSaved: ({ path, plants, foreign, isDamaged, unsynced }) =>
      this.reports.push([path, plants, foreign, isDamaged, unsynced]),
    plantsNotSaved: (...report) => this.reports.push(report),
  }, this.clock);

  /** Lets time pass, and returns the report of the next attempt. */
  async nextReport(afterMs = RESCUE_RETRY_MS) {
    const { length } = this.reports;
    this.clock.now += afterMs;
    this.rescue.check();
    const report = await eventually(
      (report) => report !== undefined,
      () => Promise.resolve(this.reports[length]),
      { everyMs: 1 },
    );
    return report ?? [];
  }
}

const withRescue = testsWith(() => new RescuePlace());

withRescue.test("Rescue does nothing while the files have no problem, or for a store without files", async (place) => {
  const { store, reports, rescue } = place;
  store.files.loss = undefined;
  rescue.check();
  await rescue.finish();
  const remote = new Rescue(
    { files: undefined, pages: () => store.pages() },
    { plantsSaved: () => assert.fail(), plantsNotSaved: assert.fail },
    place.clock,
  );
  remote.check();
  await remote.finish();
  assert.deepEqual([store.reads, reports], [0, []]);
  assert.deepEqual(place.names(), []);
});

withRescue.test("Rescue saves every plant once, in a file for its user only, and reports where, how many, and the other entries", async (place) => {
  const { store, clock, reports, rescue } = place;
  await place.nextReport();
  clock.now += 10 * RESCUE_RETRY_MS;
  rescue.check();
  await rescue.finish();
  assert.equal(store.reads, 1);
  assert.equal(store.asides, 1);
  const [name = "", ...others] = place.names();
  assert.match(name, NAME);
  assert.deepEqual(others, []);
  assert.deepEqual(reports, [[place.file(name), 2, 1, false, undefined]]);
  assert.equal(Deno.readTextFileSync(place.file(name)), LINES);
  const { mode } = Deno.statSync(place.file(name));
  if (mode !== null) assert.equal(mode & 0o777, 0o600);
});

withRescue.test("Rescue makes one attempt at a time, however long it takes, and its file has no final name meanwhile", async (place) => {
  const written = Promise.withResolvers<void>();
  place.store.onPage = () => written.promise;
  for (let i = 0; i < 3; i++) {
    place.rescue.check();
    place.clock.now += RESCUE_RETRY_MS;
  }
  // An attempt starts with a file of its own.
  assert.match(place.names().join(), /^[^,]+\.partial$/);
  written.resolve();
  await place.nextReport();
  assert.match(place.names().join(), NAME);
});

withRescue.test("Rescue tries again RESCUE_RETRY_MS after a failure, and keeps a partial file until then", async (place) => {
  const { store, clock, rescue } = place;
  store.problem = "disk I/O error";
  for (let failures = 1; failures <= 3; failures++) {
    const [path, problem] = await place.nextReport(1);
    assert.match(basename(`${path}`), NAME);
    assert.equal(problem, "disk I/O error");
    clock.now += RESCUE_RETRY_MS - 1;
    rescue.check();
    const [partial = "", ...others] = place.names();
    assert.deepEqual(others, []);
    assert.match(partial, /\.jsonl\.partial$/);
    assert.equal(Deno.readTextFileSync(place.file(partial)), FIRST_LINE);
  }
  store.problem = undefined;
  await place.nextReport(1);
  assert.match(place.names().join(), NAME);
});

withRescue.test("Rescue never overwrites a file, and tries again under a later name", async (place) => {
  place.store.onPage = () => {
    // Every name that the attempt can have.
    place.store.onPage = () => {};
    const nowMs = Date.now();
    for (let ms = nowMs - 1_000; ms <= nowMs; ms++) {
      const time = new Date(ms).toISOString().replaceAll(":", "");
      const path = place.file(`plants.db.rescued-${time}.jsonl`);
      Deno.writeTextFileSync(path, "other");
    }
  };
  const [other, problem] = await place.nextReport();
  assert.equal(problem, "it already exists");
  assert.equal(Deno.readTextFileSync(`${other}`), "other");
  const [path] = await place.nextReport();
  assert.notEqual(path, other);
  assert.equal(Deno.readTextFileSync(`${path}`), LINES);
});

withRescue.test("Rescue starts again if its partial file is deleted or renamed meanwhile", async (place) => {
  for (const isRenamed of [false, true]) {
    let pages = 0;
    place.store.onPage = () => {
      if (++pages !== 2) return;
      const partial = place.file(place.names()[0] ?? "");
      if (isRenamed) Deno.renameSync(partial, `${partial}.imported`);
      else Deno.removeSync(partial);
    };
    const [, problem] = await place.nextReport();
    assert.equal(problem, "no such file");
  }
  const [path] = await place.nextReport();
  assert.equal(Deno.readTextFileSync(`${path}`), LINES);
});

withRescue.test("Rescue frees the space of its partial file on a full disk", async (place) => {
  place.store.problem = "disk is full";
  await place.nextReport();
  const [partial = ""] = place.names();
  assert.match(partial, /\.jsonl\.partial$/);
  assert.equal(Deno.statSync(place.file(partial)).size, 0);
});

withRescue.test("Rescue makes another partial file if that of the last attempt was deleted", async (place) => {
  const { store } = place;
  store.problem = "disk I/O error";
  await place.nextReport();
  for (const name of place.names()) Deno.removeSync(place.file(name));
  store.problem = undefined;
  await place.nextReport();
  assert.match(place.names().join(), NAME);
});

withRescue.test("Rescue saves beside the configured path if that leads elsewhere by now, also after a failed attempt", async (place) => {
  const { store } = place;
  store.problem = "disk I/O error";
  await place.nextReport();
  Deno.mkdirSync(place.file("other"));
  store.files.path = place.file("other/link.db");
  store.problem = undefined;
  await place.nextReport();
  assert.deepEqual(place.names(), ["other"]);
  assert.match(place.names("other").join(), /^link\.db\.rescued-[^,]+\.jsonl$/);
});

for (
  const problem of [
    "database disk image is malformed",
    "could not deserialize value",
  ]
) {
  withRescue.test(`Rescue saves the plants before the damage, once, if a page fails: ${problem}`, async (place) => {
    const { store, clock, rescue, reports } = place;
    store.problem = problem;
    const [path, plants, , isDamaged] = await place.nextReport();
    assert.deepEqual([plants, isDamaged], [1, true]);
    // It counts as incomplete.
    assert.match(`${path}`, /\.jsonl\.partial$/);
    assert.equal(Deno.readTextFileSync(`${path}`), FIRST_LINE);
    assert.equal(store.asides, 0);
    clock.now += RESCUE_RETRY_MS;
    rescue.check();
    await rescue.finish();
    assert.equal(reports.length, 1);
  });
}

withRescue.test("Rescue saves the plants of a cut store as incomplete, and sets its files aside when the service stops", async (place) => {
  const { store } = place;
  store.files.isCut = true;
  const [path, , , isDamaged] = await place.nextReport();
  assert.equal(isDamaged, true);
  assert.match(`${path}`, /\.jsonl\.partial$/);
  assert.equal(Deno.readTextFileSync(`${path}`), LINES);
  assert.equal(store.asides, 0);
  await place.rescue.finish();
  assert.equal(store.asides, 1);
});

withRescue.test("Rescue reports a missing directory, and saves the plants when it exists again", async (place) => {
  Deno.removeSync(place.path);
  const [, problem] = await place.nextReport();
  assert.equal(problem, `no directory ${place.path}`);
  Deno.mkdirSync(place.path);
  await place.nextReport();
  assert.match(place.names().join(), NAME);
});

withRescue.test("finish() waits for a later attempt if one fails", async (place) => {
  const { store, clock, rescue } = place;
  store.problem = "disk I/O error";
  let isFinished = false;
  const finished = rescue.finish().then(() => isFinished = true);
  // It has started an attempt itself.
  assert.match(place.names().join(), /\.partial$/);
  await place.nextReport();
  clock.sleeps.shift()?.wake();
  await settled();
  assert.equal(isFinished, false);
  store.problem = undefined;
  await place.nextReport();
  clock.sleeps.shift()?.wake();
  await settled();
  await finished;
  assert.match(place.names().join(), NAME);
});

withRescue.test("Rescue saves the plants again if their file is deleted, and not if it is renamed after its import or cannot be examined", async (place) => {
  const { store, clock, reports, rescue } = place;
  const [path] = await place.nextReport();
  clock.now += RESCUE_RETRY_MS;
  const imported = markImported(`${path}`);
  rescue.check();
  Deno.symlinkSync(imported, imported.replace(/\.imported$/, ""));
  Deno.removeSync(imported);
  Deno.symlinkSync(imported, imported);
  rescue.check();
  assert.equal(store.reads, 1);
  for (const name of place.names()) Deno.removeSync(place.file(name));
  const finished = rescue.finish();
  await place.nextReport();
  clock.sleeps.shift()?.wake();
  await finished;
  assert.equal(reports.length, 2);
  assert.match(place.names().join(), NAME);
  assert.equal(Deno.readTextFileSync(`${reports[1]?.[0]}`), LINES);
});

withRescue.test("finish() waits until the files can be examined, and saves nothing if they are not lost", async ({ store, clock, rescue }) => {
  const { files } = store;
  files.loss = undefined;
  files.check = () =>
    clock.now < 2 * CHECK_MS ? "Input/output error" : undefined;
  let isFinished = false;
  const finished = rescue.finish().then(() => isFinished = true);
  for (let i = 0; i < 2; i++) {
    assert.equal(isFinished, false);
    clock.now += CHECK_MS;
    clock.sleeps.shift()?.wake();
    await settled();
  }
  await finished;
  assert.equal(store.reads, 0);
});
