/** Builds messages about problems, and makes them safe to print. */

/** Characters that a terminal hides or interprets, and unpaired surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Returns the message of a thrown value. */
export function errorMessage(error: unknown): string {
  // Node's error of a host with several addresses has no message of its own.
  if (error instanceof AggregateError && error.message === "") {
    return error.errors.map(errorMessage).join(", ");
  }
  return error instanceof Error ? error.message : String(error);
}

/**
 * A path as Deno and SQLite append it to a message, perhaps before Deno's advice:
 *
 * - "Not a directory (os error 20): open '/a'" becomes "Not a directory (os error 20)".
 * - 'Requires read access to "/a", run again with the --allow-read flag' becomes
 *   "Requires read access, run again with the --allow-read flag".
 */
const APPENDED_PATH =
  /(\(os error \d+\)|open database file|^Requires \w+ access).*?(, run again with the --[\w-]+ flag)?$/s;

/** Returns the message of an error without its path, which may contain anything. */
export function messageWithoutPath(error: unknown): string {
  const message = errorMessage(error);
  // Without Deno's advice to allow everything.
  return message.startsWith("Requires all access")
    ? "Deno cannot open special files, or paths in /dev, /proc and /sys"
    : message.replace(APPENDED_PATH, "$1$2");
}

/** Returns a number of things, such as `1 entry` or `2 entries`. */
export function countOf(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

/**
 * Truncates a text to `charsMax` UTF-16 code units, or one less to keep a
 * surrogate pair together, and appends an ellipsis.
 */
export function truncate(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  return `${text.slice(0, charsMax).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Puts a text on one line, and escapes what a terminal would interpret. */
export function toLine(text: string): string {
  const lines = text.split(/[\r\n]+/).map((line) => line.trim());
  return lines.filter((line) => line !== "").join(" ").replace(
    UNPRINTABLE,
    (character) => {
      const code = character.codePointAt(0) ?? 0;
      return String.raw`\u{${code.toString(16)}}`;
    },
  );
}
