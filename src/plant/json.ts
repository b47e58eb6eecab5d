import { JSON_DEPTH_MAX } from "../limits.ts";

/** A place in a text: line and column, counted in code points from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/**
 * Why and where a text is not JSON. Not an Error: to record a stack takes more time
 * than to read the text.
 */
export class NotJson {
  /** @param message what was expected, and what was found */
  constructor(readonly message: string, readonly position: Position) {}
}

/** The kinds of JSON values (RFC 8259, section 3), as messages name them. */
export type JsonKind =
  | "a string"
  | "a number"
  | "an object"
  | "an array"
  | "a boolean"
  | "null";

/** A JSON value. */
interface JsonValue {
  readonly kind: JsonKind;
  /** A decoded string, a number as spelled in the text, or empty. */
  readonly text: string;
}

/** A member of the outermost object: the first one of its name. */
export interface Member extends JsonValue {
  /** Whether the object has another member of that name. */
  readonly isDuplicate: boolean;
}

/** What {@link readMembers} returns. */
interface Members {
  /** The kind of the whole text. */
  readonly kind: JsonKind;
  /** By name; none if the text is not an object. */
  readonly members: ReadonlyMap<string, Member>;
}

/** The white space of JSON (RFC 8259, section 2). */
export const TAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SPACE = 0x20;

