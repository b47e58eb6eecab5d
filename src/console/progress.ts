import { writeStderr } from "../telemetry/log.ts";

/** Interval between two updates of the line. */
const UPDATE_MS = 100;

/** Returns to the start of the line and erases it (ECMA-48, CR and EL). */
const ERASE = "\r\x1b[K";

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const encoder = new TextEncoder();

/**
 * A line at the bottom of a terminal that shows the progress of a command. It
 * is not printed if stderr is not a terminal.
 */
export class Progress {
  readonly #isShown = Deno.stderr.isTerminal();
  readonly #startMs = performance.now();
  /** When the line was last shown; -Infinity while it is erased. */
  #updatedMs = -Infinity;

  /**
   * Shows the progress.
   * @param count plants processed
   */
  update(count: number): void {
    if (!this.#isShown) return;
    const nowMs = performance.now();
    if (nowMs - this.#updatedMs < UPDATE_MS) return;
    this.#updatedMs = nowMs;
    const perSecond = count / (nowMs - this.#startMs) * 1000;
    write(
      `${ERASE}${number.format(count)} plants, ${number.format(perSecond)}/s`,
    );
  }

  /** Prints a line that stays. */
  print(line: string): void {
    this.clear();
    writeStderr(line);
  }

  /** Erases the line; the next update shows it again. */
  clear(): void {
    if (this.#updatedMs > -Infinity) write(ERASE);
    this.#updatedMs = -Infinity;
  }
}

/** Writes without a line break; ignores errors, such as a closed terminal. */
function write(text: string): void {
  try {
    Deno.stderr.writeSync(encoder.encode(text));
  } catch {
    // The command works without its progress.
  }
}
