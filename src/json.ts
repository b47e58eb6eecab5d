import { ERROR, Refusal } from "./errors.ts";
import { JSON_DEPTH_MAX } from "./limits.ts";

/** The kinds of value that JSON has (RFC 8259, section 3). */
export type JsonKind =
  | "string"
  | "number"
  | "object"
  | "array"
  | "boolean"
  | "null";

/** A wanted member, as it came first. */
export interface Member {
  readonly kind: JsonKind;
  /** A string decoded, a number as it is spelled in the text, else empty. */
  readonly text: string;
  /** Whether the object has a second member of that name. */
  readonly twice: boolean;
}

/** What {@link readMembers} found. */
export interface Members {
  /** The kind of the whole text. */
  readonly kind: JsonKind;
  /** One for each wanted name, in their order; `undefined` where absent. */
  readonly members: readonly (Member | undefined)[];
}

/** What stands where a character would be, at the end of the text. */
const END = -1;
const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const SLASH = 0x2f;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const BRACKET_OPEN = 0x5b;
const BACKSLASH = 0x5c;
const BRACKET_CLOSE = 0x5d;
const BRACE_OPEN = 0x7b;
const BRACE_CLOSE = 0x7d;
const LOWER_E = 0x65;
const LOWER_F = 0x66;
const LOWER_N = 0x6e;
const LOWER_T = 0x74;
const LOWER_U = 0x75;
/** With this bit an ASCII letter is a lower case one. */
const LOWER_CASE = 0x20;

