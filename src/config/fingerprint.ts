import { hash } from "node:crypto";

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
