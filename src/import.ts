import { Committer, type Outcome } from "./committer.ts";
import { Refusal } from "./errors.ts";
import { fileFault } from "./faults.ts";
import {
  IMPORT_CHARACTERS_WAITING_MAX,
  IMPORT_CREATES_WAITING_MAX,
  SWEEP_MS,
} from "./limits.ts";
import { readLines } from "./lines.ts";
import { printError } from "./output.ts";
import { readNewPlant } from "./plant.ts";
import { Progress } from "./progress.ts";
import { EXIT_FAILURE, StartError } from "./start_error.ts";
import { openStore, type StoreLocation } from "./store.ts";

/**
 * Creates the plants of a file, one NewPlant a line. What is there already is
 * left as it is, so an import can be run again, whatever became of it.
 * @param path the file, or `-` for stdin
 * @returns the exit status: 0 where every line is stored now
 * @throws {StartError} where the file cannot be read or the store not opened
 */
export async function importPlants(
  location: StoreLocation,
  path: string,
): Promise<number> {
  // The file first: where there is none, no store is made.
  const input = openInput(path);
  const store = await openStore(location);
  const progress = new Progress();
  const committer = new Committer(store, (problem) => {
    if (problem !== undefined) progress.say(`the store fails: ${problem}`);
  });
  const sweeping = setInterval(() => committer.sweep(), SWEEP_MS);
  const run = new Import(committer, progress);
  let unreadable: StartError | undefined;
  try {
    for await (const lines of readLines(input.read)) {
      await run.take(lines);
      progress.update(run.done, input.part());
      if (run.counts.failed > 0) break;
    }
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    // What was begun has an outcome, and that is told first.
    unreadable = error;
  }
  try {
    await run.end();
  } finally {
    progress.clear();
    clearInterval(sweeping);
    store.close();
    input.close();
  }
  const { stored, replayed, conflict, refused, failed } = run.counts;
  printError(
    `${stored} created, ${replayed} already there, ${conflict} conflicting, ` +
      `${refused} refused`,
  );
  if (failed > 0) {
    printError(
      `stopped after line ${run.lines}, the store failed on ${failed} plants: ` +
        "run the same import again when it is well",
    );
  }
  if (unreadable !== undefined) throw unreadable;
  return conflict + refused + failed > 0 ? EXIT_FAILURE : 0;
}

/** An import under way. */
class Import {
  readonly counts = {
    stored: 0,
    replayed: 0,
    conflict: 0,
    failed: 0,
    refused: 0,
  };
  /** Lines read. */
  lines = 0;
  readonly #committer: Committer;
  readonly #progress: Progress;
  #creates = 0;
  #characters = 0;
  #whenRoom: (() => void) | undefined;
  #whenDone: (() => void) | undefined;

  constructor(committer: Committer, progress: Progress) {
    this.#committer = committer;
    this.#progress = progress;
  }

  /** Plants that have an outcome. */
  get done(): number {
    const { stored, replayed, conflict } = this.counts;
    return stored + replayed + conflict;
  }

  /** Begins to create the plants of the next lines, as far as there is room. */
  async take(lines: readonly (string | Refusal)[]): Promise<void> {
    for (const line of lines) {
      this.lines++;
      if (line === "") continue;
      const newPlant = line instanceof Refusal ? line : readNewPlant(line);
      if (newPlant instanceof Refusal) {
        this.counts.refused++;
        // A grammar fault names its place; a lone CR begins a line in that.
        this.#say(this.lines, newPlant.message.replace(/^line \d+, /, ""));
        continue;
      }
      const { lines: number } = this;
      const characters = line instanceof Refusal ? 0 : line.length;
      this.#creates++;
      this.#characters += characters;
      this.#committer.create(newPlant).then((outcome) => {
        this.#creates--;
        this.#characters -= characters;
        this.#count(outcome, number, newPlant.id);
        if (!this.#isFull) this.#whenRoom?.();
        if (this.#creates === 0) this.#whenDone?.();
      });
      if (!this.#isFull) continue;
      await new Promise<void>((resolve) => this.#whenRoom = resolve);
      if (this.counts.failed > 0) return;
    }
  }

  /** Waits until every create that was begun has its outcome. */
  async end(): Promise<void> {
    if (this.#creates === 0) return;
    await new Promise<void>((resolve) => this.#whenDone = resolve);
  }

  get #isFull(): boolean {
    return this.#creates >= IMPORT_CREATES_WAITING_MAX ||
      this.#characters >= IMPORT_CHARACTERS_WAITING_MAX;
  }

  #count(outcome: Outcome, line: number, id: bigint): void {
    if (outcome === "queue full") {
      throw new Error("an import has more waiting than the queue holds");
    }
    this.counts[outcome]++;
    if (outcome === "conflict") {
      this.#say(line, `id: ${id} names another plant already`);
    }
  }

  #say(line: number, message: string): void {
    this.#progress.say(`line ${line}: ${message}`);
  }
}

/** What an import reads. */
interface Input {
  read(buffer: Uint8Array): Promise<number | null>;
  /** How much of it is read, from 0 to 1, where its size is known. */
  part(): number | undefined;
  close(): void;
}

function openInput(path: string): Input {
  if (path === "-") {
    return {
      read: (buffer) =>
        Deno.stdin.read(buffer).catch((error) => {
          throw readError("stdin", error);
        }),
      part: () => undefined,
      close: () => {},
    };
  }
  try {
    const file = Deno.openSync(path);
    const { size, isFile, isDirectory } = file.statSync();
    if (isDirectory) throw new Error("it is a folder");
    let bytes = 0;
    return {
      async read(buffer) {
        const count = await file.read(buffer).catch((error) => {
          throw readError(path, error);
        });
        bytes += count ?? 0;
        return count;
      },
      part: () => isFile && size > 0 ? bytes / size : undefined,
      close: () => file.close(),
    };
  } catch (error) {
    throw readError(path, error);
  }
}

function readError(path: string, error: unknown): StartError {
  return new StartError(`cannot read ${path}: ${fileFault(error)}`);
}
