import { serialize } from "node:v8";
import { fileFailure, nameOf, storeFailure } from "../console/failures.ts";
import { Progress } from "../console/progress.ts";
import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import {
  BODY_BYTES_MAX,
  CHECK_MS,
  COMMIT_MS_MAX,
  VALUE_BYTES_MAX,
} from "../limits.ts";
import { countOf, toLine } from "../messages.ts";
import { exitStatusOf, type OperatorError } from "../operator_error.ts";
import { InvalidText } from "../plant/invalid_text.ts";
import { type NewPlant, parseNewPlant } from "../plant/plant.ts";
import { Committer, type Outcome } from "../store/committer.ts";
import { openStore } from "../store/open.ts";
import type { StoreLocation } from "../store/location.ts";
import type { Store } from "../store/store.ts";
import { StoreError } from "../store_error.ts";
import { writeStderr } from "../telemetry/log.ts";
import { type LineProblem, readLines } from "../plant/lines.ts";

/**
 * Creates the plants in a file with one NewPlant per line. A plant that is already
 * stored does not change, so an import can be repeated, however it ended.
 * @param path the file, or `-` for stdin
 * @returns the exit status: 0 if the plant of every line is stored now, 1 if the
 * store failed, 2 if a line must change first
 * @throws {OperatorError} if the file or the store cannot be opened or read
 */
export async function importPlants(
  location: StoreLocation,
  path: string,
): Promise<number> {
  // Open the file first: without one, no store is created.
  const input = openInput(path);
  const store = await openStore(location).catch((error) => {
    throw storeFailure("store plants in", location, error);
  });
  // A mistyped path would otherwise look like success.
  if (store.isNew) {
    writeStderr(toLine(`created a new store in ${nameOf(location)}`));
  }
  const progress = new Progress();
  const run = new Import(store, SYSTEM_CLOCK, progress);
  try {
    await run.addInput(input, path);
  } finally {
    progress.clear();
    store.close();
    // If the input cannot be read any further, report the preceding lines.
    run.report();
  }
  if (run.isComplete) return 0;
  return exitStatusOf({ isTransient: run.counts.failed > 0 });
}

/** What an import reads. */
type Input = Pick<Deno.FsFile, "read" | "close">;

/** An import in progress. */
export class Import {
  readonly #committer: Committer;
  readonly #progress: Progress | undefined;
  readonly #clock: Clock;
  /** Lines by outcome; those without a plant are refused. */
  readonly counts: Record<Outcome | "refused", number> = {
    stored: 0,
    replayed: 0,
    conflict: 0,
    failed: 0,
    refused: 0,
  };
  #lines = 0;
  /** When the store last settled a create. */
  #settledMs = -Infinity;
  #storeError: StoreError | undefined;

  /** @param progress where it shows its progress and prints problems */
  constructor(store: Store, clock: Clock, progress?: Progress) {
    this.#progress = progress;
    this.#clock = clock;
    this.#committer = new Committer(store, {
      committed() {},
      commitFailed: (error) => this.#reportFailure(error),
    }, clock);
  }

  /** The last failure of the store. */
  get storeError(): StoreError | undefined {
    return this.#storeError;
  }

  /** Creates the plants of an input until the store fails, and closes it. */
  async addInput(input: Input, path: string): Promise<void> {
    function read(buffer: Uint8Array): Promise<number | null> {
      return input.read(buffer).catch((error) => {
        throw readFailure(path, error);
      });
    }
    const checking = setInterval(() => this.expire(), CHECK_MS);
    try {
      for await (const lines of readLines(read)) {
        await this.add(lines);
        const { stored, replayed, conflict, failed } = this.counts;
        this.#progress?.update(stored + replayed + conflict);
        if (failed > 0) break;
      }
    } finally {
      clearInterval(checking);
      input.close();
    }
  }

  /** Creates the plants of some lines, and waits for the outcome of all. */
  async add(lines: readonly (string | LineProblem)[]): Promise<void> {
    const creates: Promise<void>[] = [];
    for (const line of lines) {
      this.#lines++;
      if (line === "") continue;
      const newPlant = parseLine(line);
      if ("problem" in newPlant) {
        this.counts.refused++;
        this.#print(`line ${this.#lines}: ${newPlant.problem}`);
      } else {
        creates.push(this.#create(newPlant, this.#lines));
      }
    }
    await Promise.all(creates);
  }

  /**
   * Fails the creates that wait if the store makes no progress. Call it
   * regularly. A slow store may take any time for all of them.
   */
  expire(): void {
    if (this.#clock.nowMs() - this.#settledMs < COMMIT_MS_MAX) return;
    this.#committer.expire();
  }

  /** Whether the plant of every line is stored. */
  get isComplete(): boolean {
    const { conflict, failed, refused } = this.counts;
    return conflict + failed + refused === 0;
  }

  /** Prints the outcome. */
  report(): void {
    const { stored, replayed, conflict, failed, refused } = this.counts;
    writeStderr(
      `${stored} created, ${replayed} already stored, ${conflict} ` +
        `conflicting, ${refused} refused`,
    );
    if (failed === 0) return;
    writeStderr(
      `stopped after line ${this.#lines}, the store failed on ${
        countOf(failed, "plant", "plants")
      }: repeat the same import when the store works`,
    );
  }

  async #create(newPlant: NewPlant, line: number): Promise<void> {
    const outcome = await this.#committer.create(newPlant);
    this.counts[outcome]++;
    if (outcome === "failed") return;
    this.#settledMs = this.#clock.nowMs();
    const { id } = newPlant;
    if (outcome === "conflict") {
      this.#print(
        `line ${line}: id: ${id} is already taken by a different plant`,
      );
    }
  }

  /** Prints a problem once, although every commit of a read may have it. */
  #reportFailure(error: StoreError): void {
    if (error.kind === this.#storeError?.kind) return;
    this.#storeError = error;
    this.#print(`the store fails: ${error.message}`);
  }

  #print(line: string): void {
    this.#progress?.print(line);
  }
}

function parseLine(line: string | LineProblem): NewPlant | LineProblem {
  if (typeof line !== "string") return line;
  const newPlant = parseNewPlant(line);
  if (newPlant instanceof InvalidText) {
    const { message, position } = newPlant;
    const where = position === undefined ? "" : `column ${position.column}: `;
    return { problem: where + message };
  }
  // The plant of a body always fits the store. A longer line may have one that
  // does not, if V8 stores it with two bytes a character.
  if (line.length <= BODY_BYTES_MAX) return newPlant;
  const { length } = serialize(newPlant.plant);
  return length <= VALUE_BYTES_MAX ? newPlant : {
    problem:
      `expected a plant of at most ${VALUE_BYTES_MAX} bytes as stored, got ${length}`,
  };
}

/** Opens the input of an import. */
export function openInput(path: string): Input {
  if (path === "-") return Deno.stdin;
  try {
    const file = Deno.openSync(path);
    if (file.statSync().isDirectory) {
      file.close();
      throw new StoreError("path", "it is a directory");
    }
    return file;
  } catch (error) {
    throw readFailure(path, error);
  }
}

function readFailure(path: string, error: unknown): OperatorError {
  return fileFailure("read", path === "-" ? "stdin" : path, error);
}
