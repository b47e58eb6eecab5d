import { API_ERRORS, Refusal } from "../errors.ts";
import {
  IMPORT_CHARS_WAITING_MAX,
  IMPORT_CREATES_WAITING_MAX,
  SWEEP_MS,
} from "../limits.ts";
import { fileProblem } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { parseNewPlant } from "../plant/plant.ts";
import { Committer, type Outcome } from "../store/committer.ts";
import { StoreHealth } from "../store/health.ts";
import type { StoreLocation } from "../store/kv_store.ts";
import { writeStderr } from "../telemetry/log.ts";
import { LineProblem, readLines } from "./lines.ts";
import { Progress } from "./progress.ts";
import { openStore } from "./store.ts";

/**
 * Creates the plants of a file, one NewPlant a line. A plant that is stored
 * already stays as it is, so an import can be repeated, however it ended.
 * @param path the file, or `-` for stdin
 * @returns the exit status: 0 if every line is stored now
 * @throws {OperatorError} if the file or the store cannot be opened or read
 */
export async function importPlants(
  location: StoreLocation,
  path: string,
): Promise<number> {
  // The file first: without one, no store is created.
  const input = openInput(path);
  const store = await openStore(location);
  const progress = new Progress();
  const health = new StoreHealth(store, (problem) => {
    if (problem !== undefined) progress.print(`the store fails: ${problem}`);
  });
  const committer = new Committer(store, health, { queueMsMax: Infinity });
  const sweeping = setInterval(() => {
    committer.sweep();
    health.sweep();
  }, SWEEP_MS);
  const run = new Import(committer, progress);
  let unreadable: OperatorError | undefined;
  try {
    for await (const lines of readLines(input.read)) {
      await run.add(lines);
      progress.update(run.done, input.fraction());
      if (run.counts.failed > 0) break;
    }
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    // Report the outcome of the lines before it first.
    unreadable = error;
  } finally {
    await run.end();
    progress.clear();
    clearInterval(sweeping);
    store.close();
    input.close();
  }
  run.report();
  if (unreadable !== undefined) throw unreadable;
  const { conflict, refused, failed } = run.counts;
  return conflict + refused + failed > 0 ? EXIT_FAILURE : 0;
}

/** An import in progress. */
class Import {
  readonly counts: Record<Outcome | "refused", number> = {
    stored: 0,
    replayed: 0,
    conflict: 0,
    overloaded: 0,
    failed: 0,
    refused: 0,
  };
  readonly #committer: Committer;
  readonly #progress: Progress;
  #lines = 0;
  /** Creates of the current window, and their text. */
  #window: Promise<void>[] = [];
  #windowChars = 0;
  /** All creates before the current window. */
  #previous: Promise<unknown> = Promise.resolve();

  constructor(committer: Committer, progress: Progress) {
    this.#committer = committer;
    this.#progress = progress;
  }

  /** Plants that are stored, or conflict with a stored one. */
  get done(): number {
    const { stored, replayed, conflict } = this.counts;
    return stored + replayed + conflict;
  }

  /**
   * Starts to create the plants of the next lines. Two windows of creates are
   * in progress at one time, each with half of the bounds.
   */
  async add(lines: readonly (string | LineProblem)[]): Promise<void> {
    for (const line of lines) {
      this.#lines++;
      if (line === "") continue;
      this.#addLine(line);
      if (
        this.#window.length < IMPORT_CREATES_WAITING_MAX / 2 &&
        this.#windowChars < IMPORT_CHARS_WAITING_MAX / 2
      ) continue;
      await this.#previous;
      if (this.counts.failed > 0) return;
      this.#previous = Promise.all(this.#window);
      this.#window = [];
      this.#windowChars = 0;
    }
  }

  /** Waits for the outcome of every create. */
  async end(): Promise<void> {
    await this.#previous;
    await Promise.all(this.#window);
  }

  /** Prints the outcome of the import. */
  report(): void {
    const { stored, replayed, conflict, refused, failed } = this.counts;
    writeStderr(
      `${stored} created, ${replayed} already stored, ${conflict} ` +
        `conflicting, ${refused} refused`,
    );
    if (failed === 0) return;
    writeStderr(
      `stopped after line ${this.#lines}, the store failed on ${failed} ` +
        "plants: repeat the same import when it has recovered",
    );
  }

  #addLine(line: string | LineProblem): void {
    const number = this.#lines;
    const newPlant = line instanceof LineProblem ? line : parseNewPlant(line);
    if (newPlant instanceof LineProblem || newPlant instanceof Refusal) {
      this.counts.refused++;
      // A syntax error names its position; the line is that of the import.
      this.#print(number, newPlant.message.replace(/^line \d+, /, ""));
      return;
    }
    this.#windowChars += String(line).length;
    this.#window.push(
      this.#committer.create(newPlant).then((outcome) => {
        this.counts[outcome]++;
        if (outcome === "conflict") {
          const message = API_ERRORS.idTaken.message(String(newPlant.id));
          this.#print(number, message);
        }
      }),
    );
  }

  #print(line: number, message: string): void {
    this.#progress.print(`line ${line}: ${message}`);
  }
}

/** The input of an import. */
interface Input {
  readonly read: (buffer: Uint8Array) => Promise<number | null>;
  /** The part that was read, from 0 to 1, if the size is known. */
  readonly fraction: () => number | undefined;
  readonly close: () => void;
}

/** @throws {OperatorError} if the file cannot be opened */
function openInput(path: string): Input {
  if (path === "-") {
    return {
      read: (buffer) =>
        Deno.stdin.read(buffer).catch((error) => {
          throw readFailure("stdin", error);
        }),
      fraction: () => undefined,
      close: () => {},
    };
  }
  try {
    const file = Deno.openSync(path);
    const { size, isFile, isDirectory } = file.statSync();
    if (isDirectory) throw new Deno.errors.IsADirectory();
    let bytes = 0;
    return {
      async read(buffer) {
        const count = await file.read(buffer).catch((error) => {
          throw readFailure(path, error);
        });
        bytes += count ?? 0;
        return count;
      },
      fraction: () => isFile && size > 0 ? bytes / size : undefined,
      close: () => file.close(),
    };
  } catch (error) {
    throw readFailure(path, error);
  }
}

function readFailure(path: string, error: unknown): OperatorError {
  return new OperatorError(`cannot read ${path}: ${fileProblem(error)}`);
}
