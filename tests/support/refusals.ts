import assert from "node:assert/strict";
import { TOKENS } from "./service.ts";
import type { Reply } from "./wire.ts";

/** The headers of a reply that are part of the contract, by error number. */
export const CONTRACT_HEADERS: Readonly<
  Record<number, Readonly<Record<string, string>>>
> = {
  40101: { "www-authenticate": 'Bearer realm="plants"' },
  40102: { "www-authenticate": 'Bearer realm="plants", error="invalid_token"' },
  40501: { "allow": "POST", "cache-control": "no-store" },
  41502: { "accept-encoding": "identity" },
  50301: { "retry-after": "10" },
  50302: { "retry-after": "1" },
  50303: { "retry-after": "5" },
  50304: { "retry-after": "5", "cache-control": "no-store" },
};

/** Headers that a reply has only if its error says so. */
const ERROR_HEADERS: readonly string[] = [
  "www-authenticate",
  "allow",
  "accept-encoding",
  "retry-after",
];

/** Longest message, in UTF-16 code units. */
const MESSAGE_CHARS_MAX = 200;

/** What a refusal must be. */
interface ExpectedRefusal {
  readonly error: number;
  /** The whole message, or a part of it; not compared if there is none. */
  readonly message?: string | RegExp;
  /** The header Allow of a 40501, if it is not POST. */
  readonly allow?: string;
}

/**
 * Asserts that a reply is a certain refusal: its status, headers and body. The
 * body has an error number and a message, which is short and valid Unicode; no
 * part of the reply has an accepted token.
 */
export function assertRefusal(
  reply: Reply | undefined,
  { error, message = /./, allow }: ExpectedRefusal,
): void {
  assert.ok(reply !== undefined, "the connection ended without a reply");
  const { status, headers, text } = reply;
  const body = JSON.parse(text);
  assert.equal(body.error, error, text);
  assert.deepEqual(Object.keys(body), ["error", "message"]);
  assert.equal(status, Math.floor(error / 100));
  if (typeof message === "string") assert.equal(body.message, message);
  else assert.match(body.message, message);
  assert.ok(body.message.length <= MESSAGE_CHARS_MAX, text);
  assert.ok(body.message.isWellFormed(), `not valid Unicode: ${text}`);

  assert.equal(headers.get("content-type"), "application/json");
  const expected = allow === undefined
    ? CONTRACT_HEADERS[error] ?? {}
    : { allow };
  for (const name of ERROR_HEADERS) {
    assert.equal(headers.get(name), expected[name] ?? null, name);
  }

  const whole = `${text} ${[...headers].join()}`;
  for (const token of TOKENS) {
    assert.ok(!whole.includes(token), `the reply contains ${token}`);
  }
}
