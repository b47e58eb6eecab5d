/** What commands print: their output on stdout, and lines about it on stderr. */
import { fileFailure } from "../operator_error.ts";
import { writeStderr } from "../telemetry/log.ts";
import { toLine } from "../text.ts";

/** Interval between two updates of the progress on a terminal. */
const PROGRESS_MS = 100;

/** Returns to the start of the line and erases it (ECMA-48, CR and EL). */
const ERASE = "\r\x1b[K";

const encoder = new TextEncoder();

/** Determined once, because an import shows its progress after each line. */
const isTerminal = Deno.stderr.isTerminal();

/** When the progress was last shown; -Infinity while its line is erased. */
let shownMs = -Infinity;

/**
 * Writes all of a text to stdout.
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 * @throws {OperatorError} on other failures, such as a full disk
 */
export async function writeStdout(text: string): Promise<void> {
  let bytes = encoder.encode(text);
  try {
    while (bytes.length > 0) {
      bytes = bytes.subarray(await Deno.stdout.write(bytes));
    }
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) throw error;
    throw fileFailure("cannot write to stdout", error);
  }
}

/** Prints a text on one line of stderr. */
export function printLine(text: string): void {
  eraseProgress();
  writeStderr(toLine(text));
}

/** Shows at the bottom of a terminal how many plants a command has processed. */
export function showProgress(plants: number, nowMs: number): void {
  if (!isTerminal || nowMs - shownMs < PROGRESS_MS) return;
  writeTerminal(`${ERASE}${plants.toLocaleString("en")} plants`);
  shownMs = nowMs;
}

/** Erases the progress, before other output and at the end. */
export function eraseProgress(): void {
  if (shownMs > -Infinity) writeTerminal(ERASE);
  shownMs = -Infinity;
}

/** Writes without a line break; ignores errors, such as a closed terminal. */
function writeTerminal(text: string): void {
  try {
    Deno.stderr.writeSync(encoder.encode(text));
  } catch {
    // The command works without its progress.
  }
}
