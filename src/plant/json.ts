import { JSON_DEPTH_MAX } from "../limits.ts";

/** The kinds of JSON values (RFC 8259, section 3). */
export type JsonKind =
  | "string"
  | "number"
  | "object"
  | "array"
  | "boolean"
  | "null";

/** A requested member: the first one of its name. */
export interface Member {
  readonly kind: JsonKind;
  /** A decoded string, a number as spelled in the text, or empty. */
  readonly text: string;
  /** Whether the object has a second member of that name. */
  readonly isDuplicate: boolean;
}

/** The result of {@link readMembers}. */
export interface Members {
  /** The kind of the whole text. */
  readonly kind: JsonKind;
  /** One for each requested name, in that order; `undefined` if absent. */
  readonly members: readonly (Member | undefined)[];
}

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** The characters of the escapes that differ from their letter (section 7). */
const ESCAPED: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};
const ESCAPE_LETTER = /["\\/bfnrtu]/;
const HEX_DIGIT = /[0-9A-Fa-f]/;
/** Characters that a terminal hides or combines with their neighbors. */
const INVISIBLE = /[\p{C}\p{M}\p{Z}]/u;

/** The text violates the grammar. Never leaves this file. */
class GrammarError extends SyntaxError {}

/** Formats an offset as line and column, counted in code points from 1. */
function formatPosition(text: string, offset: number): string {
  let line = 1;
  let column = 1;
  for (let at = 0; at < offset; at++) {
    const code = text.charCodeAt(at);
    if (code === LF || (code === CR && text.charCodeAt(at + 1) !== LF)) {
      line++;
      column = 1;
    } else if (code < 0xdc00 || code > 0xdfff) { // not a low surrogate
      column++;
    }
  }
  return `line ${line}, column ${column}`;
}

/** Describes the character at an offset, safe to print. */
function describeAt(text: string, offset: number): string {
  const code = text.codePointAt(offset);
  if (code === undefined) return "the end of the text";
  const character = String.fromCodePoint(code);
  if (INVISIBLE.test(character)) {
    return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  }
  return character === '"' ? `'"'` : `"${character}"`;
}

function fail(text: string, at: number, expected: string): never {
  throw new GrammarError(
    `${formatPosition(text, at)}: expected ${expected}, found ${
      describeAt(text, at)
    }`,
  );
}

// Each skip function parses one production of the grammar: it takes the offset
// of its first character, returns the offset after its last one, and throws a
// GrammarError if the text does not match.

function skipSpace(text: string, at: number): number {
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code > SPACE) break;
    if (code !== SPACE && code !== LF && code !== CR && code !== TAB) break;
    at++;
  }
  return at;
}

/** An escape (section 7), from its backslash. */
function skipEscape(text: string, at: number): number {
  const letter = text.charAt(at + 1);
  if (!ESCAPE_LETTER.test(letter)) {
    fail(text, at + 1, String.raw`one of " \ / b f n r t u after a backslash`);
  }
  at += 2;
  if (letter !== "u") return at;
  for (const end = at + 4; at < end; at++) {
    if (!HEX_DIGIT.test(text.charAt(at))) {
      fail(text, at, String.raw`four hexadecimal digits after \u`);
    }
  }
  return at;
}

/** A string (section 7), from its opening quote. */
function skipString(text: string, at: number): number {
  at++;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code === BACKSLASH) {
      at = skipEscape(text, at);
    } else if (code < SPACE) {
      fail(text, at, "an escape in place of a control character");
    } else {
      at++;
    }
  }
  return fail(text, at, "the closing quote of a string");
}

function isDigitAt(text: string, at: number): boolean {
  const code = at < text.length ? text.charCodeAt(at) : 0;
  return code >= 0x30 && code <= 0x39;
}

function skipDigits(text: string, at: number, where: string): number {
  if (!isDigitAt(text, at)) fail(text, at, `a digit ${where}`);
  do at++; while (isDigitAt(text, at));
  return at;
}

/** A number (section 6). */
function skipNumber(text: string, at: number): number {
  if (text[at] === "-") at++;
  if (text[at] === "0") {
    at++;
    if (isDigitAt(text, at)) fail(text, at, "no digit after a leading zero");
  } else {
    at = skipDigits(text, at, 'after "-"');
  }
  if (text[at] === ".") at = skipDigits(text, at + 1, 'after "."');
  if (text[at] === "e" || text[at] === "E") {
    at++;
    if (text[at] === "+" || text[at] === "-") at++;
    at = skipDigits(text, at, "in the exponent");
  }
  return at;
}

function skipLiteral(text: string, at: number, word: string): number {
  for (const letter of word) {
    if (text[at] !== letter) fail(text, at, `the "${letter}" of ${word}`);
    at++;
  }
  return at;
}

/** An opening bracket. The bound on the depth protects the stack. */
function skipOpening(text: string, at: number, level: number): number {
  if (level > JSON_DEPTH_MAX) {
    fail(text, at, `at most ${JSON_DEPTH_MAX} levels of arrays and objects`);
  }
  return skipSpace(text, at + 1);
}

