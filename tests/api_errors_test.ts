import assert from "node:assert/strict";
import { API_ERRORS, ApiError } from "../src/api_errors.ts";

Deno.test("ApiError requires a detail exactly if its message has one", () => {
  // The type check of the tests fails if one of these is not an error.
  // @ts-expect-error: the id is missing
  assert.equal(new ApiError("idTaken").name, "idTaken");
  // @ts-expect-error: the message has no detail
  assert.equal(new ApiError("busy", "detail").name, "busy");
});

Deno.test("every error whose message has a detail has an example of it", () => {
  for (const [name, { message, example }] of Object.entries(API_ERRORS)) {
    assert.equal(message.length > 0, example !== undefined, name);
  }
});
