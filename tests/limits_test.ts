/**
 * The limits that depend on those of Deno KV, tried with Deno KV itself;
 * kv_store_test.ts tries those of a commit, and the largest plant.
 */
import assert from "node:assert/strict";
import {
  BODY_MS_MAX,
  CHECK_MS,
  COMMIT_CHARS_MAX,
  COMMIT_MS_MAX,
  COMMITS_FILE,
  LINE_BYTES_MAX,
  LIST_KEYS_MAX,
  READ_KEYS_MAX,
  REPLIES_MS_MAX,
  STOP_RETRY_MS,
} from "../src/limits.ts";
import { range } from "./support/plants.ts";

/** How long the clients of the API reference wait for a reply. */
const REPLY_MS_MAX = 20_000;

Deno.test("Deno KV refuses one plant more than a commit to a file has", async () => {
  using kv = await Deno.openKv(":memory:");
  const operation = kv.atomic();
  for (const id of range(0n, COMMITS_FILE.plantsMax + 1)) {
    operation.check({ key: ["plants", id], versionstamp: null });
  }
  await assert.rejects(operation.commit(), /Too many checks/);
});

Deno.test("Deno KV reads READ_KEYS_MAX keys at one time, and not one more", async () => {
  using kv = await Deno.openKv(":memory:");
  const read = (count: number) =>
    kv.getMany(range(0n, count).map((id) => ["plants", id]));
  await read(READ_KEYS_MAX);
  await assert.rejects(read(READ_KEYS_MAX + 1), /Too many ranges/);
});

Deno.test("Deno KV lists LIST_KEYS_MAX keys in one page, and not one more", async () => {
  using kv = await Deno.openKv(":memory:");
  const list = (batchSize: number) =>
    Array.fromAsync(kv.list({ prefix: ["plants"] }, { batchSize }));
  await list(LIST_KEYS_MAX);
  await assert.rejects(list(LIST_KEYS_MAX + 1), /Too many entries/);
});

Deno.test("the limits fit one another", () => {
  // A plant that fits no commit would wait for ever.
  assert.ok(LINE_BYTES_MAX <= COMMIT_CHARS_MAX);
  // Clients retry after a drain: a commit that starts with it, and its reply.
  assert.ok(COMMIT_MS_MAX + CHECK_MS + REPLIES_MS_MAX <= STOP_RETRY_MS);
  // Clients wait longer for a reply than the body and the commit may take.
  assert.ok(BODY_MS_MAX + COMMIT_MS_MAX < REPLY_MS_MAX);
});
