import assert from "node:assert/strict";
import { statusOf } from "../support/program.ts";
import { test } from "../support/tests.ts";

const PLANT = '{"id":1,"name":"Monstera"}';

test("GET /metrics counts requests, creates by outcome and commits, and nothing else", async ({ start }) => {
  await using program = await start();
  const before = await program.metrics();
  const sent: readonly [string, number, string?][] = [
    [PLANT, 200],
    ['{"id":2,"name":"Pilea"}', 200],
    [PLANT, 200],
    [PLANT, 200],
    [PLANT, 200],
    ['{"id":2,"name":"Monstera"}', 409],
    ['{"id":2}', 400],
    ['{"id":', 400],
    ['{"id":3,"name":""}', 401, "another"],
  ];
  for (const [body, status, token] of sent) {
    assert.equal(await statusOf(program.create(body, token)), status, body);
  }
  assert.equal(await statusOf(program.get("/nowhere")), 404);

  const after = await program.metrics();
  assert.deepEqual([...before.keys()], [...after.keys()]);
  const changes = after.entries()
    .map(([name, value]): [string, number] => [
      name,
      value - (before.get(name) ?? 0),
    ])
    .filter(([name, change]) =>
      change !== 0 && /(total|count|waiting|running|up)\b/.test(name)
    );
  assert.deepEqual(Object.fromEntries(changes), {
    // The first request for the metrics is one of those.
    'plant_store_http_requests_total{code="200"}': 6,
    'plant_store_http_requests_total{code="400"}': 2,
    'plant_store_http_requests_total{code="401"}': 1,
    'plant_store_http_requests_total{code="404"}': 1,
    'plant_store_http_requests_total{code="409"}': 1,
    "plant_store_http_request_duration_seconds_count": 11,
    'plant_store_creates_total{outcome="stored"}': 2,
    'plant_store_creates_total{outcome="replayed"}': 3,
    'plant_store_creates_total{outcome="conflict"}': 1,
    "plant_store_commits_total": 2,
    "plant_store_commit_plants_count": 2,
    "plant_store_commit_duration_seconds_count": 2,
  });
  assert.equal(after.get("plant_store_commit_plants_sum"), 2);
  assert.equal(after.get("plant_store_creates_waiting"), 0);
  assert.equal(after.get("plant_store_http_requests_running"), 1);
  assert.equal(after.get("plant_store_up"), 1);
});
