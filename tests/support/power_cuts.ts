/** Cuts the power in a recorded run, and checks what is left. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { dirname } from "node:path";
import { ID_MAX } from "../../src/limits.ts";
import { errorMessage } from "../../src/messages.ts";
import { isSamePlant, type Plant } from "../../src/plant/plant.ts";
import type { KvStore } from "../../src/store/kv_store.ts";
import { openStore, openStoreToRead } from "../../src/store/open_store.ts";
import { StoreError } from "../../src/store/store_error.ts";
import {
  Disk,
  drawBytes,
  type Image,
  type Loss,
  LOSSES,
} from "./disk_images.ts";
import {
  type Acknowledgement,
  areEqual,
  type Recording,
  STORE,
} from "./power_cut_runs.ts";
import type { Random } from "./random.ts";
import type { RecordedEvent } from "./recorder.ts";
import { TemporaryDirectory } from "./temporary.ts";

/** Bytes of the index of a log: memory that SQLite processes share. */
const INDEX_BYTES = 32 * 1024;

/** A plant that no recorded run has sent. */
const NEW_PLANT = { id: ID_MAX, plant: { name: "After the power cut" } };

/** A moment of a run, and what the disk may hold if the power is cut then. */
export interface PowerCut {
  readonly stage: string;
  /** The number of events before it. */
  readonly moment: number;
  readonly loss: Loss;
  readonly image: Image;
}

/** Draws power cuts in the order of their moments. */
export function* drawPowerCuts(
  { events, stages }: Recording,
  count: number,
  random: Random,
): Generator<PowerCut> {
  const [first, ...others] = stages;
  assert.ok(first !== undefined);
  const moments = Array.from({ length: count }, () => {
    const { name, from, to } = random.pick([first, ...others]);
    const moment = random.int(from, to);
    return { stage: name, moment, loss: random.pick([...LOSSES]) };
  }).toSorted((a, b) => a.moment - b.moment);
  const disk = new Disk();
  let now = 0;
  for (const cut of moments) {
    for (const event of events.slice(now, cut.moment)) disk.apply(event);
    now = cut.moment;
    const image = disk.afterPowerCut(random, cut.loss);
    yield { ...cut, image: withIndex(image, random) };
  }
}

/** Adds what a disk may hold of the index of a log: anything. */
function withIndex(image: Image, random: Random): Image {
  if (!image.has(`${STORE}-wal`)) return image;
  const bytes = random.pick([undefined, 0, INDEX_BYTES]);
  if (bytes === undefined) return image;
  return new Map([...image, [`${STORE}-shm`, drawBytes(random, bytes)]]);
}

/** Returns the events with some syncs that have no effect. */
export function dropSyncs(
  events: readonly RecordedEvent[],
  share: number,
  random: Random,
): RecordedEvent[] {
  return events.map((event) =>
    event.kind === "sync ended" && random.chance(share)
      ? { ...event, kind: "sync started" }
      : event
  );
}

/** Returns the part of a recording in which the power is to be cut. */
export function during(recording: Recording, stages: RegExp): Recording {
  return {
    ...recording,
    stages: recording.stages.filter(({ name }) => stages.test(name)),
  };
}

/** Returns the plants that are acknowledged at a moment. */
export function acknowledgedAt(
  { acknowledged }: Recording,
  moment: number,
): readonly Acknowledgement[] {
  const next = acknowledged.findIndex(({ at }) => at >= moment);
  return acknowledged.slice(0, next === -1 ? undefined : next);
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
  { moment, image }: PowerCut,
): Promise<string | undefined> {
  for (const { path, content, reportedAt } of recording.copies) {
    const copy = image.get(path);
    if (copy !== undefined && !areEqual(copy, content)) {
      return `the backup ${path} is not complete`;
    }
    if (copy === undefined && reportedAt < moment) {
      return `the backup ${path} is missing`;
    }
  }
  const files = new Map(image.entries().filter(([it]) => it.startsWith(STORE)));
  if (files.has(STORE)) {
    // A copy, since SQLite changes the files. Deno.openKv panics on a corrupt
    // database.
    using directory = new ImageDirectory(files);
    const corruption = findCorruption(directory.store);
    if (corruption !== undefined) return corruption;
  }
  using directory = new ImageDirectory(files);
  try {
    return await findStoreProblem(directory.store, recording, moment);
  } catch (error) {
    if (error instanceof StoreError) return error.message;
    throw error;
  }
}

/**
 * Opens a store as the service does, compares its plants, creates another one,
 * and opens it again as an export does. Throws a {@link StoreError}.
 */
async function findStoreProblem(
  path: string,
  recording: Recording,
  moment: number,
): Promise<string | undefined> {
  const location = { kind: "file", path } as const;
  const store = await openStore(location);
  try {
    const problem = findDifference(await readPlants(store), recording, moment);
    if (problem !== undefined) return problem;
    const result = await store.commit([NEW_PLANT]);
    if (result !== "committed") return `the result of a create: ${result}`;
  } finally {
    store.close();
  }
  const reopened = await openStoreToRead(location);
  reopened.close();
  return findCorruption(path);
}

/** Compares the stored plants with what was sent and acknowledged. */
function findDifference(
  stored: ReadonlyMap<bigint, Plant>,
  recording: Recording,
  moment: number,
): string | undefined {
  for (const [id, plant] of stored) {
    if (!recording.sent.get(id)?.some((it) => isSamePlant(it, plant))) {
      return `${id} was never sent as ${JSON.stringify(plant)}`;
    }
  }
  for (const { id, plant } of acknowledgedAt(recording, moment)) {
    const found = stored.get(id);
    if (found === undefined) return `${id} was acknowledged and is missing`;
    if (!isSamePlant(found, plant)) {
      return `${id} was acknowledged and is altered`;
    }
  }
}

/** Returns the result of SQLite's own check, unless it is ok. */
function findCorruption(path: string): string | undefined {
  try {
    const database = new DatabaseSync(path);
    try {
      database.exec("PRAGMA synchronous = OFF");
      const row = database.prepare("PRAGMA integrity_check").get();
      const result = row?.integrity_check;
      return result === "ok" ? undefined : `the integrity check: ${result}`;
    } finally {
      database.close();
    }
  } catch (error) {
    return `the integrity check: ${errorMessage(error)}`;
  }
}

async function readPlants(store: KvStore): Promise<Map<bigint, Plant>> {
  const plants = new Map<bigint, Plant>();
  for await (const page of store.pages()) {
    for (const entry of page) {
      if (typeof entry === "string") {
        throw new StoreError("other", `${entry} is not a plant`);
      }
      plants.set(entry.id, entry.plant);
    }
  }
  return plants;
}
