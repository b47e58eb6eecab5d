import { isDeepStrictEqual } from "node:util";
import {
  COMMIT_BYTES_MAX,
  COMMIT_MS_MAX,
  LOCK_RETRY_MS_MAX,
  RECOVERY_MS_MIN,
} from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import {
  commitBytes,
  type CommitResult,
  type Outcome,
} from "../../src/store/committer.ts";
import {
  type Content,
  FOREIGN,
  type Operation,
  type SimulatedFile,
  type SimulatedPath,
  type StoreObserver,
} from "./simulated_store.ts";
import type { VirtualTime } from "./virtual_time.ts";

/** Deno KV's limit for one write. */
const KV_WRITE_BYTES_MAX = 819_200;

/** A violation of what the service promises. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** What is known of a file: nothing in it ever changes. */
interface FileModel {
  readonly content: Content;
  /** The plants whose creates were answered `stored` or `unchanged`. */
  readonly acknowledged: Map<bigint, Plant>;
  /** The ids that a create was answered `stored` for. */
  readonly stored: Set<bigint>;
}

/** What all clients and instances share: what was sent, and the files. */
export class WorldModel {
  readonly time: VirtualTime;
  readonly path: SimulatedPath;
  /** Every plant that was sent for an id. */
  readonly #sent = new Map<bigint, Plant[]>();
  readonly #files = new Map<SimulatedFile, FileModel>();
  #violation: Violation | undefined;

  constructor(time: VirtualTime, path: SimulatedPath) {
    this.time = time;
    this.path = path;
  }

  /** Records a violation; the first one counts. */
  expect(holds: boolean, otherwise: string): void {
    if (holds) return;
    this.#violation ??= new Violation(
      `at ${this.time.nowMs.toFixed(1)} ms: ${otherwise}`,
    );
  }

  /** Records that a client, or another program, wrote a plant. */
  sent({ id, plant }: NewPlant): void {
    const plants = this.#sent.get(id);
    if (plants === undefined) this.#sent.set(id, [plant]);
    else plants.push(plant);
  }

  sentPlants(id: bigint): readonly Plant[] {
    return this.#sent.get(id) ?? [];
  }

  fileModel(file: SimulatedFile): FileModel {
    let model = this.#files.get(file);
    if (model === undefined) {
      model = {
        content: new Map(),
        acknowledged: new Map(),
        stored: new Set(),
      };
      this.#files.set(file, model);
    }
    return model;
  }

  /** Checks the files after an event. @throws {Violation} if there was one */
  assertStep(): void {
    if (this.path.file !== undefined) this.fileModel(this.path.file);
    for (const [file, { content }] of this.#files) {
      for (const [id, value] of file.content) {
        const known = content.get(id);
        if (known !== undefined) {
          this.expect(known === value, `the plant ${id} changed`);
          continue;
        }
        content.set(id, value);
        const wasSent = value === FOREIGN ||
          this.sentPlants(id).some((sent) => isDeepStrictEqual(sent, value));
        this.expect(wasSent, `the plant ${id} was never sent`);
      }
      this.expect(file.content.size === content.size, "a plant disappeared");
    }
    if (this.#violation !== undefined) throw this.#violation;
  }
}

/** A create that waits for its outcome. */
interface WaitingCreate extends NewPlant {
  readonly sinceMs: number;
  readonly step: number;
}

/** The bounds of an instance. */
export interface InstanceBounds {
  readonly plantsMax: number;
  readonly inFlightMax: number;
}

/** One instance of the service, seen as a black box. */
export class InstanceModel implements StoreObserver {
  readonly #world: WorldModel;
  readonly #file: SimulatedFile;
  readonly #bounds: InstanceBounds;
  readonly #waiting = new Set<WaitingCreate>();
  readonly #operations = new Set<Operation>();
  /** The ids of commits that wait for a lock. */
  readonly #sleeping = new Set<readonly bigint[]>();
  /** When an operation with an id last threw. */
  readonly #threwMs = new Map<bigint, number>();
  /** When the creates of an id last reached their deadline. */
  readonly #expiredMs = new Map<bigint, number>();
  #failing: string | undefined;
  /** Whether an operation threw in this event. */
  #hasThrown = false;
  /** When an operation last threw, or a create reached its deadline. */
  #lastFailedMs = -Infinity;
  /** The ids of the operation that ended last. */
  #lastIds: readonly bigint[] = [];

