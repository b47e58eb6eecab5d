import { hash } from "node:crypto";
import { BEARER_TOKEN } from "../config.ts";

/** The case-insensitive scheme (RFC 9110, section 11.1) and one token. */
const CREDENTIALS = new RegExp(`^bearer +(${BEARER_TOKEN})$`, "i");

/**
 * The result of checking an Authorization header. `no token`: it is missing,
 * has another scheme, or does not have exactly one token.
 */
export type Authorization = "accepted" | "no token" | "not accepted";

/** The tokens that the service accepts. */
export class AcceptedTokens {
  #hashes: readonly string[] = [];
  /** The last header that was accepted. */
  #lastHeader: string | undefined;

  constructor(tokens: readonly string[]) {
    this.replace(tokens);
  }

  /** Replaces the accepted tokens. */
  replace(tokens: readonly string[]): void {
    this.#hashes = tokens.map(sha256);
    this.#lastHeader = undefined;
  }

  /**
   * Checks the value of an Authorization header, `null` if there is none. The
   * runtime joins repeated headers with a comma, which no token contains.
   *
   * Tokens are compared by their hashes, which are equally long, and without
   * early exit, so the time does not reveal how close a guess was.
   */
  check(header: string | null): Authorization {
    if (header === null) return "no token";
    // Clients repeat the same header, and hashing it for each request would
    // cost a fifth of the throughput.
    if (this.#lastHeader !== undefined && isEqual(header, this.#lastHeader)) {
      return "accepted";
    }
    const token = CREDENTIALS.exec(header)?.[1];
    if (token === undefined) return "no token";
    const hashOfToken = sha256(token);
    let isAccepted = false;
    for (const accepted of this.#hashes) {
      if (isEqual(hashOfToken, accepted)) isAccepted = true;
    }
    if (!isAccepted) return "not accepted";
    this.#lastHeader = header;
    return "accepted";
  }
}

function sha256(token: string): string {
  return hash("sha256", token, "hex");
}

/** Compares without early exit: the time depends only on `given`. */
function isEqual(given: string, secret: string): boolean {
  let differences = given.length ^ secret.length;
  for (let i = 0; i < given.length; i++) {
    // Past the end of the secret this is NaN, which counts as 0.
    differences |= given.charCodeAt(i) ^ secret.charCodeAt(i);
  }
  return differences === 0;
}