function skipArray(text: string, at: number, level: number): number {
  at = skipOpening(text, at, level);
  if (text[at] === "]") return at + 1;
  while (true) {
    at = skipSpace(text, skipValue(text, at, level));
    if (text[at] === "]") return at + 1;
    if (text[at] !== ",") fail(text, at, '"," or "]" after an element');
    at = skipSpace(text, at + 1);
  }
}

/** An object. Requested members are stored in `members`. */
function skipObject(
  text: string,
  at: number,
  level: number,
  requested?: readonly string[],
  members: (Member | undefined)[] = [],
): number {
  at = skipOpening(text, at, level);
  if (text[at] === "}") return at + 1;
  let expected = 'a quoted member name or "}"';
  while (true) {
    if (text[at] !== '"') fail(text, at, expected);
    const name = at;
    const nameEnd = skipString(text, name);
    at = skipSpace(text, nameEnd);
    if (text[at] !== ":") fail(text, at, '":" after a member name');
    const value = skipSpace(text, at + 1);
    const valueEnd = skipValue(text, value, level);
    if (requested !== undefined) {
      const index = requested.indexOf(decode(text, name, nameEnd));
      if (index >= 0) {
        members[index] = toMember(text, value, valueEnd, members[index]);
      }
    }
    at = skipSpace(text, valueEnd);
    if (text[at] === "}") return at + 1;
    if (text[at] !== ",") fail(text, at, '"," or "}" after a member');
    at = skipSpace(text, at + 1);
    expected = 'a quoted member name after ","';
  }
}

/** A value at a nesting level of arrays and objects. */
function skipValue(text: string, at: number, level: number): number {
  switch (text[at]) {
    case '"':
      return skipString(text, at);
    case "{":
      return skipObject(text, at, level + 1);
    case "[":
      return skipArray(text, at, level + 1);
    case "t":
      return skipLiteral(text, at, "true");
    case "f":
      return skipLiteral(text, at, "false");
    case "n":
      return skipLiteral(text, at, "null");
  }
  if (text[at] === "-" || isDigitAt(text, at)) return skipNumber(text, at);
  return fail(text, at, "a value");
}

/** Decodes the string between two offsets, quotes included. */
function decode(text: string, from: number, to: number): string {
  const raw = text.slice(from + 1, to - 1);
  let escape = raw.indexOf("\\");
  if (escape < 0) return raw;
  let decoded = "";
  let copied = 0;
  while (escape >= 0) {
    decoded += raw.slice(copied, escape);
    const letter = raw.charAt(escape + 1);
    if (letter === "u") {
      copied = escape + 6;
      const unit = parseInt(raw.slice(escape + 2, copied), 16);
      decoded += String.fromCharCode(unit);
    } else {
      copied = escape + 2;
      decoded += ESCAPED[letter] ?? letter;
    }
    escape = raw.indexOf("\\", copied);
  }
  return decoded + raw.slice(copied);
}

/** Returns the kind of a value, which its first character determines. */
function kindAt(text: string, at: number): JsonKind {
  switch (text[at]) {
    case '"':
      return "string";
    case "{":
      return "object";
    case "[":
      return "array";
    case "t":
    case "f":
      return "boolean";
    case "n":
      return "null";
  }
  return "number";
}

function toMember(
  text: string,
  from: number,
  to: number,
  earlier: Member | undefined,
): Member {
  if (earlier !== undefined) return { ...earlier, isDuplicate: true };
  const kind = kindAt(text, from);
  let value = "";
  if (kind === "string") value = decode(text, from, to);
  if (kind === "number") value = text.slice(from, to);
  return { kind, text: value, isDuplicate: false };
}

/**
 * Parses one JSON text (RFC 8259) and returns the requested members if it is an
 * object. The grammar of the whole text is checked, also of members that were
 * not requested. The time is linear in the length of the text.
 *
 * Unlike `JSON.parse` it keeps the spelling of numbers, reports duplicate
 * members, bounds the nesting (section 9), and says where and why a text is
 * not JSON.
 *
 * @returns the members, or a message if the text is not JSON
 */
export function readMembers(
  text: string,
  requested: readonly string[],
): Members | string {
  if (text === "") return "expected a JSON text, got nothing";
  if (text.startsWith("\ufeff")) {
    return "expected a JSON text without a byte order mark (U+FEFF) before it";
  }
  const members: (Member | undefined)[] = requested.map(() => undefined);
  try {
    const from = skipSpace(text, 0);
    const kind = kindAt(text, from);
    const to = kind === "object"
      ? skipObject(text, from, 1, requested, members)
      : skipValue(text, from, 0);
    const end = skipSpace(text, to);
    if (end < text.length) fail(text, end, "the end of the text");
    return { kind, members };
  } catch (error) {
    if (error instanceof GrammarError) return error.message;
    throw error;
  }
}
