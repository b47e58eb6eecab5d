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
 * The token of an `Authorization` header, or `undefined` where the header is
 * missing, has another scheme, or does not hold exactly one credential. The
 * runtime joins repeated headers with a comma, which no token can contain.
 */
export function bearerToken(authorization: string | null): string | undefined {
  if (authorization === null) return undefined;
  return CREDENTIALS.exec(authorization)?.[1];
}

/** The tokens that the service accepts, kept as hashes only. */
export class AcceptedTokens {
  #hashes: readonly string[];

  constructor(tokens: readonly string[]) {
    this.#hashes = tokens.map(sha256);
  }

  /** Puts other tokens in the place of the present ones. */
  replace(tokens: readonly string[]): void {
    this.#hashes = tokens.map(sha256);
  }

  /**
   * Whether a token is one of these. Hashes of one length are compared to the
   * last digit, with every accepted token, so that the time taken says nothing
   * about how near a guess came.
   */
  accept(token: string): boolean {
    const digits = sha256(token);
    let accepted = false;
    for (const other of this.#hashes) {
      if (differentBits(digits, other) === 0) accepted = true;
    }
    return accepted;
  }
}

function sha256(token: string): string {
  return hash("sha256", token, "hex");
}

function differentBits(a: string, b: string): number {
  let bits = 0;
  for (let i = 0; i < a.length; i++) bits |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return bits;
}
