/** Tokens: their grammar and their readers. */
import { TOKENS_MAX } from "../limits.ts";
import { OperatorError } from "../operator_error.ts";
import { KV_TOKEN } from "../store/location.ts";
import { type FileSetting, readFile } from "./files.ts";

/** The grammar of a bearer token (RFC 6750, section 2.1: `b64token`). */
export const BEARER_TOKEN = String.raw`[A-Za-z0-9\-._~+/]+=*`;

const TOKEN = new RegExp(`^${BEARER_TOKEN}$`);

/** Bytes of a generated token: 128 random bits cannot be guessed. */
const TOKEN_BYTES = 16;

/** Returns a new token. */
export function generateToken(): string {
  return crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)).toHex();
}

/** Checks tokens, and removes the white space around them. */
export function readTokens(
  name: string,
  texts: readonly string[],
): readonly string[] {
  const tokens = texts.map((text) => text.trim());
  if (tokens.length === 0 || tokens.includes("")) {
    throw new OperatorError(
      `${name}: expected a token, got an empty one: write a token there`,
    );
  }
  const invalid = tokens.findIndex((token) => !TOKEN.test(token));
  if (invalid >= 0) {
    // The message is logged, so it must not quote the token.
    const which = tokens.length === 1 ? "the token" : `token ${invalid + 1}`;
    throw new OperatorError(
      `${name}: ${which} has a character that a bearer token cannot have: ` +
        "write letters, digits and -._~+/ only, = at the end",
    );
  }
  const count = new Set(tokens).size;
  if (count <= TOKENS_MAX) return tokens;
  throw new OperatorError(
    `${name}: expected at most ${TOKENS_MAX} tokens, got ${count}: ` +
      "remove those that no client uses",
  );
}

/**
 * Reads a token file: one token per line, ignoring empty lines.
 * @param read reads its text: at the start, or again
 * @throws {OperatorError} if the file cannot be read, or a line is not a token
 */
export function readTokenFile(
  file: FileSetting,
  read: typeof readFile = readFile,
): readonly string[] {
  const lines = read(file).split("\n").filter((line) => line.trim() !== "");
  return readTokens(`${file.name}: ${file.path}`, lines);
}

/**
 * Checks the token of a KV Connect server. Deno panics if it has a line break.
 * @throws {OperatorError}
 */
export function readKvToken(text = ""): string {
  const token = text.trim();
  if (token === "") {
    throw new OperatorError(
      `${KV_TOKEN} is not set: a KV Connect server needs its token`,
    );
  }
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new OperatorError(
    `${KV_TOKEN}: expected a token without white space or ` +
      "characters beyond ASCII",
  );
}
