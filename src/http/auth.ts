import { ApiError } from "../api_errors.ts";
import { BEARER_TOKEN } from "../config/values.ts";

/** The case-insensitive scheme (RFC 9110, section 11.1) and one token. */
const CREDENTIALS = new RegExp(`^bearer +(${BEARER_TOKEN})$`, "i");

const NOT_ACCEPTED = new ApiError("tokenNotAccepted");

/** The tokens that the service accepts. */
export class AcceptedTokens {
  #tokens: readonly string[];

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  replace(tokens: readonly string[]): void {
    this.#tokens = tokens;
  }

  /**
   * Checks the value of an Authorization header, `null` if there is none. The
   * runtime joins repeated headers with a comma, which no token contains.
   *
   * @returns the refusal, `undefined` if the token is accepted
   */
  authorize(header: string | null): ApiError | undefined {
    const credentials = header ?? "";
    const token = CREDENTIALS.exec(credentials)?.[1];
    if (token === undefined) {
      // Without a quotation: it may be a token.
      const found = credentials === "" ? "nothing" : "something else";
      return new ApiError("noToken", found);
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
