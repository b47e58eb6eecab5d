import assert from "node:assert/strict";
import type { StoreSetting } from "../../src/config/settings.ts";
import {
  backupFailure,
  explain,
  fileFailure,
  storeFailure,
} from "../../src/console/failures.ts";
import { FileError } from "../../src/files/file_error.ts";
import { OperatorError } from "../../src/operator_error.ts";
import { DatabaseError } from "../../src/store/files/database_error.ts";
import { noAnswer } from "../../src/store/retry.ts";

const FILE: StoreSetting = {
  kind: "file",
  path: "/srv/plants.db",
  setting: "KV_PATH",
};
const SERVER: StoreSetting = {
  kind: "server",
  url: "http://kv.test/",
  token: "secret",
  setting: "--kv",
};

/** Asserts what an operator reads, and the exit status. */
function assertFailure(
  { message, exitStatus }: OperatorError,
  expected: string,
  status: number,
): void {
  assert.equal(message, expected);
  assert.equal(exitStatus, status);
}

Deno.test("storeFailure() names the store, the problem, and the setting to change; it can pass with status 1", () => {
  for (
    const [store, error, message, status] of [
      [
        FILE,
        new Deno.errors.NotFound(),
        "/srv/plants.db: no such file: name the store with KV_PATH",
        2,
      ],
      [
        FILE,
        new Error("database or disk is full"),
        "/srv/plants.db: the disk is full: free some space",
        1,
      ],
      [FILE, "a bug", "/srv/plants.db: a bug", 1],
      [
        SERVER,
        new Error("secret\nis wrong"),
        "http://kv.test/: [token] is wrong: check its address, and its token " +
        "in DENO_KV_ACCESS_TOKEN",
        1,
      ],
    ] as const
  ) {
    const failure = storeFailure("store plants in", store, error);
    assertFailure(failure, `cannot store plants in ${message}`, status);
  }
});

Deno.test("explain() says what to do about a problem of the open store", () => {
  for (
    const [error, message] of [
      [
        new DatabaseError("lost", "it was replaced"),
        "it was replaced",
      ],
      [
        new DatabaseError("cut"),
        "it became shorter: stop the service, and restore a backup",
      ],
      [
        noAnswer(5_000),
        "no answer within 5 s: check its disk",
      ],
    ] as const
  ) assert.equal(explain(error, FILE), message);
});

Deno.test("backupFailure() advises to name another backup, unless the problem can pass or has another remedy", () => {
  for (
    const [error, message, status] of [
      [new FileError("missing"), "no such file: name another backup", 2],
      [
        new DatabaseError("corrupt"),
        "the database is corrupt, or its disk fails: name another backup",
        2,
      ],
      [
        new FileError("read-only"),
        "the file system is read-only: copy it, with its log, to a file system " +
        "that can be written",
        2,
      ],
      [new FileError("full"), "the disk is full", 1],
    ] as const
  ) {
    const failure = backupFailure("/backup.db", error);
    assertFailure(failure, `cannot restore /backup.db: ${message}`, status);
  }
});

Deno.test("fileFailure() names a file and its problem, and keeps the error of an operator", () => {
  const full = fileFailure("write", "/out", new Error("disk is full"));
  assertFailure(full, "cannot write /out: the disk is full", 1);
  const missing = fileFailure("read", "stdin", new Deno.errors.NotFound());
  assertFailure(missing, "cannot read stdin: no such file", 2);
  const known = new OperatorError("name a new file");
  assert.equal(fileFailure("write", "/out", known), known);
});
