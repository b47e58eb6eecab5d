/** Records runs of the program, cuts the power in them, and checks the files. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { NewPlant } from "../../src/plant/plant.ts";
import { openStore, openStoreToRead } from "../../src/store/open_store.ts";
import { Disk, type Image, TRACED_CALLS } from "./disk.ts";
import { drawPlant, inParallel, isStored, Ledger, send } from "./load.ts";
import { Program, type ProgramOptions } from "./program.ts";
import type { Random } from "./random.ts";
import { type Call, parseTrace, traced } from "./strace.ts";
import { TemporaryDirectory } from "./temporary.ts";
import {
  backUp,
  drawId,
  importFile,
  restore,
  toLine,
  writeLines,
} from "./transfer.ts";
import { getOrInsert } from "./maps.ts";

const CONNECTIONS = 24;

/** The sync before which the kill comes, after at least three checkpoints. */
const SYNCS_MIN = 150;
const SYNCS_MAX = 220;

/** More plants than are created until then. */
const PLANTS_MAX = 10_000;

/** Plants after the restart, and of an import: at least one checkpoint each. */
const PLANTS_AFTER_RESTART = 900;
const PLANTS_IMPORTED = 1_500;

/** The first and last calls of a program, in which more power cuts come. */
const EDGE_CALLS = 100;

