import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import type { Settings } from "../config/settings.ts";
import { explain } from "../console/failures.ts";
import { openStdin, parseLine, readLines } from "../console/lines.ts";
import { eraseProgress, printLine, showProgress } from "../console/output.ts";
import { SWEEP_MS, WRITE_MS_MAX } from "../limits.ts";
import {
  EXIT_CONFIGURATION,
  EXIT_FAILURE,
  fileFailure,
  OperatorError,
} from "../operator_error.ts";
import type { NewPlant } from "../plant/plant.ts";
import { Committer } from "../store/committer.ts";
import type { Store } from "../store/kv_store.ts";
import { openStore, type StoreLocation } from "../store/open.ts";
import type { StoreError } from "../store/store_error.ts";
import { countOf } from "../text.ts";

/** What tests replace. */
export interface ImportOptions {
  readonly clock?: Clock;
  readonly open?: (
    location: StoreLocation,
    mayCreate: boolean,
  ) => Promise<{ readonly store: Store; readonly isNew: boolean }>;
}

/**
 * Creates the plants in a file with one NewPlant per line. A plant that is already
 * stored does not change, so an import can be repeated, however it ended.
 * @param path the file, or `-` for stdin
 * @returns the exit status: 0 if the plant of every line is stored now, 1 if the
 * store failed, 2 if a line must change first
 * @throws {OperatorError} if the file cannot be read
 * @throws {StoreError} if the store cannot be opened
 */
export async function importPlants(
  settings: Settings,
  path: string,
  { clock = SYSTEM_CLOCK, open = openStore }: ImportOptions = {},
): Promise<number> {
  const location = settings.store();
  const mayCreate = settings.mayCreateStore();
  // Before the store: an import without its file creates none.
  const input = openInput(path);
  const { store, isNew } = await open(location, mayCreate);
  // A mistyped path would otherwise look like success.
  if (isNew) printLine(`created a new store in ${location.name}`);
  const counts = { stored: 0, replayed: 0, conflict: 0, refused: 0, failed: 0 };
  let problem = "";
  const listener = {
    committed() {},
    commitFailed: (error: StoreError) =>
      problem = `(${error.kind}): ${explain(error, location)}`,
  };
  const committer = new Committer({ store, listener, clock });

  let settledMs = clock();
  const sweeping = setInterval(() => {
    // A slow store may take any time while it makes progress. Otherwise the creates
    // that have waited too long fail, and the import ends.
    if (clock() - settledMs >= WRITE_MS_MAX) committer.expire();
  }, SWEEP_MS);

  let line = 0;
  /** The lines that are not reported yet, in their order: enough for full commits. */
  const waiting: Promise<void>[] = [];
  const { plantsMax, inFlightMax } = store.commitBounds;
  const waitingMax = 2 * inFlightMax * plantsMax;

  /** Imports a line, and reports why it must change, after the lines before it. */
  async function importLine(lineNumber: number, parsed: NewPlant | string) {
    const before = waiting.at(-1);
    let reason: string | undefined;
    if (typeof parsed === "string") {
      counts.refused++;
      reason = parsed;
    } else {
      const outcome = await committer.create(parsed);
      counts[outcome]++;
      if (outcome !== "failed") settledMs = clock();
      if (outcome === "conflict") {
        reason = `the plant with id ${parsed.id} differs from the stored one`;
      }
    }
    await before;
    if (reason !== undefined) printLine(`line ${lineNumber}: ${reason}`);
  }

  /** Starts the import of each line, until the store fails. */
  async function importAll(): Promise<void> {
    for await (const lines of readLines(input, path)) {
      for (const bytes of lines) {
        line++;
        const parsed = parseLine(bytes);
        if (parsed !== undefined) waiting.push(importLine(line, parsed));
        if (waiting.length === waitingMax) await waiting.shift();
        if (counts.failed > 0) return;
        showProgress(counts.stored + counts.replayed, clock());
      }
    }
  }

  try {
    await importAll();
  } finally {
    await Promise.all(waiting);
    clearInterval(sweeping);
    store.close();
    eraseProgress();
    const { stored, replayed, conflict, refused } = counts;
    printLine(
      `${stored} created, ${replayed} already stored, ${conflict} conflicting, ` +
        `${refused} refused`,
    );
  }
  const { conflict, refused, failed } = counts;
  if (failed > 0) {
    const count = countOf(failed, "plant", "plants");
    printLine(
      `stopped at line ${line}, the store failed on ${count} ${problem}: ` +
        "repeat the same import when the store works",
    );
    return EXIT_FAILURE;
  }
  return conflict + refused > 0 ? EXIT_CONFIGURATION : 0;
}

/** Opens a file, or stdin. @throws {OperatorError} */
function openInput(path: string): ReadableStream<Uint8Array> {
  if (path === "-") return openStdin();
  if (path === "") {
    throw new OperatorError("expected a file, got an empty name");
  }
  try {
    const file = Deno.openSync(path);
    if (file.statSync().isDirectory) {
      throw new Deno.errors.IsADirectory("it is a directory");
    }
    return file.readable;
  } catch (error) {
    throw fileFailure(`cannot read ${path}`, error);
  }
}
