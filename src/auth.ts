import { hash } from "node:crypto";

/** RFC 6750, section 2.1: what a bearer token may consist of. */
const B64TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/;

/** The scheme in any case (RFC 9110, section 11.1) and exactly one token. */
const CREDENTIALS = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

/** Whether a text can be sent as a bearer token (RFC 6750, `b64token`). */
export function isBearerToken(text: string): boolean {
  return B64TOKEN.test(text);
}

/**
 * What an Authorization header is worth. `no token`: it is missing, has
 * another scheme, or does not hold exactly one credential.
 */
export type Authorization = "accepted" | "no token" | "not accepted";

/** The tokens that the service accepts. */
export class AcceptedTokens {
  #hashes: readonly string[];
  /** The last header that was accepted. */
  #lastHeader: string | undefined;

  constructor(tokens: readonly string[]) {
    this.#hashes = tokens.map(sha256);
  }

  /** Puts other tokens in the place of the present ones. */
  replace(tokens: readonly string[]): void {
    this.#hashes = tokens.map(sha256);
    this.#lastHeader = undefined;
  }

  /**
   * Judges the value of an Authorization header, `null` where there is none.
   * The runtime joins repeated headers by a comma, which no token contains.
   *
   * A token is looked for by its hash, among hashes of one length, and every
   * comparison goes on to the end, so that the time taken does not tell how
   * near a guess came.
   */
  check(header: string | null): Authorization {
    if (header === null) return "no token";
    // Clients send the same header again and again, and hashing it each time
    // would cost a fifth of the throughput.
    if (this.#lastHeader !== undefined && isSame(header, this.#lastHeader)) {
      return "accepted";
    }
    const token = CREDENTIALS.exec(header)?.[1];
    if (token === undefined) return "no token";
    const hashOfToken = sha256(token);
    let isAccepted = false;
    for (const accepted of this.#hashes) {
      if (isSame(hashOfToken, accepted)) isAccepted = true;
    }
    if (!isAccepted) return "not accepted";
    this.#lastHeader = header;
    return "accepted";
  }
}

function sha256(token: string): string {
  return hash("sha256", token, "hex");
}

/** Compares without an early exit: the time depends on `given` alone. */
function isSame(given: string, secret: string): boolean {
  let differences = given.length ^ secret.length;
  for (let i = 0; i < given.length; i++) {
    // Past the end of the secret this is NaN, which counts as 0.
    differences |= given.charCodeAt(i) ^ secret.charCodeAt(i);
  }
  return differences === 0;
}
