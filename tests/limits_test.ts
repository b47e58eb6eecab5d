/**
 * The limits that depend on those of Deno KV, tried with Deno KV itself;
 * kv_store_test.ts tries those of a commit, and the largest plant.
 */
import assert from "node:assert/strict";
import { serialize } from "node:v8";
import {
  BODY_MS_MAX,
  CHECK_MS,
  COMMIT_CHARS_MAX,
  COMMIT_MS_MAX,
  COMMIT_PLANTS_MAX_FILE,
  LIST_KEYS_MAX,
  READ_KEYS_MAX,
  REPLIES_MS_MAX,
  STOP_RETRY_MS,
  VALUE_BYTES_MAX,
} from "../src/limits.ts";
import { countChars, type Plant } from "../src/plant/plant.ts";
import { REPLY_S_MAX } from "../src/reference/api.ts";

/** Returns a plant of ASCII characters that has a size in the store. */
function plantOfValue(bytes: number): Plant {
  const sample = 60_000;
  const overhead = serialize({ name: "x".repeat(sample) }).length - sample;
  const plant = { name: "x".repeat(bytes - overhead) };
  assert.equal(serialize(plant).length, bytes);
  return plant;
}

Deno.test("Deno KV stores a plant of VALUE_BYTES_MAX, and not of one byte more", async () => {
  using kv = await Deno.openKv(":memory:");
  await kv.set(["plants", 1n], plantOfValue(VALUE_BYTES_MAX));
  const larger = kv.set(["plants", 1n], plantOfValue(VALUE_BYTES_MAX + 1));
  await assert.rejects(larger, /Value too large/);
});

Deno.test("Deno KV refuses one plant more than COMMIT_PLANTS_MAX_FILE", async () => {
  using kv = await Deno.openKv(":memory:");
  const operation = kv.atomic();
  for (let id = 0; id <= COMMIT_PLANTS_MAX_FILE; id++) {
    operation.check({ key: ["plants", id], versionstamp: null });
  }
  await assert.rejects(operation.commit(), /Too many checks/);
});

Deno.test("Deno KV reads READ_KEYS_MAX keys at one time, and not one more", async () => {
  using kv = await Deno.openKv(":memory:");
  const read = (count: number) =>
    kv.getMany(Array.from({ length: count }, (_, i) => ["plants", i]));
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
  assert.ok(countChars(plantOfValue(VALUE_BYTES_MAX)) <= COMMIT_CHARS_MAX);
  // Clients retry after a drain: a commit that starts with it, and its reply.
  assert.ok(COMMIT_MS_MAX + CHECK_MS + REPLIES_MS_MAX <= STOP_RETRY_MS);
  // Clients wait longer for a reply than the body and the commit may take.
  assert.ok(BODY_MS_MAX + COMMIT_MS_MAX < REPLY_S_MAX * 1000);
});
