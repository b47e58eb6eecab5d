/** The access tokens of clients: what they look like, and what they are called. */
import { hash } from "node:crypto";

/**
 * Maximum accepted tokens; a rotation needs two. A request compares its token
 * with all of them, and 100 take about as long as the rest of a create.
 */
export const TOKENS_MAX = 100;

/** The grammar of a bearer token (RFC 6750, section 2.1: `b64token`). */
export const BEARER_TOKEN = String.raw`[A-Za-z0-9\-._~+/]+=*`;

/** What {@link parseTokens} expects. */
export const TOKENS_EXPECTED =
  `1 to ${TOKENS_MAX} tokens of letters, digits and -._~+/, with = at the end only`;

const TOKEN = new RegExp(`^${BEARER_TOKEN}$`);

/** Parses tokens, which may repeat and have white space around them. */
export function parseTokens(
  texts: readonly string[],
): readonly string[] | undefined {
  const tokens = [...new Set(texts.map((text) => text.trim()))];
  const isValid = tokens.length <= TOKENS_MAX &&
    tokens.every((token) => TOKEN.test(token));
  return isValid ? tokens : undefined;
}

/** Length of a fingerprint: it distinguishes tokens, and is short enough to compare. */
const FINGERPRINT_CHARS = 8;

/**
 * Returns the name of a token in the log and in the metrics. It does not reveal a
 * token that cannot be guessed. An operator computes it with `sha256sum`.
 */
export function fingerprintOf(token: string): string {
  return hash("sha256", token).slice(0, FINGERPRINT_CHARS);
}

/** Returns the names of tokens as a list. */
export function fingerprintsOf(tokens: readonly string[]): string {
  return tokens.map(fingerprintOf).join(", ");
}
