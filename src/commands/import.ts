import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import type { Settings, StoreSetting } from "../config/settings.ts";
import { explain } from "../console/failures.ts";
import { eraseProgress, printLine, showProgress } from "../console/output.ts";
import { BODY_BYTES_MAX, COMMIT_MS_MAX, ID_MIN, SWEEP_MS } from "../limits.ts";
import {
  EXIT_CONFIGURATION,
  EXIT_FAILURE,
  fileFailure,
} from "../operator_error.ts";
import { CR, LF, SPACE, TAB } from "../plant/json.ts";
import {
  formatNewPlant,
  InvalidText,
  type NewPlant,
  parseNewPlant,
  type Plant,
} from "../plant/plant.ts";
import { Committer } from "../store/committer.ts";
import type { Store } from "../store/kv_store.ts";
import { type OpenOptions, openStore } from "../store/open.ts";
import { countOf } from "../text.ts";

/**
 * Bytes by which the line of an export can be longer than the body that created its
 * plant. A body can write an id as 1e18, an export writes all digits: at most 20
 * characters in place of at least one.
 */
const ID_GROWTH_BYTES_MAX = String(ID_MIN).length - 1;

/** A line can begin with a byte order mark, and end with the CR of a CRLF. */
const MARK_AND_CR_BYTES = 3 + 1;

/** Maximum size of a line of an import: every line of an export must fit. */
export const LINE_BYTES_MAX = BODY_BYTES_MAX + ID_GROWTH_BYTES_MAX +
  MARK_AND_CR_BYTES;

/** A store for the plants of an import. */
interface ImportStore extends Store {
  close(): void;
}

/** What tests replace. */
export interface ImportOptions {
  readonly clock?: Clock;
  readonly open?: (
    location: StoreSetting,
    mayCreate: boolean,
    options: OpenOptions,
  ) => Promise<{ readonly store: ImportStore; readonly isNew: boolean }>;
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
  const { store, isNew } = await open(location, mayCreate, {
    onDelay: printLine,
  });
  // A mistyped path would otherwise look like success.
  if (isNew) printLine(`created a new store in ${location.name}`);
  const counts = { stored: 0, replayed: 0, conflict: 0, refused: 0, failed: 0 };
  let problem = "";
  const committer = new Committer(store, {
    committed() {},
    commitFailed: (error) => problem = explain(error, location),
  }, clock);

  const startMs = clock();
  let settledMs = startMs;
  const sweeping = setInterval(() => {
    // A slow store may take any time while it makes progress. Otherwise the creates
    // that have waited too long fail, and the import ends.
    if (clock() - settledMs >= COMMIT_MS_MAX) committer.expire();
  }, SWEEP_MS);

  async function create(newPlant: NewPlant, line: number): Promise<void> {
    const outcome = await committer.create(newPlant);
    counts[outcome]++;
    if (outcome !== "failed") settledMs = clock();
    if (outcome !== "conflict") return;
    const { id } = newPlant;
    printLine(
      `line ${line}: the plant with id ${id} differs from the stored one`,
    );
  }

  let line = 0;
  /** The creates that wait, in order of arrival: enough for full commits. */
  const waiting: Promise<void>[] = [];
  const { plantsMax, inFlightMax } = store.commitBounds;
  const waitingMax = 2 * inFlightMax * plantsMax;

  /** Starts the create of each line, until the store fails. */
  async function createAll(): Promise<void> {
    for await (const lines of readLines(input, path)) {
      for (const bytes of lines) {
        line++;
        const parsed = parseLine(bytes);
        if (typeof parsed === "string") {
          counts.refused++;
          printLine(`line ${line}: ${parsed}`);
        } else if (parsed !== undefined) waiting.push(create(parsed, line));
        if (waiting.length === waitingMax) await waiting.shift();
        if (counts.failed > 0) return;
        showProgress(counts.stored + counts.replayed, startMs, clock());
      }
    }
  }

  try {
    await createAll();
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
      `stopped at line ${line}, the store failed on ${count}: ${problem}: ` +
        "repeat the same import when the store works",
    );
    return EXIT_FAILURE;
  }
  return conflict + refused > 0 ? EXIT_CONFIGURATION : 0;
}

/** Opens a file, or stdin. @throws {OperatorError} */
function openInput(path: string): ReadableStream<Uint8Array> {
  if (path === "-") return Deno.stdin.readable;
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

/**
 * Reads the lines of a file, without their LF. Ends at a line above
 * {@link LINE_BYTES_MAX}, and yields what has arrived of it: a long line needs no
 * more memory.
 *
 * It yields the lines of a chunk together. Measured: with one line at a time, an
 * import of plants that are stored already takes a quarter longer.
 * @throws {OperatorError} if the file cannot be read
 */
async function* readLines(
  input: ReadableStream<Uint8Array>,
  path: string,
): AsyncGenerator<readonly Uint8Array[]> {
  let rest = new Uint8Array();
  try {
    for await (const chunk of input) {
      const bytes = new Uint8Array(rest.length + chunk.length);
      bytes.set(rest);
      bytes.set(chunk, rest.length);
      const lines: Uint8Array[] = [];
      let from = 0;
      for (let end; (end = bytes.indexOf(LF, from)) !== -1; from = end + 1) {
        lines.push(bytes.subarray(from, end));
      }
      rest = bytes.subarray(from);
      const longAt = lines.findIndex(isTooLong);
      if (longAt !== -1) {
        yield lines.slice(0, longAt + 1);
        return;
      }
      yield lines;
      if (isTooLong(rest)) break;
    }
  } catch (error) {
    throw fileFailure(`cannot read ${path}`, error);
  }
  if (rest.length > 0) yield [rest];
}

function isTooLong({ length }: Uint8Array): boolean {
  return length > LINE_BYTES_MAX;
}

/** Returns the plant of a line, or why there is none; `undefined` if it is empty. */
function parseLine(bytes: Uint8Array): NewPlant | string | undefined {
  if (isTooLong(bytes)) {
    return `expected at most ${LINE_BYTES_MAX} bytes; the import ends here`;
  }
  const json = withoutByteOrderMark(bytes);
  if (json.every(isBlank)) return undefined;
  // JSON allows the CR of a CRLF.
  const parsed = parseNewPlant(json);
  if (parsed instanceof InvalidText) {
    const { message, position } = parsed;
    return position ? `column ${position.column}: ${message}` : message;
  }
  // A line of at most BODY_BYTES_MAX is itself a body, so its plant fits.
  if (json.length > BODY_BYTES_MAX && !fitsBody(parsed.plant)) {
    return `expected a plant that fits a body of ${BODY_BYTES_MAX} bytes`;
  }
  return parsed;
}

/** Returns whether a create could have stored a plant, under the shortest id. */
function fitsBody(plant: Plant): boolean {
  const shortest = formatNewPlant({ id: 0n, plant });
  return new TextEncoder().encode(shortest).length <= BODY_BYTES_MAX;
}

/**
 * Removes a byte order mark, which is no JSON. Some programs write one at the start
 * of a file, and in joined files it is at the start of any line.
 */
function withoutByteOrderMark(bytes: Uint8Array): Uint8Array {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return hasMark ? bytes.subarray(3) : bytes;
}

function isBlank(byte: number): boolean {
  return byte === SPACE || byte === TAB || byte === CR;
}
