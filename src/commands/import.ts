import { API_ERRORS, ErrorReply } from "../errors.ts";
import {
  CHECK_MS,
  IMPORT_CHARS_WAITING_MAX,
  IMPORT_CREATES_WAITING_MAX,
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
 * Creates the plants in a file with one NewPlant per line. A plant that is already
 * stored does not change, so an import can be repeated, however it ended.
 * @param path the file, or `-` for stdin
 * @returns the exit status: 0 if the plant of every line is stored now
 * @throws {OperatorError} if the file or the store cannot be opened or read
 */
export async function importPlants(
  location: StoreLocation,
  path: string,
): Promise<number> {
  // Open the file first: without one, no store is created.
  const input = openInput(path);
  const store = await openStore(location);
  const progress = new Progress();
  const health = new StoreHealth(store, (problem) => {
    if (problem !== undefined) progress.print(`the store fails: ${problem}`);
  });
  const committer = new Committer(store, health, { queueMsMax: Infinity });
  const checking = setInterval(() => {
    committer.expire();
    health.check();
  }, CHECK_MS);
  const run = new Import(committer, progress);
  let unreadable: OperatorError | undefined;
  try {
    for await (const lines of readLines(input.read)) {
      await run.add(lines);
      progress.update(run.settled, input.fraction());
      if (run.counts.failed > 0) break;
    }
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    // Report the outcome of the preceding lines first.
    unreadable = error;
  } finally {
    await run.end();
    progress.clear();
    clearInterval(checking);
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
    unchanged: 0,
    conflict: 0,
    queue_full: 0,
    failed: 0,
    refused: 0,
  };
  readonly #committer: Committer;
  readonly #progress: Progress;
  #lines = 0;
  /** Creates of the current window, and the UTF-16 code units of their lines. */
  #window: Promise<void>[] = [];
  #windowChars = 0;
  /** All creates before the current window. */
  #previous: Promise<unknown> = Promise.resolve();

  constructor(committer: Committer, progress: Progress) {
    this.#committer = committer;
    this.#progress = progress;
  }

  /** Number of plants that are stored, or conflict with a stored one. */
  get settled(): number {
    const { stored, unchanged, conflict } = this.counts;
    return stored + unchanged + conflict;
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
    const { stored, unchanged, conflict, refused, failed } = this.counts;
    writeStderr(
      `${stored} created, ${unchanged} already stored, ${conflict} ` +
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
    if (newPlant instanceof LineProblem || newPlant instanceof ErrorReply) {
      this.counts.refused++;
      // A syntax error has a line number of its own: replace it.
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
  /** The fraction that has been read, from 0 to 1, if the size is known. */
  readonly fraction: () => number | undefined;
  readonly close: () => void;
}

/** @throws {OperatorError} if the file cannot be opened */
function openInput(path: string): Input {
  const isStdin = path === "-";
  const name = isStdin ? "stdin" : path;
  try {
    const file = isStdin ? undefined : Deno.openSync(path);
    const info = file?.statSync();
    if (info?.isDirectory) throw new Deno.errors.IsADirectory();
    const size = info?.isFile ? info.size : 0;
    let bytes = 0;
    return {
      async read(buffer) {
        const count = await (file ?? Deno.stdin).read(buffer).catch((error) => {
          throw readFailure(name, error);
        });
        bytes += count ?? 0;
        return count;
      },
      fraction: () => size > 0 ? bytes / size : undefined,
      close: () => file?.close(),
    };
  } catch (error) {
    throw readFailure(name, error);
  }
}

function readFailure(path: string, error: unknown): OperatorError {
  return new OperatorError(`cannot read ${path}: ${fileProblem(error)}`);
}
