import { hash } from "node:crypto";
import { BEARER_TOKEN } from "../config/tokens.ts";
import { ApiError } from "../errors.ts";

/** The case-insensitive scheme (RFC 9110, section 11.1) and one token. */
const CREDENTIALS = new RegExp(`^bearer +(${BEARER_TOKEN})$`, "i");

const NOTHING = new ApiError("noToken", "nothing");
const EMPTY_TOKEN = new ApiError("noToken", 'no token after "Bearer"');
const NO_CREDENTIALS = new ApiError("noToken", "something else");
const NOT_ACCEPTED = new ApiError("tokenNotAccepted");

/** The tokens that the service accepts. */
export class AcceptedTokens {
  #hashes: ReadonlySet<string> = new Set();
  /** The last header that was accepted; "" before the first. */
  #lastHeader = "";

  constructor(tokens: readonly string[]) {
    this.replace(tokens);
  }

  /** Replaces the accepted tokens. */
  replace(tokens: readonly string[]): void {
    this.#hashes = new Set(tokens.map(sha256));
    this.#lastHeader = "";
  }

  /**
   * Checks the value of an Authorization header, `null` if there is none. The
   * runtime joins repeated headers with a comma, which no token contains.
   *
   * Looking up a hash takes as long with one token as with thousands, and its
   * time does not reveal how close a guess was.
   *
   * @returns the refusal, `undefined` if the token is accepted
   */
  check(header: string | null): ApiError | undefined {
    if (header === null || header === "") return NOTHING;
    // Clients repeat the same header, and hashing it for each request would
    // cost an eighth of the throughput.
    if (isEqual(header, this.#lastHeader)) return undefined;
    const token = CREDENTIALS.exec(header)?.[1];
    if (token === undefined) {
      return /^bearer *$/i.test(header) ? EMPTY_TOKEN : NO_CREDENTIALS;
    }
    if (!this.#hashes.has(sha256(token))) return NOT_ACCEPTED;
    this.#lastHeader = header;
    return undefined;
  }
}

function sha256(token: string): string {
  return hash("sha256", token, "hex");
}

/** Compares without early exit: the time reveals nothing but the length. */
function isEqual(given: string, secret: string): boolean {
  if (given.length !== secret.length) return false;
  let differences = 0;
  for (let i = 0; i < given.length; i++) {
    differences |= given.charCodeAt(i) ^ secret.charCodeAt(i);
  }
  return differences === 0;
}
