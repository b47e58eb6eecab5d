/** Words for people: what went wrong, safe to print on one line. */

/** Control characters, line separators and what changes the order of text. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Returns the message of whatever was thrown. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Describes why a file cannot be used, to the person who named it. */
export function fileProblem(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "no such file";
  if (error instanceof Deno.errors.IsADirectory) return "it is a directory";
  if (error instanceof Deno.errors.PermissionDenied) {
    return "permission denied";
  }
  if (error instanceof Deno.errors.NotCapable) {
    return "Deno does not open special files of the system";
  }
  return errorMessage(error);
}

/** Shortens a text to a number of UTF-16 code units, never inside a character. */
export function truncate(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const code = text.charCodeAt(charsMax - 1);
  const isHighSurrogate = code >= 0xd800 && code <= 0xdbff;
  return `${text.slice(0, isHighSurrogate ? charsMax - 1 : charsMax)}…`;
}

/** Puts a text on one line, with escapes for what a terminal would interpret. */
export function toLine(text: string): string {
  return text.trim().replace(/\s*[\r\n]\s*/g, " ").replace(
    UNPRINTABLE,
    (character) => {
      const code = character.codePointAt(0) ?? 0;
      return String.raw`\u{${code.toString(16)}}`;
    },
  );
}
