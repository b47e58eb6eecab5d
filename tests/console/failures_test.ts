import assert from "node:assert/strict";
import {
  explain,
  fileFailure,
  storeFailure,
} from "../../src/console/failures.ts";
import { OperatorError } from "../../src/operator_error.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { fileAt, serverAt } from "../support/stores.ts";

const FILE = fileAt("/srv/plants.db", "KV_PATH");
const SERVER = serverAt("http://kv.test/");

Deno.test("explain() advises what to do about each kind of problem", () => {
  for (
    const [kind, store, advice] of [
      ["path", FILE, /^x: check the path in KV_PATH, and what is there$/],
      ["denied", FILE, /^x: let the user .* write there; .*ReadWritePaths$/],
      [
        "foreign log",
        FILE,
        /^x: stop the service, and put that database back, or/,
      ],
      ["corrupt", FILE, /^x: check the disk, .* restore a backup$/],
      ["newer format", FILE, /^x: run the plant-store that stored them, or/],
      ["lost", FILE, /^x$/],
      ["locked", FILE, /^x: stop that process, or use a local file system$/],
      ["no answer", FILE, /^x: another process may .*, or its disk hangs$/],
      ["other", FILE, /^x$/],
      ["other", SERVER, /^x: check its address, .* in DENO_KV_ACCESS_TOKEN$/],
      ["newer format", SERVER, /^x: run the plant-store that stored them, or/],
    ] as const
  ) assert.match(explain(new StoreError(kind, "x"), store), advice);
});

/** Asserts what an operator reads, and the exit status. */
function assertFailure(
  { message, exitStatus }: OperatorError,
  expected: string,
  status: number,
): void {
  assert.equal(message, expected);
  assert.equal(exitStatus, status);
}

Deno.test("storeFailure() and fileFailure() name the store or the file; what can pass has status 1", () => {
  const full = new Error("database or disk is full");
  const missing = new Deno.errors.NotFound("No such file");
  assertFailure(
    storeFailure("read", FILE, missing),
    "cannot read /srv/plants.db: No such file: check the path in KV_PATH, and what is there",
    2,
  );
  assertFailure(
    storeFailure("read", SERVER, "gone"),
    "cannot read http://kv.test/: gone: check its address, and its token in " +
      "DENO_KV_ACCESS_TOKEN",
    1,
  );
  const written = fileFailure("write", "/out", full);
  assertFailure(written, "cannot write /out: database or disk is full", 1);
  const read = fileFailure("read", "stdin", missing);
  assertFailure(read, "cannot read stdin: No such file", 2);
});

Deno.test("storeFailure() and fileFailure() keep the error of an operator", () => {
  const known = new OperatorError("name a new file");
  assert.equal(storeFailure("write", FILE, known), known);
  assert.equal(fileFailure("write", "/out", known), known);
});
