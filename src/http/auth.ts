import { ApiError } from "../api_errors.ts";
import { BEARER_TOKEN, fingerprintOf } from "../tokens.ts";

/** The case-insensitive scheme (RFC 9110, section 11.1) and one token. */
const CREDENTIALS = new RegExp(`^bearer +(${BEARER_TOKEN})$`, "i");

const NOT_ACCEPTED = new ApiError("tokenNotAccepted");

/** An accepted token. */
interface AcceptedToken {
  readonly token: string;
  readonly fingerprint: string;
  /** Requests with it, until it is no longer accepted. */
  requests: number;
}

/** The tokens that the service accepts. */
export class AcceptedTokens {
  #tokens: readonly AcceptedToken[] = [];

  constructor(tokens: readonly string[]) {
    this.replace(tokens);
  }

  replace(tokens: readonly string[]): void {
    const requests = this.requests;
    this.#tokens = tokens.map((token) => {
      const fingerprint = fingerprintOf(token);
      return { token, fingerprint, requests: requests.get(fingerprint) ?? 0 };
    });
  }

  /** The number of requests with each token, by its fingerprint. */
  get requests(): ReadonlyMap<string, number> {
    return new Map(
      this.#tokens.map(({ fingerprint, requests }) => [fingerprint, requests]),
    );
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
    // Compares with all of them: the time does not reveal which one is equal.
    const [accepted] = this.#tokens.filter((it) => isEqual(token, it.token));
    if (accepted === undefined) return NOT_ACCEPTED;
    accepted.requests++;
    return undefined;
  }
}

/** Compares all characters: the time reveals nothing but whether the lengths differ. */
function isEqual(given: string, secret: string): boolean {
  if (given.length !== secret.length) return false;
  let differences = 0;
  for (let i = 0; i < given.length; i++) {
    differences |= given.charCodeAt(i) ^ secret.charCodeAt(i);
  }
  return differences === 0;
}
