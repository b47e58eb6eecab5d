import assert from "node:assert/strict";
import { deleteOverrides } from "../../src/config/overrides.ts";
import { OperatorError } from "../../src/operator_error.ts";

Deno.test({
  name: "deleteOverrides() names the permission that Deno lacks",
  permissions: { env: false },
  fn: () =>
    assert.throws(
      deleteOverrides,
      (error) =>
        error instanceof OperatorError &&
        /^Requires env access to "DENO_KV_DB_MODE"/.test(error.message),
    ),
});
