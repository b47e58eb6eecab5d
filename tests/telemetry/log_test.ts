import assert from "node:assert/strict";
import { printError } from "../../src/telemetry/log.ts";

Deno.test("printError() goes on where nothing can be printed", () => {
  const { error } = console;
  let tries = 0;
  console.error = () => {
    tries++;
    throw new Error("No space left on device");
  };
  try {
    printError("a line");
  } finally {
    console.error = error;
  }
  assert.equal(tries, 1);
});