  constructor(world: WorldModel, file: SimulatedFile, bounds: InstanceBounds) {
    this.#world = world;
    this.#file = file;
    this.#bounds = bounds;
    world.fileModel(file);
  }

  get isFailing(): boolean {
    return this.#failing !== undefined;
  }

  /** Whether no operation and no create is left. */
  get isIdle(): boolean {
    return this.#inFlight === 0 && this.#waiting.size === 0;
  }

  /** Whether no operation can start. */
  get isFull(): boolean {
    return this.#inFlight >= this.#bounds.inFlightMax;
  }

  get waiting(): readonly NewPlant[] {
    return [...this.#waiting];
  }

  get #inFlight(): number {
    return this.#operations.size + this.#sleeping.size;
  }

  /** Records a create that is sent now. */
  create(newPlant: NewPlant): WaitingCreate {
    this.#world.sent(newPlant);
    const { nowMs: sinceMs, step } = this.#world.time;
    const create = { ...newPlant, sinceMs, step };
    this.#waiting.add(create);
    return create;
  }

  /** Checks the outcome of a create; other tests check when it is refused. */
  answered(create: WaitingCreate, outcome: Outcome): void {
    const { time } = this.#world;
    const { id, plant, sinceMs, step } = create;
    this.#waiting.delete(create);
    const isAtOnce = step === time.step;
    if (outcome === "queue_full") {
      this.#expect(isAtOnce, "refused a create that it had accepted");
      this.#expect(!this.isIdle, "refused a create with an idle store");
      return;
    }
    if (outcome === "failed") {
      // The creates of one id have the deadline of the first one.
      if (time.nowMs >= sinceMs + COMMIT_MS_MAX) {
        this.#expiredMs.set(id, time.nowMs);
        this.#lastFailedMs = time.nowMs;
      }
      this.#expect(
        this.#expiredMs.get(id) === time.nowMs ||
          (this.#threwMs.get(id) ?? -1) >= sinceMs,
        "answered failed before the deadline, and its commit did not fail",
      );
      return;
    }
    this.#expect(!isAtOnce, "answered without the store");
    this.#assertOnDisk(outcome, { id, plant });
  }

