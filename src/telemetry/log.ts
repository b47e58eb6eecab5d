import { toLine } from "../text.ts";

/** Text, one JSON object per line, or text with the levels of systemd. */
export const LOG_FORMATS = ["text", "json", "journal"] as const;
export type LogFormat = typeof LOG_FORMATS[number];

/** The levels as systemd reads them at the start of a line: sd-daemon(3). */
const JOURNAL_PREFIX = { info: "<6>", warning: "<4>", error: "<3>" } as const;

type Level = keyof typeof JOURNAL_PREFIX;

/** Fields of a log entry besides its message, for programs. */
export type LogFields = Readonly<Record<string, string | number | boolean>>;

/** The log on stderr, one entry per event. Requests and configured tokens are never logged. */
export class Log {
  readonly #format: LogFormat;
  readonly #write: (text: string) => void;

  /** @param write writes an entry and a line break */
  constructor(
    format: LogFormat,
    write: (text: string) => void = writeStderr,
  ) {
    this.#format = format;
    this.#write = write;
  }

  /** Logs an event that needs no action. */
  info(event: string, message: string, fields: LogFields = {}): void {
    this.#log("info", event, message, fields);
  }

  /** Logs an event that may need an action, although the service works. */
  warn(event: string, message: string, fields: LogFields = {}): void {
    this.#log("warning", event, message, fields);
  }

  /** Logs a failure. */
  error(event: string, message: string, fields: LogFields = {}): void {
    this.#log("error", event, message, fields);
  }

  /**
   * Logs a programmer error with its stack.
   * @returns the id of the log entry
   */
  internalError(error: unknown): string {
    const id = crypto.randomUUID();
    const stack = Deno.inspect(error);
    this.#log("error", "internal error", `internal error ${id}`, { id }, stack);
    return id;
  }

  /** @param stack further lines of the entry */
  #log(
    level: Level,
    event: string,
    text: string,
    fields: LogFields,
    stack?: string,
  ): void {
    const message = toLine(text);
    const time = new Date().toISOString();
    const lines = stack === undefined ? message : `${message}\n${stack}`;
    switch (this.#format) {
      case "text":
        return this.#write(`${time} ${level}: ${lines}`);
      case "json":
        return this.#write(
          JSON.stringify({ time, level, event, message, ...fields, stack }),
        );
      case "journal":
        return this.#write(lines.replaceAll(/^/gm, JOURNAL_PREFIX[level]));
    }
  }
}

/** Writes a line to stderr; ignores errors, such as a full disk. */
export function writeStderr(text: string): void {
  try {
    console.error(text);
  } catch {
    // The error cannot be reported anywhere else.
  }
}
