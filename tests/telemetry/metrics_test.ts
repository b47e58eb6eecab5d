import assert from "node:assert/strict";
import project from "../../deno.json" with { type: "json" };
import { type Gauges, Metrics } from "../../src/telemetry/metrics.ts";
import { isMissing, pathOf } from "../support/needs.ts";
import { runTool } from "../support/tools.ts";

const IDLE: Gauges = {
  postsRunning: 0,
  isStoreHealthy: true,
  tokenRequests: new Map(),
  databaseBytes: undefined,
};

/** Returns the values of all series. */
function valuesOf(text: string): Record<string, number> {
  return Object.fromEntries(
    text.matchAll(/^([^#].*) (\S+)$/gm)
      .map(([, series = "", value]) => [series, Number(value)]),
  );
}

Deno.test("Metrics.countRequest() counts requests by method and status, and those of other methods together", () => {
  const metrics = new Metrics();
  for (const status of [409, 409, 418, 503]) {
    metrics.countRequest("POST", status);
  }
  const others = ["GET", "HEAD", "get", "FOO", "constructor", "unknown"];
  for (const method of others) metrics.countRequest(method, 200);
  const text = metrics.text(IDLE);
  const counts = text.matchAll(
    /_requests_total\{code="(\d+)",method="(\w+)"\} (\d+)$/gm,
  ).map(([, status, method, count]) => `${method} ${status} ${count}`);
  assert.deepEqual([...counts], [
    "post 200 0",
    "post 400 0",
    "post 401 0",
    "post 404 0",
    "post 405 0",
    "post 408 0",
    "post 409 2",
    "post 413 0",
    "post 415 0",
    "post 418 1",
    "post 500 0",
    "post 503 1",
    "get 200 1",
    "head 200 1",
    "unknown 200 4",
  ]);
});

Deno.test("Metrics.observeCommit() counts a value on a bound in the bucket of that bound", () => {
  const metrics = new Metrics();
  for (const seconds of [0.001, 0.0011, 11]) metrics.observeCommit(seconds);
  const values = valuesOf(metrics.text(IDLE));
  const of = (name: string) =>
    values[`plant_store_commit_duration_seconds_${name}`];
  for (
    const [bound, count] of [[0.0005, 0], [0.001, 1], [0.0025, 2], ["+Inf", 3]]
  ) assert.equal(of(`bucket{le="${bound}"}`), count, `${bound}`);
  assert.equal(of("sum"), 11.0021);
  assert.equal(of("count"), 3);
});

Deno.test("Metrics.text() shows the versions of the program and of Deno", () => {
  const values = valuesOf(new Metrics().text(IDLE));
  const versions = `version="${project.version}",deno="${Deno.version.deno}"`;
  assert.equal(values[`plant_store_build_info{${versions}}`], 1);
});

Deno.test({
  name: "Metrics.text() has no problem that promtool finds",
  ignore: isMissing("PROMTOOL"),
  async fn() {
    const checkMetrics = (input: string) =>
      runTool(pathOf("PROMTOOL"), ["check", "metrics"], { input });
    const metrics = new Metrics();
    assert.equal(await checkMetrics(metrics.text(IDLE)), "");
    metrics.countRequest("POST", 200);
    metrics.observePost(0.00123);
    metrics.countRequest("GET", 200);
    metrics.countCreate("stored");
    metrics.observeCommit(0.0019);
    const tokenRequests = new Map([["2bb80d53", 1]]);
    const text = metrics.text({ ...IDLE, tokenRequests, databaseBytes: 4096 });
    assert.equal(await checkMetrics(text), "");
    await assert.rejects(checkMetrics(`${text}x x\n`));
  },
});
