import assert from "node:assert/strict";
import { statusOf } from "../support/program.ts";
import { test } from "../support/tests.ts";

test("GET /metrics counts creates and commits, and shows whether the store is new, and its size", async ({ store, start }) => {
  for (const isNew of [1, 0]) {
    await using program = await start();
    for (const name of ["Monstera", "Monstera", "Pilea"]) {
      await statusOf(program.create({ id: isNew, name }));
    }
    const metrics = await program.metrics();
    for (
      const [name, value] of [
        ['creates_total{outcome="stored"}', 1],
        ['creates_total{outcome="replayed"}', 1],
        ['creates_total{outcome="conflict"}', 1],
        ["commits_total", 1],
        ["commit_plants_sum", 1],
        ["http_requests_running", 1],
        ['http_requests_total{code="409"}', 1],
        ["up", 1],
        ["new_store", isNew],
        ["database_bytes", Deno.statSync(store).size],
      ] as const
    ) assert.equal(metrics.get(`plant_store_${name}`), value, name);
    await program.stop();
  }
});
