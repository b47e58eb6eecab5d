/** Records runs of the program, cuts the power in them, and checks the files. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { NewPlant } from "../../src/plant/plant.ts";
import { openExistingStore, openStore } from "../../src/store/open.ts";
import { Disk, type Image, type Output, TRACED_CALLS } from "./disk.ts";
import { drawPlant, inParallel, isStored, Ledger, send } from "./load.ts";
import { Program, runProgram } from "./program.ts";
import type { Random } from "./random.ts";
import { type Call, parseTrace, traced } from "./strace.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { drawId, toLine, writeLines } from "./transfer.ts";

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

/** The calls that change names; the recorded ones that open a file create it. */
const NAME_CALLS = /^(?:open|link|rename|unlink)/;

/** A 200 to a create: the plant, whose name starts with its id. */
const REPLY = /(?:^|\r\n\r\n)\{"name":"(-?\d+) /;

/** A plant to create after a power cut. */
const LAST_PLANT = { id: 1n, plant: { name: "After the power cut" } };

/** The store, the last backup, and what is restored, in a recorded directory. */
const STORE = "/data/plants.db";
const BACKUP = "/copies/stopped.db";
const RESTORED = "/new/plants.db";
const DIRECTORIES = [STORE, BACKUP, RESTORED].map((path) => dirname(path));

/** SQLite makes a file of so many bytes for the index of a log. */
const INDEX_BYTES = 32 * 1024;

/** What one program did, and the time after that. */
interface Stage {
  readonly name: string;
  readonly calls: readonly Call[];
  readonly end: number;
}

/** A complete backup or restored store, and when it was reported. */
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
  readonly sent: Ledger["sent"];
  /** When creates were first answered 200. */
  readonly answeredAt: ReadonlyMap<bigint, number>;
  readonly copies: readonly Copy[];
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
 * and the restore of the second backup as a new store.
 */
export async function record(random: Random): Promise<Recording> {
  using directory = new TemporaryDirectory();
  const root = Deno.realPathSync(directory.path);
  const store = root + STORE;
  for (const path of DIRECTORIES) Deno.mkdirSync(root + path);
  const trace = directory.file("trace");
  const disk = new Disk(root);
  const stages: Stage[] = [];
  const ledger = new Ledger();

  /** Adds what a program did that has ended; returns what it reported. */
  function collect(name: string, report: RegExp): Output {
    const begin = stages.at(-1)?.end ?? 0;
    const calls = parseTrace(trace, begin).filter((it) => disk.add(it));
    const end = (calls.at(-1)?.returnedAt ?? begin) + 1;
    stages.push({ name, calls, end });
    assertComplete(disk, directory);
    const output = disk.sent
      .find(({ at, text }) => at >= begin && report.test(text));
    assert.ok(output !== undefined, `${name} has not sent ${report}`);
    return output;
  }

  async function run(report: RegExp, ...args: string[]): Promise<Output> {
    const env = { KV_PATH: store };
    const { env: traceEnv, shell } = traced(trace, TRACED_CALLS);
    await runProgram(args, { env: { ...env, ...traceEnv }, shell });
    return collect(args.join(" "), report);
  }

  async function serve(
    name: string,
    newPlants: Iterable<NewPlant>,
    ...injection: string[]
  ): Promise<void> {
    const options = traced(trace, TRACED_CALLS, ...injection);
    await using program = await Program.start(["--kv", store], options);
    let hasEnded = false;
    await inParallel(newPlants, async (newPlant) => {
      if (hasEnded) return;
      const { status } = await ledger.send(program, newPlant);
      hasEnded ||= status === 0;
    }, CONNECTIONS);
    const { status, signal } = await program.stop();
    assert.equal(signal ?? status, injection.length > 0 ? "SIGKILL" : 0);
    collect(name, /listens on/);
  }

  async function copy(path: string, ...args: string[]): Promise<Copy> {
    const { at } = await run(/is a complete copy|^restored/, ...args);
    return { path, content: Deno.readFileSync(root + path), at };
  }

  function backUp(path: string): Promise<Copy> {
    return copy(path, "backup", root + path);
  }

  const nth = random.int(SYNCS_MIN, SYNCS_MAX);
  const killed = `inject=fsync:signal=SIGKILL:when=${nth}`;
  await serve("first start", drawPlants(random, PLANTS_MAX), killed);
  assert.ok(ledger.ambiguous.size > 0, "it was killed without load");
  const copies = [await backUp("/copies/killed.db")];
  // Plants that were written, but not synced, are acknowledged only now.
  const cutOff = [...ledger.ambiguous.values()];
  const others = drawPlants(random, PLANTS_AFTER_RESTART);
  await serve("recovery", [...cutOff, ...others]);
  copies.push(await backUp(BACKUP));
  const answeredAt = findReplies(disk, ledger);

  const imported = [...drawPlants(random, PLANTS_IMPORTED)];
  const lines = writeLines(
    directory.file("lines"),
    imported.map(({ id, plant }) => toLine(id, plant.name, plant.tag)),
  );
  const { at } = await run(/\d created, /, "import", lines);
  for (const newPlant of imported) {
    await ledger.record(newPlant, () => Promise.resolve({ status: 200 }));
    answeredAt.set(newPlant.id, at);
  }

  // Each syncs the database once, as its creation does.
  const checkpoints = stages.flatMap(({ calls }) => calls)
    .filter(({ name, args }) => name === "fsync" && args.endsWith(`${STORE}>`));
  assert.ok(checkpoints.length > 3, "too few checkpoints");

  const restore = ["restore", root + BACKUP, "--kv", root + RESTORED];
  copies.push(await copy(RESTORED, ...restore));
  const { sent } = ledger;
  return { root, stages, sent, answeredAt, copies };
}

/** Returns plants whose names start with their ids. */
function* drawPlants(random: Random, count: number): Generator<NewPlant> {
  for (let i = 0; i < count; i++) {
    const id = drawId(random);
    const plant = drawPlant(random);
    yield { id, plant: { ...plant, name: `${id} ${plant.name}` } };
  }
}

/** Returns when creates were first answered 200, as it was recorded. */
function findReplies(disk: Disk, ledger: Ledger): Map<bigint, number> {
  const times = new Map<bigint, number>();
  for (const { at, text } of disk.sent) {
    const [, id] = REPLY.exec(text) ?? [];
    if (id !== undefined) times.getOrInsert(BigInt(id), at);
  }
  const recorded = new Set(times.keys());
  const sent = new Set(ledger.sent.keys());
  const answered = new Set(ledger.acknowledged.keys());
  assert.deepEqual(recorded.difference(sent), new Set(), "never sent");
  assert.deepEqual(answered.difference(recorded), new Set(), "unrecorded");
  return times;
}

/** Asserts that the recorded changes make the files that are there. */
function assertComplete(disk: Disk, directory: TemporaryDirectory): void {
  const paths = DIRECTORIES
    .flatMap((it) => directory.names(it).map((name) => `${it}/${name}`))
    .filter((path) => !path.endsWith("-shm"));
  const files = disk.image();
  assert.deepEqual([...files.keys()].toSorted(), paths.toSorted());
  for (const [path, content] of files) {
    const file = Deno.readFileSync(directory.path + path);
    // Much faster than an assertion that compares bytes.
    const order = Buffer.compare(content, file);
    assert.equal(order, 0, `a change of ${path} was not recorded`);
  }
}

/** Returns the disk of a recording. */
function diskOf({ root, stages }: Recording): Disk {
  const disk = new Disk(root);
  for (const call of stages.flatMap(({ calls }) => calls)) disk.add(call);
  return disk;
}

/**
 * Returns a power cut right after each change of a name. The change survives,
 * and what precedes it only if it was synced.
 */
export function* powerCutsAfterNames(
  recording: Recording,
): Generator<PowerCut> {
  const disk = diskOf(recording);
  for (const { name: stage, calls } of recording.stages) {
    for (const { name, returnedAt } of calls) {
      if (!NAME_CALLS.test(name)) continue;
      const image = disk.afterChange(returnedAt);
      yield { stage, at: returnedAt + 1, image };
    }
  }
}

/** Draws power cuts in the stages of a recording. */
export function* drawPowerCuts(
  recording: Recording,
  random: Random,
): Generator<PowerCut> {
  const { stages } = recording;
  const disk = diskOf(recording);
  for (;;) {
    const { name: stage, calls, end } = random.pick(stages);
    const times = calls.map(({ returnedAt }) => returnedAt);
    const at = random.pick(random.pick([
      [...times, end],
      times.slice(0, EDGE_CALLS),
      [...times.slice(-EDGE_CALLS), end],
      [end],
    ]));
    const image = disk.afterPowerCut(at, random);
    // The disk may hold an index without its log, or any content of it, which is
    // memory that SQLite processes share.
    if (image.has(STORE) && random.chance(0.5)) {
      image.set(`${STORE}-shm`, drawIndex(random));
    }
    yield { stage, at, image };
  }
}

/** Draws the content of an index: zeros, another byte, or random ones. */
function drawIndex(random: Random): Uint8Array<ArrayBuffer> {
  const index = new Uint8Array(INDEX_BYTES);
  if (random.chance(0.3)) return index;
  if (random.chance(0.3)) return index.fill(random.int(1, 255));
  return index.map(() => random.int(0, 255));
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
 * Asserts that every reply still holds after a power cut, and that each backup
 * and the restored store are complete, or missing if they were not reported.
 */
export async function assertSurvives(
  recording: Recording,
  { at, image }: PowerCut,
): Promise<void> {
  for (const copy of recording.copies) {
    const found = image.get(copy.path);
    const isValid = found === undefined
      ? at <= copy.at
      : Buffer.compare(found, copy.content) === 0;
    assert.ok(isValid, `${copy.path} is missing or not complete`);
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
    await ledgerAt(recording, at).assertFile(location.path);
    assert.equal(await store.commit([LAST_PLANT]), "committed");
  } finally {
    store.close();
  }
  (await openExistingStore(location)).close();
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

/** Returns what was sent, and what was answered before a time. */
function ledgerAt({ sent, answeredAt }: Recording, time: number): Ledger {
  const ledger = new Ledger();
  for (const [id, creates] of sent) {
    const isAnswered = (answeredAt.get(id) ?? Infinity) < time;
    const answer = isAnswered ? 200 : 0;
    // All of them were sent before any answer, as far as is known.
    const known = creates.map((it) => ({ ...it, sentAt: -1, answer }));
    ledger.sent.set(id, known);
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
