import assert from "node:assert/strict";
import { STOP_RETRY_MS } from "../src/api_errors.ts";
import { LINE_BYTES_MAX } from "../src/commands/import.ts";
import { REPLIES_MS_MAX } from "../src/commands/serve.ts";
import { BODY_MS_MAX, COMMIT_MS_MAX, SWEEP_MS } from "../src/limits.ts";
import { COMMIT_CHARS_MAX } from "../src/store/committer.ts";

/** How long the clients of the API reference wait for a reply. */
const REPLY_MS_MAX = 20_000;

Deno.test("the limits fit one another", () => {
  // A plant that fits no commit would wait for ever.
  assert.ok(LINE_BYTES_MAX <= COMMIT_CHARS_MAX);
  // Clients retry after a drain: a commit that starts with it, and its reply.
  assert.ok(COMMIT_MS_MAX + SWEEP_MS + REPLIES_MS_MAX <= STOP_RETRY_MS);
  // Clients wait longer for a reply than the body and the commit may take.
  assert.ok(BODY_MS_MAX + COMMIT_MS_MAX < REPLY_MS_MAX);
});
