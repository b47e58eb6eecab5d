import { hash } from "node:crypto";
import { ApiError } from "../api_errors.ts";
import { BEARER_TOKEN } from "../config/tokens.ts";

/** The case-insensitive scheme (RFC 9110, section 11.1) and one token. */
const CREDENTIALS = new RegExp(`^bearer +(${BEARER_TOKEN})$`, "i");

/** What a header has instead; it is not quoted, since it may be a token. */
const OTHERS = ([
  [/^$/, "nothing"],
  [/^bearer *$/i, 'no token after "Bearer"'],
  // Commas join repeated headers.
  [
    /^bearer /i,
    '"Bearer" and something else: write one token, without quotes or brackets',
  ],
  [/^basic /i, 'the scheme "Basic"'],
  [/^digest /i, 'the scheme "Digest"'],
  [/^token /i, 'the scheme "Token"'],
  [/^[^ ]*$/, "a value without a scheme"],
] as const).map(([pattern, found]) => ({
  pattern,
  refusal: new ApiError("noToken", found),
}));
const ANYTHING_ELSE = new ApiError("noToken", "something else");

/** Hexadecimal digits of a hash that name a token in the metrics. */
const FINGERPRINT_CHARS = 8;

const NOT_ACCEPTED = new ApiError("tokenNotAccepted");

/** A token, and how often it was used. */
interface Accepted {
  readonly token: string;
  readonly fingerprint: string;
  requests: number;
}

/** The tokens that the service accepts. */
export class AcceptedTokens {
  #accepted: readonly Accepted[] = [];

  constructor(tokens: readonly string[]) {
    this.replace(tokens);
  }

  /** Number of different tokens. */
  get count(): number {
    return this.#accepted.length;
  }

  /**
   * Accepted requests by token. A fingerprint names a token: the first digits of
   * its SHA-256, which do not reveal the token.
   */
  get requests(): ReadonlyMap<string, number> {
    const requests = new Map<string, number>();
    for (const { fingerprint, requests: count } of this.#accepted) {
      // A metric has no name twice, even if two fingerprints are the same.
      requests.set(fingerprint, (requests.get(fingerprint) ?? 0) + count);
    }
    return requests;
  }

  /** Replaces the accepted tokens; those that stay keep their counters. */
  replace(tokens: readonly string[]): void {
    this.#accepted = [...new Set(tokens)].map((token) =>
      this.#accepted.find((accepted) => accepted.token === token) ?? {
        token,
        fingerprint: hash("sha256", token).slice(0, FINGERPRINT_CHARS),
        requests: 0,
      }
    );
  }

  /**
   * Checks the value of an Authorization header, `null` if there is none. The
   * runtime joins repeated headers with a comma, which no token contains.
   *
   * @returns the refusal, `undefined` if the token is accepted
   */
  check(header: string | null): ApiError | undefined {
    const credentials = header ?? "";
    const token = CREDENTIALS.exec(credentials)?.[1];
    if (token === undefined) {
      const other = OTHERS.find(({ pattern }) => pattern.test(credentials));
      return other?.refusal ?? ANYTHING_ELSE;
    }
    // No early exit: the time does not reveal which token is equal.
    const equal = this.#accepted
      .filter((accepted) => isEqual(token, accepted.token));
    for (const accepted of equal) accepted.requests++;
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