  /** See {@link StoreObserver}. */
  started(operation: Operation): void {
    const { ids } = operation;
    for (const other of this.#busyIds()) {
      // The operation of an expired create may still be in flight.
      const isNew = !ids.includes(other) || this.#expiredMs.has(other);
      this.#expect(isNew, `${other} is in two operations`);
    }
    this.#expect(ids.length > 0, "an empty operation");
    this.#expect(new Set(ids).size === ids.length, "an id twice in a batch");
    this.#operations.add(operation);
    this.#expect(
      this.#inFlight <= this.#bounds.inFlightMax,
      `${this.#inFlight} operations in flight`,
    );
    if (operation.kind === "commit") this.#assertBatch(operation.plants);
  }

  /** See {@link StoreObserver}. */
  ended(operation: Operation, result: CommitResult | "found" | "threw"): void {
    const { ids } = operation;
    this.#operations.delete(operation);
    this.#lastIds = ids;
    if (result !== "threw") return;
    this.#hasThrown = true;
    this.#lastFailedMs = this.#world.time.nowMs;
    for (const id of ids) this.#threwMs.set(id, this.#lastFailedMs);
  }

  /** Records that a commit waits for a lock. @returns to be called at the end */
  sleeps(ms: number): () => void {
    this.#expect(ms >= 0 && ms <= LOCK_RETRY_MS_MAX, `slept for ${ms} ms`);
    const ids = this.#lastIds;
    this.#sleeping.add(ids);
    return () => void this.#sleeping.delete(ids);
  }

  /** Records a report of the health. */
  reported(problem: string | undefined): void {
    this.#expect(problem !== this.#failing, `reported ${problem} twice`);
    this.#expect(
      problem !== undefined ||
        this.#world.time.nowMs >= this.#lastFailedMs + RECOVERY_MS_MIN,
      "reported a recovery too early",
    );
    this.#failing = problem;
  }

  /** Checks what holds after every event. */
  assertStep(waiting: number): void {
    const { size } = this.#waiting;
    this.#expect(waiting === size, `${waiting} creates waiting, not ${size}`);
    this.#expect(
      size === 0 || this.#inFlight > 0,
      "creates waited for an idle store",
    );
    this.#expect(
      this.isFailing || !this.#hasThrown,
      "an operation failed, and the health is good",
    );
    this.#hasThrown = false;
  }

  /** Checks what holds at the end of a sweep. */
  assertFileReported(): void {
    this.#expect(
      this.isFailing || this.#world.path.file === this.#file,
      "a lost file was not reported",
    );
  }

  /** Checks what holds when the answers of a sweep have reached the clients. */
  assertNoneOverdue(): void {
    for (const { sinceMs } of this.#waiting) {
      const ageMs = this.#world.time.nowMs - sinceMs;
      this.#expect(ageMs < COMMIT_MS_MAX, "not answered at its deadline");
    }
  }

  #expect(holds: boolean, otherwise: string): void {
    this.#world.expect(holds, otherwise);
  }

  #busyIds(): bigint[] {
    const operations = [...this.#operations].flatMap(({ ids }) => ids);
    return [...operations, ...[...this.#sleeping].flat()];
  }

  #assertBatch(plants: readonly NewPlant[]): void {
    const { length } = plants;
    this.#expect(length <= this.#bounds.plantsMax, `a batch of ${length}`);
    let estimated = 0;
    let bytes = 0;
    for (const { id, plant } of plants) {
      estimated += commitBytes(plant);
      bytes += writeBytes(plant);
      const isWaiting = [...this.#waiting].some((create) =>
        create.id === id && isDeepStrictEqual(create.plant, plant)
      );
      this.#expect(isWaiting, "committed a plant that no create waits for");
    }
    this.#expect(
      estimated <= COMMIT_BYTES_MAX,
      `a batch of ${estimated} bytes`,
    );
    this.#expect(bytes <= KV_WRITE_BYTES_MAX, `a write of ${bytes} bytes`);
  }

  /** Compares an outcome with what is on disk at this moment. */
  #assertOnDisk(
    outcome: "stored" | "unchanged" | "conflict",
    { id, plant }: NewPlant,
  ): void {
    const { file } = this.#world.path;
    const value = file?.content.get(id);
    const isSame = isDeepStrictEqual(value, plant);
    if (
      file === undefined || value === undefined ||
      isSame !== (outcome !== "conflict")
    ) {
      this.#expect(false, `answered ${outcome}, which the disk contradicts`);
      return;
    }
    if (outcome === "conflict") return;
    const { acknowledged, stored } = this.#world.fileModel(file);
    const before = acknowledged.get(id);
    this.#expect(
      before === undefined || isDeepStrictEqual(before, plant),
      "acknowledged two plants with one id",
    );
    acknowledged.set(id, plant);
    if (outcome !== "stored") return;
    this.#expect(!stored.has(id), "answered stored twice for one id");
    stored.add(id);
  }
}

/** Returns the bytes of a plant in a write as Deno KV counts them, or fewer. */
function writeBytes({ name, tag = "" }: Plant): number {
  const texts = [name, tag].map((text) =>
    /^[\0-\xff]*$/.test(text) ? text.length : 2 * text.length
  );
  const keyBytes = 10;
  return 3 * keyBytes + texts.reduce((a, b) => a + b);
}
