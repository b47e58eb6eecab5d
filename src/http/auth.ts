import { BEARER_TOKEN } from "../config/tokens.ts";
import { ApiError } from "../api_errors.ts";

/** The case-insensitive scheme (RFC 9110, section 11.1) and one token. */
const CREDENTIALS = new RegExp(`^bearer +(${BEARER_TOKEN})$`, "i");

/** The scheme and a character that no token has; commas join repeated headers. */
const INVALID_TOKEN = /^bearer .*[^\w\-.~+/=, ]/i;

const NOTHING = new ApiError("noToken", "nothing");
const EMPTY_TOKEN = new ApiError("noToken", 'no token after "Bearer"');
const INVALID_CHARACTER = new ApiError(
  "noToken",
  '"Bearer" with a character that no token has: write it without quotes or brackets',
);
const NO_CREDENTIALS = new ApiError("noToken", "something else");
const NOT_ACCEPTED = new ApiError("tokenNotAccepted");

/** The tokens that the service accepts. */
export class AcceptedTokens {
  #tokens: readonly string[] = [];

  constructor(tokens: readonly string[]) {
    this.replace(tokens);
  }

  /** Number of different tokens. */
  get count(): number {
    return this.#tokens.length;
  }

  /** Replaces the accepted tokens. */
  replace(tokens: readonly string[]): void {
    this.#tokens = [...new Set(tokens)];
  }

  /**
   * Checks the value of an Authorization header, `null` if there is none. The
   * runtime joins repeated headers with a comma, which no token contains.
   *
   * @returns the refusal, `undefined` if the token is accepted
   */
  check(header: string | null): ApiError | undefined {
    if (header === null || header === "") return NOTHING;
    const token = CREDENTIALS.exec(header)?.[1];
    if (token === undefined) {
      if (/^bearer *$/i.test(header)) return EMPTY_TOKEN;
      return INVALID_TOKEN.test(header) ? INVALID_CHARACTER : NO_CREDENTIALS;
    }
    // No early exit: the time does not reveal which token is equal.
    const equal = this.#tokens.filter((accepted) => isEqual(token, accepted));
    return equal.length > 0 ? undefined : NOT_ACCEPTED;
  }
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