/** The escapes of one letter that do not stand for themselves (section 7). */
const ESCAPED: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};
const ESCAPE = /^["\\/bfnrtu]$/;
const HEX_DIGIT = /^[0-9A-Fa-f]$/;
/** What a terminal would not show, or would show as something else. */
const INVISIBLE = /^[\p{C}\p{M}\p{Z}]$/u;

const NOTHING_WANTED: readonly string[] = [];

/** The text breaks the grammar. Never leaves this file. */
class GrammarError extends SyntaxError {}

/** The place of an offset as people count: lines, and code points in one. */
function place(text: string, offset: number): string {
  let line = 1;
  let column = 1;
  for (let at = 0; at < offset; at++) {
    const code = text.charCodeAt(at);
    if (code === LF || (code === CR && text.charCodeAt(at + 1) !== LF)) {
      line++;
      column = 1;
    } else if (code < 0xdc00 || code > 0xdfff) { // not a pair's second half
      column++;
    }
  }
  return `line ${line}, column ${column}`;
}

/** The one character at an offset, in words that are safe to show. */
function found(text: string, offset: number): string {
  const code = text.codePointAt(offset);
  if (code === undefined) return "the end of the text";
  const character = String.fromCodePoint(code);
  if (INVISIBLE.test(character)) {
    return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  }
  return character === '"' ? `'"'` : `"${character}"`;
}

/** What a string stands for. Its grammar has been checked before. */
function decode(raw: string): string {
  let escape = raw.indexOf("\\");
  if (escape < 0) return raw;
  let decoded = "";
  let from = 0;
  while (escape >= 0) {
    decoded += raw.slice(from, escape);
    const letter = raw.charAt(escape + 1);
    if (letter === "u") {
      from = escape + 6;
      const unit = parseInt(raw.slice(escape + 2, from), 16);
      decoded += String.fromCharCode(unit);
    } else {
      from = escape + 2;
      decoded += ESCAPED[letter] ?? letter;
    }
    escape = raw.indexOf("\\", from);
  }
  return decoded + raw.slice(from);
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

/**
 * Walks over a text and throws a {@link GrammarError} where the grammar ends.
 * It makes no values: whoever wants one cuts it out of the text between the
 * two places.
 */
class Walker {
  readonly text: string;
  at = 0;

  constructor(text: string) {
    this.text = text;
  }

  fail(expected: string): never {
    const { text, at } = this;
    throw new GrammarError(
      `${place(text, at)}: expected ${expected}, found ${found(text, at)}`,
    );
  }

  /** The code unit here. Reading past the end would cost V8 its fast path. */
  code(): number {
    return this.at < this.text.length ? this.text.charCodeAt(this.at) : END;
  }

  space(): void {
    let code = this.code();
    while (code === SPACE || code === LF || code === CR || code === TAB) {
      this.at++;
      code = this.code();
    }
  }

  /** A value inside so many levels of arrays and objects. */
  value(level: number): JsonKind {
    const code = this.code();
    if (code === QUOTE) {
      this.string();
      return "string";
    }
    if (code === MINUS || isDigit(code)) {
      this.number();
      return "number";
    }
    switch (code) {
      case BRACE_OPEN:
        this.object(level + 1, NOTHING_WANTED, []);
        return "object";
      case BRACKET_OPEN:
        this.array(level + 1);
        return "array";
      case LOWER_T:
        this.literal("true");
        return "boolean";
      case LOWER_F:
        this.literal("false");
        return "boolean";
      case LOWER_N:
        this.literal("null");
        return "null";
    }
    return this.fail("a value");
  }

  /** Over an opening bracket. The bound keeps the recursion off the stack's end. */
  open(level: number): void {
    if (level > JSON_DEPTH_MAX) {
      this.fail(`at most ${JSON_DEPTH_MAX} levels of arrays and objects`);
    }
    this.at++;
    this.space();
  }

  /** An object; the wanted ones of its members go into `members`. */
  object(
    level: number,
    wanted: readonly string[],
    members: (Member | undefined)[],
  ): void {
    this.open(level);
    if (this.code() === BRACE_CLOSE) {
      this.at++;
      return;
    }
    if (this.code() !== QUOTE) this.fail('a quoted member name or "}"');
    while (true) {
      const nameFrom = this.at;
      this.string();
      const nameTo = this.at;
      this.space();
      if (this.code() !== COLON) this.fail('":" after a member name');
      this.at++;
      this.space();
      const from = this.at;
      const kind = this.value(level);
      if (wanted.length > 0) {
        const name = decode(this.text.slice(nameFrom + 1, nameTo - 1));
        const index = wanted.indexOf(name);
        if (index >= 0) {
          const earlier = members[index];
          members[index] = earlier === undefined
            ? { kind, text: this.valueText(kind, from), twice: false }
            : { kind: earlier.kind, text: earlier.text, twice: true };
        }
      }
      this.space();
      const code = this.code();
      if (code !== COMMA && code !== BRACE_CLOSE) {
        this.fail('"," or "}" after a member');
      }
      this.at++;
      if (code === BRACE_CLOSE) return;
      this.space();
      if (this.code() !== QUOTE) this.fail('a quoted member name after ","');
    }
  }

  /** The `text` of a member whose value ends here. */
  valueText(kind: JsonKind, from: number): string {
    if (kind === "string") {
      return decode(this.text.slice(from + 1, this.at - 1));
    }
    return kind === "number" ? this.text.slice(from, this.at) : "";
  }

  array(level: number): void {
    this.open(level);
    if (this.code() === BRACKET_CLOSE) {
      this.at++;
      return;
    }
    while (true) {
      this.value(level);
      this.space();
      const code = this.code();
      if (code !== COMMA && code !== BRACKET_CLOSE) {
        this.fail('"," or "]" after an element');
      }
      this.at++;
      if (code === BRACKET_CLOSE) return;
      this.space();
    }
  }

  literal(word: string): void {
    for (const letter of word) {
      if (this.text[this.at] !== letter) {
        this.fail(`the "${letter}" of ${word}`);
      }
      this.at++;
    }
  }

  digits(where: string): void {
    if (!isDigit(this.code())) this.fail(`a digit ${where}`);
    do this.at++; while (isDigit(this.code()));
  }

  /** A number (section 6). */
  number(): void {
    if (this.code() === MINUS) this.at++;
    if (this.code() === ZERO) {
      this.at++;
      if (isDigit(this.code())) this.fail("no digit after a leading zero");
    } else {
      this.digits('after "-"');
    }
    if (this.code() === DOT) {
      this.at++;
      this.digits('after "."');
    }
    if ((this.code() | LOWER_CASE) === LOWER_E) {
      this.at++;
      const sign = this.code();
      if (sign === PLUS || sign === MINUS) this.at++;
      this.digits("in the exponent");
    }
  }

  /** A string (section 7), from its opening quote. */
  string(): void {
    const { text } = this;
    let at = this.at + 1;
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        this.at = at + 1;
        return;
      }
      if (code === BACKSLASH) {
        this.at = at;
        this.escape();
        at = this.at - 1;
      } else if (code < SPACE) {
        this.at = at;
        this.fail("an escape in place of a control character");
      }
    }
    this.at = at;
    this.fail("the closing quote of a string");
  }

  escape(): void {
    this.at++;
    if (!ESCAPE.test(this.text.charAt(this.at))) {
      this.fail(String.raw`one of " \ / b f n r t u after a backslash`);
    }
    const unicode = this.code() === LOWER_U;
    this.at++;
    if (!unicode) return;
    for (let digit = 0; digit < 4; digit++) {
      if (!HEX_DIGIT.test(this.text.charAt(this.at))) {
        this.fail(String.raw`four hexadecimal digits after \u`);
      }
      this.at++;
    }
  }
}

/**
 * Reads a text that must be one JSON text (RFC 8259) and, if that is an
 * object, takes the wanted ones of its members out of it. The grammar of the
 * whole text is checked, also where nobody wants to know; the time is linear
 * in its length.
 *
 * Unlike `JSON.parse` it keeps numbers as they are spelled, tells a member
 * that is given twice, bounds the nesting (section 9), and says where and why
 * a text is not JSON.
 */
export function readMembers(
  text: string,
  wanted: readonly string[],
): Members | Refusal {
  if (text === "") {
    return new Refusal(ERROR.NOT_JSON, "expected a JSON text, got nothing");
  }
  if (text.startsWith("\ufeff")) {
    return new Refusal(
      ERROR.NOT_JSON,
      "expected a JSON text without a byte order mark (U+FEFF) before it",
    );
  }
  const walker = new Walker(text);
  const members: (Member | undefined)[] = [];
  try {
    let kind: JsonKind = "object";
    walker.space();
    if (walker.code() === BRACE_OPEN) {
      walker.object(1, wanted, members);
    } else {
      kind = walker.value(0);
    }
    walker.space();
    if (walker.code() !== END) walker.fail("the end of the text");
    return { kind, members };
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    return new Refusal(ERROR.NOT_JSON, error.message);
  }
}