/** The plant of a reply to a create: its name starts with the id and a number. */
const REPLY = /(?:^|\r\n\r\n)\{"name":"(-?\d+ \d) /;

/** A plant to create after a power cut. */
const LAST_PLANT = { id: 1n, plant: { name: "After the power cut" } };

/** Bytes of the index of a log: memory that SQLite processes share. */
const INDEX_BYTES = 32 * 1024;

/** The second name that a restore gives the old store. */
const OLD_STORE = /^plants\.db\.replaced-[^-]+-[^-]+-[^-]+$/;

/** The store and the last backup in a recorded directory. */
const STORE = "/data/plants.db";
const BACKUP = "/copies/stopped.db";

/** What one program did, by its name. */
interface Stage {
  readonly name: string;
  readonly calls: readonly Call[];
}

/** A plant that was sent, and when it was first acknowledged, if it was. */
interface Sent extends NewPlant {
  acknowledgedAt: number;
}

/** A complete backup, and when it was reported. */
interface Copy {
  readonly path: string;
  readonly content: Uint8Array;
  readonly at: number;
}

/** A recorded run of several programs, one after the other. */
export interface Recording {
  /** The directory, by its path at that time. */
  readonly root: string;
  readonly stages: readonly Stage[];
  readonly sent: readonly Sent[];
  readonly copies: readonly Copy[];
  /** The plants of the last copy, and when it was reported as restored. */
  readonly restored: { readonly plants: number; readonly at: number };
}

/** What the disk may hold if the power is cut at a time in a stage. */
export interface PowerCut {
  readonly stage: string;
  readonly at: number;
  readonly image: Image;
}

/**
 * Records a service from its first start: load, a kill between a write and its
 * sync, a backup, recovery, more load, a clean stop, another backup, an import,
 * and the restore of the second backup.
 */
export async function record(random: Random): Promise<Recording> {
  using recorder = new Recorder();
  const { root, stages, disk } = recorder;
  const ledger = new Ledger();
  const store = root + STORE;

  async function serve(
    name: string,
    newPlants: Iterable<NewPlant>,
    ...injection: string[]
  ): Promise<void> {
    const options = recorder.options(...injection);
    await using program = await Program.start(["--kv", store], options);
    await load(program, ledger, newPlants);
    const { status, signal } = await program.stop();
    assert.equal(signal ?? status, injection.length > 0 ? "SIGKILL" : 0);
    recorder.collect(name, /listens on/);
  }

  async function copy(path: string): Promise<Copy> {
    await backUp(store, root + path, recorder.options());
    const at = recorder.collect(`backup to ${path}`, / is a complete copy/);
    return { path, content: Deno.readFileSync(root + path), at };
  }

  const nth = random.int(SYNCS_MIN, SYNCS_MAX);
  const killed = `inject=fsync:signal=SIGKILL:when=${nth}`;
  await serve("first start", drawPlants(random, PLANTS_MAX), killed);
  assert.ok(ledger.ambiguous.size > 0, "it was killed without load");
  const copies = [await copy("/copies/killed.db")];
  // Plants that were written, but not synced, are acknowledged only now.
  const cutOff = ledger.ambiguous.entries()
    .map(([id, plant]) => ({ id, plant }));
  const others = drawPlants(random, PLANTS_AFTER_RESTART);
  await serve("recovery", [...cutOff, ...others]);
  copies.push(await copy(BACKUP));
  const sent = findAcknowledgements(disk, ledger);

  const imported = [...drawPlants(random, PLANTS_IMPORTED, 0)];
  const lines = writeLines(
    recorder.file("lines"),
    imported.map(({ id, plant }) => toLine(id, plant.name, plant.tag)),
  );
  await importFile(store, lines, recorder.options());
  const acknowledgedAt = recorder.collect("import", /\d created, /);
  sent.push(...imported.map((it) => ({ ...it, acknowledgedAt })));

  // Each syncs the database once, as its creation does.
  const checkpoints = stages.flatMap(({ calls }) => calls)
    .filter(({ name, args }) => name === "fsync" && args.endsWith(`${STORE}>`));
  assert.ok(checkpoints.length > 3, "too few checkpoints");

  const { stderr } = await restore(store, root + BACKUP, recorder.options());
  const report = /^restored (\d+) plants/;
  const restored = {
    plants: Number(report.exec(stderr)?.[1]),
    at: recorder.collect("restore", report),
  };
  return { root, stages, sent, copies, restored };
}

/** Sends creates on several connections until the program ends. */
function load(
  program: Program,
  ledger: Ledger,
  newPlants: Iterable<NewPlant>,
): Promise<void> {
  let hasEnded = false;
  return inParallel(newPlants, async (newPlant) => {
    if (hasEnded) return;
    const { status } = await ledger.send(program, newPlant);
    hasEnded ||= status === 0;
  }, CONNECTIONS);
}

/** Returns plants whose names are unique, and some ids sent as two of them. */
function* drawPlants(
  random: Random,
  count: number,
  rivals = 0.03,
): Generator<NewPlant> {
  for (let i = 0; i < count; i++) {
    const id = drawId(random);
    for (let rival = random.chance(rivals) ? 1 : 0; rival >= 0; rival--) {
      const plant = drawPlant(random);
      const name = `${id} ${rival} ${plant.name}`;
      yield { id, plant: { ...plant, name } };
    }
  }
}

/** Returns every plant that was sent; the replies to clients are recorded. */
function findAcknowledgements(disk: Disk, ledger: Ledger): Sent[] {
  const sent = new Map<string, Sent>();
  for (const [id, creates] of ledger.sent) {
    for (const { plant } of creates) {
      const key = plant.name.split(" ", 2).join(" ");
      sent.set(key, { id, plant, acknowledgedAt: Infinity });
    }
  }
  for (const { at, text } of disk.sent) {
    const [, key] = REPLY.exec(text) ?? [];
    if (key === undefined) continue;
    const found = sent.get(key);
    assert.ok(found !== undefined, `${text} was never sent`);
    found.acknowledgedAt = Math.min(found.acknowledgedAt, at);
  }
  const missing = sent.values().find(({ id, plant, acknowledgedAt }) =>
    ledger.acknowledged.get(id) === plant && acknowledgedAt === Infinity
  );
  assert.equal(missing, undefined, "an unrecorded reply");
  return [...sent.values()];
}

/** The directory of a run, and what programs did there. */
class Recorder extends TemporaryDirectory {
  readonly root = `${Deno.realPathSync(this.path)}/run`;
  readonly stages: Stage[] = [];
  readonly disk = new Disk(this.root);
  readonly #trace = this.file("trace");
  /** The time after the last call. */
  #now = 0;

  constructor() {
    super();
    for (const path of [STORE, BACKUP]) {
      Deno.mkdirSync(dirname(this.root + path), { recursive: true });
    }
  }

  /** Returns how to start a program to be recorded. */
  options(...injection: readonly string[]): ProgramOptions {
    return traced(this.#trace, TRACED_CALLS, ...injection);
  }

  /**
   * Adds what a program did that has ended.
   * @returns when it sent or printed a text
   */
  collect(name: string, pattern: RegExp): number {
    const begin = this.#now;
    const calls = parseTrace(this.#trace, begin);
    this.#now = (calls.at(-1)?.returnedAt ?? 0) + 1;
    this.stages.push({ name, calls: calls.filter((it) => this.disk.add(it)) });
    this.#assertComplete();
    const report = this.disk.sent
      .find(({ at, text }) => at >= begin && pattern.test(text));
    assert.ok(report !== undefined, `${name} has not sent ${pattern}`);
    return report.at;
  }

  /** Asserts that the recorded changes make the files that are there. */
  #assertComplete(): void {
    const paths: string[] = [];
    for (const directory of [dirname(STORE), dirname(BACKUP)]) {
      for (const { name } of Deno.readDirSync(this.root + directory)) {
        if (!name.endsWith("-shm")) paths.push(`${directory}/${name}`);
      }
    }
    const files = this.disk.files();
    assert.deepEqual([...files.keys()].toSorted(), paths.toSorted());
    for (const [path, content] of files) {
      const isSame = areEqual(content, Deno.readFileSync(this.root + path));
      assert.ok(isSame, `a change of ${path} was not recorded`);
    }
  }
}

/** Whether two files are the same; much faster than an assertion. */
function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** Draws power cuts in some stages of a recording. */
export function* drawPowerCuts(
  root: string,
  stages: readonly Stage[],
  random: Random,
): Generator<PowerCut> {
  const disk = new Disk(root);
  for (const call of stages.flatMap(({ calls }) => calls)) disk.add(call);
  for (;;) {
    const { name: stage, calls } = random.pick(stages);
    const { length } = calls;
    const [from, to] = random.pick([
      [0, length],
      [0, EDGE_CALLS],
      [length - EDGE_CALLS, length],
      [length, length],
    ]);
    const last = (calls.at(-1)?.returnedAt ?? 0) + 1;
    const at = calls[random.int(Math.max(0, from), to)]?.returnedAt ?? last;
    const image = new Map(disk.afterPowerCut(at, random));
    // The disk may hold anything of the index of a log.
    if (image.has(`${STORE}-wal`) && random.chance(0.5)) {
      const index = new Uint8Array(INDEX_BYTES).fill(random.int(0, 255));
      image.set(`${STORE}-shm`, index);
    }
    yield { stage, at, image };
  }
}

/** A directory with the files of an image. */
export class ImageDirectory extends TemporaryDirectory {
  readonly store = this.path + STORE;

  constructor(image: Image) {
    super();
    Deno.mkdirSync(dirname(this.store));
    for (const [path, content] of image) {
      Deno.mkdirSync(dirname(this.path + path), { recursive: true });
      Deno.writeFileSync(this.path + path, content);
    }
  }
}

/**
 * Asserts that every acknowledged plant is stored after a power cut, that each
 * backup is complete, or missing if it was not reported, and that a restore
 * leaves the old store or the new one.
 */
export async function assertSurvives(
  recording: Recording,
  { stage, at, image }: PowerCut,
): Promise<void> {
  const { copies, restored } = recording;
  for (const copy of copies) {
    const found = image.get(copy.path);
    const isValid = found === undefined
      ? at <= copy.at
      : areEqual(found, copy.content);
    assert.ok(isValid, `the backup ${copy.path} is missing or not complete`);
  }
  if (image.has(STORE)) {
    // A copy, since SQLite changes the files. Deno.openKv panics on a corrupt
    // database.
    using directory = new ImageDirectory(image);
    assertIntegrity(directory.store);
  }

  using directory = new ImageDirectory(image);
  const location = { kind: "file", path: directory.store } as const;
  const store = await openStore(location);
  try {
    const begin = Math.min(at, copies.at(-1)?.at ?? 0);
    const stored = await ledgerAt(recording, begin).assertFile(location.path);
    const ledger = ledgerAt(recording, at);
    if (at > restored.at) {
      assert.equal(stored, restored.plants, "not restored");
      const old = directory.names("data").find((it) => OLD_STORE.test(it));
      await ledger.assertFile(directory.file(`data/${old}`));
    } else if (stage !== "restore" || stored !== restored.plants) {
      await ledger.assertFile(location.path);
    }
    assert.equal(await store.commit([LAST_PLANT]), "committed");
  } finally {
    store.close();
  }
  (await openStoreToRead(location)).close();
  assertIntegrity(location.path);
}

/** Asserts that the program starts on an image, stores a plant, and stops. */
export async function assertServes({ image }: PowerCut): Promise<void> {
  using directory = new ImageDirectory(image);
  await using program = await Program.start(["--kv", directory.store]);
  assert.ok(isStored(await send(program, LAST_PLANT)));
  const { status, stderr } = await program.stop();
  assert.equal(status, 0, stderr);
}

/** Returns what was sent, and what was acknowledged before a time. */
function ledgerAt({ sent }: Recording, time: number): Ledger {
  const ledger = new Ledger();
  for (const { id, plant, acknowledgedAt } of sent) {
    const answer = acknowledgedAt < time ? 200 : 0;
    const create = { plant, sentAt: 0, answeredAt: 1, answer };
    getOrInsert(ledger.sent, id, () => []).push(create);
  }
  return ledger;
}

/** Asserts that SQLite's own check finds nothing. */
function assertIntegrity(path: string): void {
  using database = new DatabaseSync(path);
  database.exec("PRAGMA synchronous = OFF");
  const row = database.prepare("PRAGMA integrity_check").get();
  assert.equal(row?.integrity_check, "ok");
}
