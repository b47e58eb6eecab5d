import { printError } from "./output.ts";

/** How often the line changes. */
const SHOW_MS = 100;

const BAR_CHARACTERS = 24;

/** Back to the begin of the line, and away with it (ECMA-48, CR and EL). */
const CLEAR = "\r\x1b[K";

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/**
 * A line at the foot of a terminal that says how far a command is and how fast
 * it goes. Nothing of it is printed where stderr is no terminal.
 */
export class Progress {
  readonly #isShown = Deno.stderr.isTerminal();
  readonly #startMs = performance.now();
  #shownMs = 0;

  /**
   * Tells how far the command is.
   * @param count the plants that are done
   * @param part how much that is of the whole, from 0 to 1, where it is known
   */
  update(count: number, part?: number): void {
    if (!this.#isShown) return;
    const nowMs = performance.now();
    if (nowMs - this.#shownMs < SHOW_MS) return;
    this.#shownMs = nowMs;
    const rate = count / (nowMs - this.#startMs) * 1000;
    const bar = part === undefined ? "" : `${drawBar(part)} `;
    write(
      `${CLEAR}${bar}${number.format(count)} plants, ` +
        `${number.format(rate)} a second`,
    );
  }

  /** Prints a line that stays. */
  say(line: string): void {
    this.clear();
    printError(line);
  }

  /** Takes the line away; the next update brings it back. */
  clear(): void {
    if (this.#isShown && this.#shownMs > 0) write(CLEAR);
    this.#shownMs = 0;
  }
}

function drawBar(part: number): string {
  const filled = Math.floor(Math.min(part, 1) * BAR_CHARACTERS);
  const percent = `${Math.floor(Math.min(part, 1) * 100)}`.padStart(3);
  return `[${"#".repeat(filled).padEnd(BAR_CHARACTERS, ".")}] ${percent} %`;
}

const encoder = new TextEncoder();

function write(text: string): void {
  try {
    Deno.stderr.writeSync(encoder.encode(text));
  } catch {
    // The terminal is gone; the work goes on.
  }
}
