/** Records runs of the program, to cut the power in. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import { Disk } from "./disk_images.ts";
import { eventually, inParallel, Ledger } from "./load.ts";
import { type Ended, Program } from "./program.ts";
import type { Random } from "./random.ts";
import { type RecordedEvent, Recorder } from "./recorder.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { backUp, drawId, importFile, toLine, writeLines } from "./transfer.ts";

const CONNECTIONS = 24;

/** The sync before which the kill comes, after at least three checkpoints. */
const SYNCS_MIN = 150;
const SYNCS_MAX = 220;

/** More plants than are created until then. */
const PLANTS_MAX = 10_000;

/** Plants after the restart: at least one checkpoint. */
const PLANTS_AFTER_RESTART = 900;

const PLANTS_IMPORTED = 1_500;

/** The store in a recorded directory. */
export const STORE = "/data/plants.db";

/** A part of a run: the events from one to before another. */
export interface Stage {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

export interface Acknowledgement extends NewPlant {
  /** The event that acknowledged the plant. */
  readonly at: number;
}

/** A complete backup. */
export interface Copy {
  readonly path: string;
  readonly content: Uint8Array;
  /** The event that reported it. */
  readonly reportedAt: number;
}

/** A recorded run. */
export interface Recording {
  readonly events: readonly RecordedEvent[];
  readonly stages: readonly Stage[];
  /** Every plant that was sent with an id. */
  readonly sent: ReadonlyMap<bigint, readonly Plant[]>;
  /** The first acknowledgement of each plant, in order. */
  readonly acknowledged: readonly Acknowledgement[];
  readonly copies: readonly Copy[];
}

/**
 * Records a service from its first start: load, a kill between a write and its
 * sync, a backup, recovery, more load, a clean stop, another backup.
 */
export async function recordService(random: Random): Promise<Recording> {
  using run = new Run(["data", "copies"]);
  const ledger = new Ledger();
  const store = run.path(STORE);
  {
    const nth = random.int(SYNCS_MIN, SYNCS_MAX);
    await using program = await Program.start(
      ["--kv", store],
      run.recorder.options(`fsync:signal=SIGKILL:when=${nth}`),
    );
    await load(program, ledger, drawPlants(random, PLANTS_MAX));
    assert.equal((await program.stop()).signal, "SIGKILL");
    assert.ok(ledger.ambiguous.size > 0, "it was killed without load");
  }
  run.collect(["first start", /listens on/], ["load"]);

  const copies = [await recordBackup(run, "/copies/killed.db")];
  run.collect(["backup after a kill"]);
  {
    await using program = await Program.start(
      ["--kv", store],
      run.recorder.options(),
    );
    // Plants that were written, but not synced, are acknowledged only now.
    const cutOff = Array.from(
      ledger.ambiguous,
      ([id, plant]) => ({ id, plant }),
    );
    await load(program, ledger, cutOff);
    await load(program, ledger, drawPlants(random, PLANTS_AFTER_RESTART));
    assert.equal((await program.stop()).status, 0);
  }
  run.collect(["recovery", /listens on/], ["second load", /SIGTERM/], ["stop"]);
  copies.push(await recordBackup(run, "/copies/stopped.db"));
  run.collect(["backup after a stop"]);
  return run.toRecording(ledger, copies);
}

/** Records an import into a new store; returns its lines too. */
export async function recordImport(
  random: Random,
): Promise<Recording & { readonly lines: readonly string[] }> {
  using run = new Run(["data"]);
  const ledger = new Ledger();
  const plants = Array.from(drawPlants(random, PLANTS_IMPORTED))
    .filter(({ id }, i, { [i - 1]: before }) => id !== before?.id);
  for (const { id, plant } of plants) ledger.sent.set(id, [plant]);
  const lines = plants.map(({ id, plant }) =>
    toLine(id, plant.name, plant.tag)
  );
  const file = writeLines(run.lines, lines);
  const store = run.path(STORE);
  let from = 0;
  await eventually(hasSucceeded, async () => {
    from = run.recorder.events.length;
    const ended = await importFile(store, file, run.recorder.options());
    run.collect(["import"]);
    return ended;
  });
  const at = run.find(/\d created, \d+ already stored/, from);
  const acknowledged = plants.map((newPlant) => ({ ...newPlant, at }));
  return { ...run.toRecording(ledger, []), acknowledged, lines };
}

/** Whether a program ended with status 0. */
export function hasSucceeded({ status }: Ended): boolean {
  return status === 0;
}

/** Sends creates on several connections until the program ends. */
function load(
  program: Program,
  ledger: Ledger,
  newPlants: Iterable<NewPlant>,
): Promise<void> {
  let hasEnded = false;
  function* untilEnd() {
    for (const newPlant of newPlants) {
      if (hasEnded) return;
      yield newPlant;
    }
  }
  return inParallel(untilEnd(), async (newPlant) => {
    const { status } = await ledger.send(program, newPlant);
    assert.ok([0, 200, 409, 503].includes(status), `answered ${status}`);
    hasEnded ||= status === 0;
  }, CONNECTIONS);
}

/** Returns plants whose names are unique, and some ids sent as two of them. */
function* drawPlants(random: Random, count: number): Generator<NewPlant> {
  for (let i = 0; i < count; i++) {
    const id = drawId(random);
    const plants = random.chance(0.03) ? 2 : 1;
    for (let rival = 0; rival < plants; rival++) {
      const isLong = random.chance(0.02);
      const length = isLong ? random.int(2_000, 25_000) : random.int(0, 300);
      const name = `${id} ${rival} `.padEnd(length, "Monstera 竹 ");
      const tag = random.pick([undefined, "", "climber", "shrub 🌿"]);
      yield { id, plant: tag === undefined ? { name } : { name, tag } };
    }
  }
}

/** Records a backup. */
async function recordBackup(run: Run, path: string): Promise<Copy> {
  const copy = run.path(path);
  const store = run.path(STORE);
  const { status, stderr } = await backUp(store, copy, run.recorder.options());
  assert.equal(status, 0, stderr);
  return { path, content: Deno.readFileSync(copy), reportedAt: -1 };
}

/** The directory of a run, and its events. */
class Run implements Disposable {
  readonly recorder: Recorder;
  readonly #directory = new TemporaryDirectory();
  readonly #root = `${Deno.realPathSync(this.#directory.path)}/run`;
  readonly #disk = new Disk();
  readonly #stages: Stage[] = [];

