import assert from "node:assert/strict";
import process from "node:process";
import config from "../../deno.json" with { type: "json" };
import { type Gauges, Metrics } from "../../src/telemetry/metrics.ts";
import { PROMTOOL, runTool, withPromtool } from "../support/tools.ts";

const IDLE: Gauges = {
  createsWaiting: 0,
  isStoreHealthy: true,
  isStoreNew: false,
  databaseBytes: undefined,
};

/** Returns metrics of a service in which nothing happens. */
function idle(): Metrics {
  return new Metrics(() => IDLE);
}

/** Returns the values of all series. */
function valuesOf(text: string): Record<string, number> {
  return Object.fromEntries(
    text.matchAll(/^([^#].*) (\S+)$/gm)
      .map(([, series = "", value]) => [series, Number(value)]),
  );
}

Deno.test("Metrics.request() counts requests by status; every status of the API is at 0 before", () => {
  const metrics = idle();
  for (const status of [409, 409, 418]) metrics.request(status, 0.001);
  const text = metrics.text(1);
  const counts = text.matchAll(/_requests_total\{code="(\d+)"\} (\d+)$/gm)
    .map(([, status, count]) => `${status} ${count}`).toArray();
  assert.deepEqual(counts, [
    ...["200 0", "400 0", "401 0", "404 0", "405 0", "408 0", "409 2"],
    ...["413 0", "415 0", "418 1", "499 0", "500 0", "503 0"],
  ]);
  const count = "plant_store_http_request_duration_seconds_count";
  assert.equal(valuesOf(text)[count], 3);
});

Deno.test("Metrics.commit() counts a value on a bound in the bucket of that bound", () => {
  const metrics = idle();
  metrics.commit(0.001, 1);
  metrics.commit(0.0011, 100);
  metrics.commit(7, 101);
  const values = valuesOf(metrics.text(1));
  const of = (name: string) => values[`plant_store_commit${name}`];
  for (const [bound, count] of [[1, 1], [50, 1], [100, 2], ["+Inf", 3]]) {
    assert.equal(of(`_plants_bucket{le="${bound}"}`), count, `${bound}`);
  }
  for (const [bound, count] of [[0.0005, 0], [0.001, 1], [0.0025, 2]]) {
    assert.equal(of(`_duration_seconds_bucket{le="${bound}"}`), count);
  }
  assert.equal(of("_plants_sum"), 202);
  assert.equal(of("s_total"), 3);
});

Deno.test("Metrics.text() has the bounds of each histogram, which dashboards use", () => {
  const text = idle().text(1);
  const boundsOf = (name: string) =>
    text.matchAll(new RegExp(`^plant_store_${name}_bucket{le="(.*)"}`, "gm"))
      .map(([, bound]) => bound).toArray().join(" ");
  assert.equal(
    boundsOf("http_request_duration_seconds"),
    "0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf",
  );
  assert.equal(
    boundsOf("commit_duration_seconds"),
    "0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 +Inf",
  );
  assert.equal(boundsOf("commit_plants"), "1 2 5 10 20 50 100 +Inf");
});

Deno.test("Metrics.text() shows the gauges of that moment, and what the process is", () => {
  let gauges = { ...IDLE, createsWaiting: 12 };
  const metrics = new Metrics(() => gauges);
  const loaded = valuesOf(metrics.text(345));
  assert.equal(loaded["plant_store_creates_waiting"], 12);
  assert.equal(loaded["plant_store_http_requests_running"], 345);
  assert.equal(loaded["plant_store_up"], 1);
  gauges = { ...IDLE, isStoreHealthy: false };
  const failing = valuesOf(metrics.text(1));
  assert.equal(failing["plant_store_creates_waiting"], 0);
  assert.equal(failing["plant_store_up"], 0);

  const start = loaded["process_start_time_seconds"] ?? 0;
  const age = Date.now() / 1000 - start;
  assert.ok(Math.abs(age - process.uptime()) < 60, `${age} s`);
  const bytes = loaded["process_resident_memory_bytes"] ?? 0;
  assert.ok(bytes > 1e7 && bytes < 1e10, `${bytes} bytes`);
  const versions = `version="${config.version}",deno="${Deno.version.deno}"`;
  assert.equal(loaded[`plant_store_build_info{${versions}}`], 1);
});

withPromtool.test("Metrics.text() has no problem that promtool finds", async () => {
  const checkMetrics = (input: string) =>
    runTool(PROMTOOL, ["check", "metrics"], { input });
  let gauges = IDLE;
  const metrics = new Metrics(() => gauges);
  assert.equal(await checkMetrics(metrics.text(1)), "");
  metrics.request(200, 0.00123);
  metrics.request(503, 12);
  metrics.create("stored");
  metrics.commit(0.0019, 7);
  gauges = { ...IDLE, isStoreHealthy: false, databaseBytes: 4096 };
  const text = metrics.text(1);
  assert.equal(await checkMetrics(text), "");
  await assert.rejects(checkMetrics(`${text}x x\n`));
});
