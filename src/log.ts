import { printError } from "./output.ts";

/** How lines on stderr look: for people, or one JSON object a line. */
export type LogFormat = "text" | "json";

/** What an event carries beside its message, for programs that read the log. */
export type LogFields = Readonly<Record<string, string | number | boolean>>;

/**
 * The log of the service on stderr: one line an event, nothing for an ordinary
 * request, and never a token.
 */
export class Log {
  readonly #format: LogFormat;

  constructor(format: LogFormat) {
    this.#format = format;
  }

  /** Something that an operator may want to know happened. */
  info(event: string, message: string, fields: LogFields = {}): void {
    this.#write("info", event, message, fields);
  }

  /** Something works no longer, or not as it should. */
  error(event: string, message: string, fields: LogFields = {}): void {
    this.#write("error", event, message, fields);
  }

  /**
   * A fault of the program: logged whole, stack and all.
   * @returns the id under which it stands in the log, for the reply
   */
  fault(error: unknown): string {
    const id = crypto.randomUUID();
    const stack = Deno.inspect(error);
    this.#write("error", "fault", `fault ${id}`, { id, stack });
    return id;
  }

  #write(
    level: "info" | "error",
    event: string,
    text: string,
    fields: LogFields,
  ): void {
    const message = text.replaceAll("\n", " ");
    const time = new Date().toISOString();
    if (this.#format === "json") {
      printError(JSON.stringify({ time, level, event, message, ...fields }));
    } else {
      const stack = fields.stack === undefined ? "" : `\n${fields.stack}`;
      printError(`${time} ${level}: ${message}${stack}`);
    }
  }
}
