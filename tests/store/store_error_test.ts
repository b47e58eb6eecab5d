import assert from "node:assert/strict";
import { FileError } from "../../src/files/file_error.ts";
import { DatabaseError } from "../../src/store/files/database_error.ts";
import {
  isDamaged,
  ServerError,
  toStoreError,
} from "../../src/store/store_error.ts";
import { KV_ENV } from "../support/kv_server.ts";
import { storeError } from "../support/stores.ts";

const TOKEN = KV_ENV.DENO_KV_ACCESS_TOKEN;

const FILE = { kind: "file", path: "/plants.db" } as const;
const SERVER = { kind: "server", url: "http://kv.test", token: TOKEN } as const;

/** Returns the message for an error of a KV Connect server. */
function serverMessage(text: string): string {
  return toStoreError(new Error(text), SERVER).message;
}

Deno.test("toStoreError() masks the token everywhere, even at the end of the part it keeps", () => {
  assert.equal(
    serverMessage(`${TOKEN} is not ${TOKEN}${TOKEN}`),
    "[token] is not [token][token]",
  );
  for (let length = 150; length < 250; length++) {
    const message = serverMessage("x".repeat(length) + TOKEN);
    assert.doesNotMatch(message, /a-token|for-tests/);
  }
});

Deno.test("toStoreError() puts the message of a server on one line of 200 UTF-16 code units, with escapes", () => {
  assert.equal(
    serverMessage(" one\r\n\r\n  two\n\x1b[2J "),
    String.raw`one two \u{1b}[2J`,
  );
  // It is truncated after the escapes.
  assert.equal(serverMessage("\x1b".repeat(10_000)).length, 201);
});

Deno.test("toStoreError() finds the problem of a file or its database, and of a server only that its plants are newer", () => {
  const malformed = new TypeError("database disk image is malformed");
  const newer = new RangeError("could not deserialize value");
  for (
    const [thrown, location, problem] of [
      [malformed, FILE, "corrupt"],
      [malformed, undefined, "corrupt"],
      [malformed, SERVER, "server"],
      [newer, FILE, "newer format"],
      [newer, SERVER, "newer format"],
      [new Deno.errors.NotFound(), FILE, "missing"],
      ["thrown text", FILE, "other"],
      ["thrown text", SERVER, "server"],
    ] as const
  ) storeError(problem)(toStoreError(thrown, location));
});

Deno.test("toStoreError() returns an error of a store unchanged, also of a server", () => {
  for (
    const error of [
      new FileError("missing"),
      new DatabaseError("locked"),
      new DatabaseError("lost"),
      new ServerError("no answer"),
    ]
  ) assert.equal(toStoreError(error, SERVER), error);
});

Deno.test("an error of a server can pass, and a loss cannot", () => {
  assert.equal(new ServerError("no answer").isPassing, true);
  assert.equal(new DatabaseError("cut").isPassing, false);
});

Deno.test("isDamaged() is true if the plants cannot be read by any further attempt", () => {
  for (const problem of ["corrupt", "newer format"] as const) {
    assert.equal(isDamaged(new DatabaseError(problem)), true);
  }
  for (
    const error of [
      new DatabaseError("locked"),
      new FileError("other"),
      new DatabaseError("lost"),
      new ServerError("no answer"),
    ]
  ) assert.equal(isDamaged(error), false);
});