  constructor(directories: readonly string[]) {
    for (const directory of directories) {
      Deno.mkdirSync(this.path(`/${directory}`), { recursive: true });
    }
    this.recorder = new Recorder(this.#root, this.#directory.file("trace"));
  }

  /** The path of a file of lines, which is not recorded. */
  get lines(): string {
    return this.#directory.file("lines");
  }

  path(name: string): string {
    return this.#root + name;
  }

  /** Returns the event that printed something. */
  find(pattern: RegExp, from = 0): number {
    const at = this.recorder.events.findIndex((event, i) =>
      i >= from && event.kind === "printed" && pattern.test(event.text)
    );
    assert.ok(at !== -1, `nothing printed ${pattern}`);
    return at;
  }

  /**
   * Adds what a program did, in stages; all but the last end when the program
   * prints something.
   */
  collect(...stages: readonly (readonly [name: string, end?: RegExp])[]): void {
    const { events } = this.recorder;
    let from = events.length;
    this.recorder.collect();
    for (const event of events.slice(from)) this.#disk.apply(event);
    for (const [name, end] of stages) {
      const to = end === undefined ? events.length : this.find(end, from) + 1;
      this.#stages.push({ name, from, to });
      from = to;
    }
    this.#assertComplete();
  }

  /** Asserts that the recorded changes make the files that are there. */
  #assertComplete(): void {
    const files = this.#disk.files();
    const paths: string[] = [];
    for (const { name: directory } of Deno.readDirSync(this.#root)) {
      for (const { name } of Deno.readDirSync(this.path(`/${directory}`))) {
        if (!name.endsWith("-shm")) paths.push(`/${directory}/${name}`);
      }
    }
    assert.deepEqual([...files.keys()].toSorted(), paths.toSorted());
    for (const [path, content] of files) {
      const isSame = areEqual(content, Deno.readFileSync(this.path(path)));
      assert.ok(isSame, `a change of ${path} was not recorded`);
    }
  }

  toRecording(ledger: Ledger, copies: readonly Copy[]): Recording {
    const { events } = this.recorder;
    const ids = new Map<string, bigint>();
    for (const [id, plants] of ledger.sent) {
      for (const { name } of plants) ids.set(name, id);
    }
    const acknowledged = new Map<bigint, Acknowledgement>();
    for (const [at, event] of events.entries()) {
      if (event.kind !== "reply" || event.status !== 200) continue;
      const plant: Plant = JSON.parse(event.body);
      const id = ids.get(plant.name);
      assert.ok(id !== undefined, `${event.body} was never sent`);
      if (!acknowledged.has(id)) acknowledged.set(id, { at, id, plant });
    }
    for (const [id, plant] of ledger.acknowledged) {
      assert.deepEqual(acknowledged.get(id)?.plant, plant, `no reply to ${id}`);
    }
    return {
      events,
      stages: this.#stages,
      sent: ledger.sent,
      acknowledged: [...acknowledged.values()],
      copies: copies.map((copy) => ({
        ...copy,
        reportedAt: this.find(new RegExp(`${copy.path} is a complete copy`)),
      })),
    };
  }

  [Symbol.dispose](): void {
    this.#directory[Symbol.dispose]();
  }
}

/** Whether two files are the same; much faster than an assertion. */
export function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}