// Patterns for `#match`: sticky, so they match at one offset only.
const DIGITS = /[0-9]+/y;
const ZERO = /0(?![0-9])/y;
const HEX_DIGIT = /[0-9A-Fa-f]/y;
const ESCAPE_LETTER = /["\\/bfnrt]/y;
/** Characters of a string that need no escape. */
const UNESCAPED = /[ !#-[\]-\uffff]+/y;

const EXPECTED_ESCAPE = String.raw`one of " \ / b f n r t u after a backslash`;
const EXPECTED_HEX_DIGIT = String.raw`four hexadecimal digits after \u`;
const EXPECTED_LEVELS =
  `at most ${JSON_DEPTH_MAX} levels of arrays and objects`;

/** The level of the whole text. The values in an array or object have one more. */
const OUTERMOST = 1;

/** Characters that a terminal hides or combines with their neighbors. */
const INVISIBLE = /[\p{C}\p{M}\p{Z}]/u;

/** Returns the position at an offset. Only LF ends a line, as in an import. */
function positionOf(text: string, offset: number): Position {
  const lines = text.slice(0, offset).split("\n");
  const column = [...lines.at(-1) ?? ""].length + 1;
  return { line: lines.length, column };
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

/**
 * Reads a JSON text from its start to its end. Its methods follow the grammar; their
 * comments name sections of RFC 8259. Where the text does not match the grammar,
 * they throw {@link NotJson}.
 */
class Reader {
  readonly #text: string;
  /** The offset of the next character. */
  #at = 0;
  readonly #members = new Map<string, Member>();

  constructor(text: string) {
    this.#text = text;
  }

  /** The whole text (section 2). */
  read(): Members {
    const { kind } = this.#element(OUTERMOST);
    this.#require(this.#at === this.#text.length, "the end of the text");
    return { kind, members: this.#members };
  }

  /** A value with the white space around it. */
  #element(level: number): JsonValue {
    this.#space();
    const value = this.#value(level);
    this.#space();
    return value;
  }

  /** A value (section 3); its first character determines its kind. */
  #value(level: number): JsonValue {
    switch (this.#text[this.#at]) {
      case "{":
        return this.#object(level);
      case "[":
        return this.#array(level);
      case '"':
        return { kind: "a string", text: this.#string() };
      case "t":
        return this.#literal("true", "a boolean");
      case "f":
        return this.#literal("false", "a boolean");
      case "n":
        return this.#literal("null", "null");
      default:
        return this.#number();
    }
  }

  #literal(word: string, kind: JsonKind): JsonValue {
    for (const letter of word) {
      this.#require(this.#accept(letter), `the "${letter}" of ${word}`);
    }
    return { kind, text: "" };
  }

  /** An object (section 4). */
  #object(level: number): JsonValue {
    this.#open(level);
    if (!this.#accept("}")) {
      this.#member(level, 'a quoted member name or "}"');
      while (this.#accept(",")) {
        this.#member(level, 'a quoted member name after ","');
      }
      this.#require(this.#accept("}"), '"," or "}" after a member');
    }
    return { kind: "an object", text: "" };
  }

  /** A member. Those of the outermost object are kept. */
  #member(level: number, expected: string): void {
    this.#space();
    this.#require(this.#text[this.#at] === '"', expected);
    const name = this.#string();
    this.#space();
    this.#require(this.#accept(":"), '":" after a member name');
    const value = this.#element(level + 1);
    if (level !== OUTERMOST) return;
    const first = this.#members.get(name);
    const { kind, text } = first ?? value;
    const isDuplicate = first !== undefined;
    this.#members.set(name, { kind, text, isDuplicate });
  }

  /** An array (section 5). */
  #array(level: number): JsonValue {
    this.#open(level);
    if (!this.#accept("]")) {
      do this.#element(level + 1); while (this.#accept(","));
      this.#require(this.#accept("]"), '"," or "]" after an element');
    }
    return { kind: "an array", text: "" };
  }

  /** An opening bracket. The bound on levels prevents a stack overflow. */
  #open(level: number): void {
    this.#require(level <= JSON_DEPTH_MAX, EXPECTED_LEVELS);
    this.#at++;
    this.#space();
  }

  /** A number (section 6). */
  #number(): JsonValue {
    const from = this.#at;
    const isNegative = this.#accept("-");
    if (this.#text[this.#at] === "0") {
      this.#require(this.#match(ZERO), "a number without a leading zero");
    } else {
      this.#digits(isNegative ? 'a digit after "-"' : "a value");
    }
    if (this.#accept(".")) this.#digits('a digit after "."');
    if (this.#accept("e") || this.#accept("E")) {
      if (!this.#accept("+")) this.#accept("-");
      this.#digits("a digit in the exponent");
    }
    return { kind: "a number", text: this.#text.slice(from, this.#at) };
  }

  #digits(expected: string): void {
    this.#require(this.#match(DIGITS), expected);
  }

  /** A string (section 7), decoded. */
  #string(): string {
    const from = this.#at++;
    this.#match(UNESCAPED);
    if (this.#accept('"')) return this.#text.slice(from + 1, this.#at - 1);
    do {
      this.#escape();
      this.#match(UNESCAPED);
    } while (!this.#accept('"'));
    return String(JSON.parse(this.#text.slice(from, this.#at)));
  }

  #escape(): void {
    const isEnd = this.#at === this.#text.length;
    this.#require(!isEnd, "the closing quote of a string");
    this.#require(
      this.#accept("\\"),
      "an escape in place of a control character",
    );
    if (this.#match(ESCAPE_LETTER)) return;
    this.#require(this.#accept("u"), EXPECTED_ESCAPE);
    for (let digit = 1; digit <= 4; digit++) {
      this.#require(this.#match(HEX_DIGIT), EXPECTED_HEX_DIGIT);
    }
  }

  /** White space (section 2), if there is any. */
  #space(): void {
    let code = this.#text.charCodeAt(this.#at);
    while (code === SPACE || code === LF || code === CR || code === TAB) {
      this.#at++;
      code = this.#text.charCodeAt(this.#at);
    }
  }

  /** Consumes the next character if it is the given one; returns whether. */
  #accept(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  /** Consumes a match of a sticky pattern; returns whether there was one. */
  #match(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    if (!pattern.test(this.#text)) return false;
    this.#at = pattern.lastIndex;
    return true;
  }

  /** Throws if a condition on the next character does not hold. */
  #require(condition: boolean, expected: string): void {
    if (condition) return;
    const found = describeAt(this.#text, this.#at);
    throw new NotJson(
      `expected ${expected}, found ${found}`,
      positionOf(this.#text, this.#at),
    );
  }
}

/**
 * Parses one JSON text (RFC 8259) and returns its members if it is an object. The
 * time is linear in the length of the text.
 *
 * Unlike `JSON.parse` it keeps the spelling of numbers, reports duplicate
 * members, bounds the nesting (section 9), and reports where and why a text is
 * not JSON.
 *
 * @returns the members, or why and where the text is not JSON
 */
export function readMembers(text: string): Members | NotJson {
  try {
    return new Reader(text).read();
  } catch (thrown) {
    if (thrown instanceof NotJson) return thrown;
    throw thrown;
  }
}
