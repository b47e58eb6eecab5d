/** Records runs of the program, cuts the power in them, and checks the files. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { errorMessage } from "../../src/messages.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import { openStore, openStoreToRead } from "../../src/store/open_store.ts";
import {
  Disk,
  type DiskEvent,
  type Image,
  toDiskEvents,
  TRACED_CALLS,
} from "./disk.ts";
import { drawPlant, inParallel, Ledger } from "./load.ts";
import { Program, type ProgramOptions, runProgram } from "./program.ts";
import type { Random } from "./random.ts";
import { parseTrace, traced } from "./strace.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { backUp, drawId, importFile, toLine, writeLines } from "./transfer.ts";

const CONNECTIONS = 24;

/** The sync before which the kill comes, after at least three checkpoints. */
const SYNCS_MIN = 150;
const SYNCS_MAX = 220;

/** More plants than are created until then. */
const PLANTS_MAX = 10_000;

/** Plants after the restart, and of an import: at least one checkpoint each. */
const PLANTS_AFTER_RESTART = 900;
const PLANTS_IMPORTED = 1_500;

/** The first and last events of a program, in which more power cuts come. */
const EDGE_EVENTS = 100;

/** The plant of a reply to a create: its name starts with the id and a number. */
const REPLY = /(?:^|\r\n\r\n)\{"name":"((-?\d+) \d )/;

/** Bytes of the index of a log: memory that SQLite processes share. */
const INDEX_BYTES = 32 * 1024;

/** The second name that a restore gives the old store. */
const OLD_STORE = /^plants\.db\.replaced-[^-]+-[^-]+-[^-]+$/;

/** The store in a recorded directory. */
export const STORE = "/data/plants.db";

/** What one program did, by its name. */
interface Stage {
  readonly name: string;
  readonly events: readonly DiskEvent[];
}

/** A complete backup, and when it was reported. */
interface Copy {
  readonly path: string;
  readonly content: Uint8Array;
  readonly at: number;
}

/** A recorded run of several programs, one after the other. */
export interface Recording {
  readonly stages: readonly Stage[];
  /** Every plant that was sent with an id. */
  readonly sent: ReadonlyMap<bigint, readonly Plant[]>;
  /** The first acknowledgement of each plant, in order. */
  readonly acknowledged: readonly (NewPlant & { readonly at: number })[];
  readonly copies: readonly Copy[];
  /** The last copy put in place of the store: its plants, and when it began. */
  readonly restored: {
    readonly plants: number;
    readonly from: number;
    readonly at: number;
  };
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
  const ledger = new Ledger();
  const store = recorder.path(STORE);

  async function serve(
    name: string,
    newPlants: Iterable<NewPlant>,
    injection: string[] = [],
  ): Promise<void> {
    const options = recorder.options(...injection);
    await using program = await Program.start(["--kv", store], options);
    await load(program, ledger, newPlants);
    const { status, signal } = await program.stop();
    assert.equal(signal ?? status, injection.length > 0 ? "SIGKILL" : 0);
    recorder.collect(name);
  }

  async function copy(path: string): Promise<Copy> {
    const target = recorder.path(path);
    await backUp(store, target, recorder.options());
    const at = recorder.collect(`backup to ${path}`, / is a complete copy/);
    return { path, content: Deno.readFileSync(target), at };
  }

  const nth = random.int(SYNCS_MIN, SYNCS_MAX);
  await serve("first start", drawPlants(random, PLANTS_MAX), [
    `inject=fsync:signal=SIGKILL:when=${nth}`,
  ]);
  assert.ok(ledger.ambiguous.size > 0, "it was killed without load");
  const copies = [await copy("/copies/killed.db")];
  // Plants that were written, but not synced, are acknowledged only now.
  const cutOff = ledger.ambiguous.entries()
    .map(([id, plant]) => ({ id, plant }));
  await serve("recovery", [
    ...cutOff,
    ...drawPlants(random, PLANTS_AFTER_RESTART),
  ]);
  copies.push(await copy("/copies/stopped.db"));

  const imported = [...drawPlants(random, PLANTS_IMPORTED, 0)];
  const lines = writeLines(
    recorder.lines,
    imported.map(({ id, plant }) => toLine(id, plant.name, plant.tag)),
  );
  for (const { id, plant } of imported) ledger.sent.set(id, [plant]);
  await importFile(store, lines, recorder.options());
  const at = recorder.collect("import", /\d created, /);
  const acknowledged = [
    ...findAcknowledgements(recorder.stages, ledger),
    ...imported.map((newPlant) => ({ ...newPlant, at })),
  ];
  const from = recorder.now;
  const backup = recorder.path("/copies/stopped.db");
  const { stderr } = await runProgram(
    ["restore", backup, "--kv", store],
    recorder.options(),
  );
  const restored = {
    plants: Number(/^restored (\d+) plants/.exec(stderr)?.[1]),
    from,
    at: recorder.collect("restore", /^restored \d+ plants/),
  };
  const { stages } = recorder;
  return { stages, sent: ledger.sent, acknowledged, copies, restored };
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

/** Returns the first acknowledgement of each plant; every client's is there. */
function findAcknowledgements(
  stages: readonly Stage[],
  { sent, acknowledged }: Ledger,
): Recording["acknowledged"] {
  const found = new Map<bigint, NewPlant & { readonly at: number }>();
  for (const event of stages.flatMap(({ events }) => events)) {
    const [, begin = "", digits] = REPLY.exec(event.sent ?? "") ?? [];
    if (digits === undefined) continue;
    const id = BigInt(digits);
    const plant = sent.get(id)?.find(({ name }) => name.startsWith(begin));
    assert.ok(plant !== undefined, `${event.sent} was never sent`);
    if (!found.has(id)) found.set(id, { at: event.at, id, plant });
  }
  for (const [id, plant] of acknowledged) {
    assert.deepEqual(found.get(id)?.plant, plant, `no reply to ${id}`);
  }
  return [...found.values()];
}

/** The directory of a run, and what programs did there. */
class Recorder implements Disposable {
  readonly stages: Stage[] = [];
  readonly #directory = new TemporaryDirectory();
  readonly #root = `${Deno.realPathSync(this.#directory.path)}/run`;
  readonly #trace = this.#directory.file("trace");
  readonly #disk = new Disk();
  /** The time after the last event. */
  now = 0;

  constructor() {
    for (const path of ["/data", "/copies"]) {
      Deno.mkdirSync(this.path(path), { recursive: true });
    }
  }

  /** The path of a file of lines, which is not recorded. */
  get lines(): string {
    return this.#directory.file("lines");
  }

  path(name: string): string {
    return this.#root + name;
  }

  /** Returns how to start a program to be recorded. */
  options(...injection: readonly string[]): ProgramOptions {
    return traced(this.#trace, TRACED_CALLS, ...injection);
  }

  /**
   * Adds what a program did that has ended.
   * @returns when it sent or printed something
   */
  collect(name: string, pattern = /(?:)/): number {
    const calls = parseTrace(this.#trace);
    const events = toDiskEvents(calls, this.#root, this.now);
    this.now = (events.at(-1)?.at ?? 0) + 1;
    for (const event of events) event.apply(this.#disk);
    this.stages.push({ name, events });
    this.#assertComplete();
    const event = events.find(({ sent = "" }) => pattern.test(sent));
    assert.ok(event !== undefined, `${name} has not sent ${pattern}`);
    return event.at;
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

  [Symbol.dispose](): void {
    this.#directory[Symbol.dispose]();
  }
}

/** Whether two files are the same; much faster than an assertion. */
function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** Draws power cuts in the order of their times. */
export function* drawPowerCuts(
  { stages }: Recording,
  count: number,
  random: Random,
): Generator<PowerCut> {
  const [first, ...others] = stages;
  assert.ok(first !== undefined);
  const times = Array.from({ length: count }, () => {
    const { name: stage, events } = random.pick([first, ...others]);
    const { length } = events;
    const [from, to] = random.pick([
      [0, length],
      [0, EDGE_EVENTS],
      [length - EDGE_EVENTS, length],
      [length, length],
    ]);
    const end = (events.at(-1)?.at ?? 0) + 1;
    return { stage, at: events[random.int(Math.max(0, from), to)]?.at ?? end };
  }).toSorted((a, b) => a.at - b.at);
  const disk = new Disk();
  const events = stages.flatMap(({ events }) => events);
  let next = 0;
  for (const cut of times) {
    for (let event; (event = events[next]) && event.at < cut.at; next++) {
      event.apply(disk);
    }
    yield { ...cut, image: withIndex(disk.afterPowerCut(random), random) };
  }
}

/** Adds what a disk may hold of the index of a log: anything. */
function withIndex(image: Image, random: Random): Image {
  if (!image.has(`${STORE}-wal`) || random.chance(0.5)) return image;
  const index = new Uint8Array(INDEX_BYTES).fill(random.int(0, 255));
  return new Map([...image, [`${STORE}-shm`, index]]);
}

/** Returns what was sent, and what the store must have at a time. */
export function ledgerAt(recording: Recording, time: number): Ledger {
  const { restored, copies } = recording;
  // While it is restored, the store has more, or exactly what the copy has.
  return time < restored.from
    ? acknowledgedAt(recording, time)
    : acknowledgedAt(recording, copies.at(-1)?.at ?? 0);
}

function acknowledgedAt(
  { sent, acknowledged }: Recording,
  time: number,
): Ledger {
  const ledger = new Ledger();
  for (const [id, plants] of sent) ledger.sent.set(id, [...plants]);
  for (const { at, id, plant } of acknowledged) {
    if (at < time) ledger.acknowledged.set(id, plant);
  }
  return ledger;
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

/** Returns what is wrong after a power cut. */
export async function findProblem(
  recording: Recording,
  { at, image }: PowerCut,
): Promise<string | undefined> {
  for (const copy of recording.copies) {
    const found = image.get(copy.path);
    if (found === undefined && copy.at < at) {
      return `the backup ${copy.path} is missing`;
    }
    if (found !== undefined && !areEqual(found, copy.content)) {
      return `the backup ${copy.path} is not complete`;
    }
  }
  const files = new Map(image.entries().filter(([it]) => it.startsWith(STORE)));
  try {
    if (files.has(STORE)) {
      // A copy, since SQLite changes the files. Deno.openKv panics on a corrupt
      // database.
      using directory = new ImageDirectory(files);
      assertIntegrity(directory.store);
    }
    // Opened as the service does it, then as an export does it.
    using directory = new ImageDirectory(files);
    const location = { kind: "file", path: directory.store } as const;
    const store = await openStore(location);
    const stored = await ledgerAt(recording, at).assertFile(directory.store)
      .finally(() => store.close());
    const { restored } = recording;
    if (at >= restored.from && stored !== restored.plants) {
      assert.ok(at <= restored.at, "not restored");
      await acknowledgedAt(recording, at).assertFile(directory.store);
    }
    if (at > restored.at) {
      const old = directory.names("data").find((it) => OLD_STORE.test(it));
      assert.ok(old !== undefined, "the old store is missing");
      await acknowledgedAt(recording, at)
        .assertFile(`${dirname(directory.store)}/${old}`);
    }
    (await openStoreToRead(location)).close();
    assertIntegrity(directory.store);
  } catch (error) {
    return errorMessage(error);
  }
}

/** Asserts that SQLite's own check finds nothing. */
function assertIntegrity(path: string): void {
  using database = new DatabaseSync(path);
  database.exec("PRAGMA synchronous = OFF");
  const row = database.prepare("PRAGMA integrity_check").get();
  assert.equal(row?.integrity_check, "ok");
}
