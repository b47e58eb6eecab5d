import assert from "node:assert/strict";
import { Metrics } from "../../src/telemetry/metrics.ts";

const WELL = { creates: 0, isStoreWell: true };

/** The value of a series, or `undefined` where it is missing. */
function valueOf(text: string, series: string): number | undefined {
  const line = text.split("\n").find((line) => line.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.split(" ").at(-1));
}

/** What `promtool check metrics` says, or `undefined` without promtool. */
async function promtool(text: string): Promise<string | undefined> {
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command("promtool", {
      args: ["check", "metrics"],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  const output = child.output();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(text));
  await writer.close();
  const { code, stdout, stderr } = await output;
  const decoder = new TextDecoder();
  return `${code} ${decoder.decode(stdout)}${decoder.decode(stderr)}`.trim();
}

const hasPromtool = await promtool("") !== undefined;

Deno.test("Metrics has every status of the service, at 0 before any request", () => {
  const text = new Metrics().text(WELL);
  for (
    const status of [200, 400, 401, 404, 405, 408, 409, 413, 415, 500, 503]
  ) {
    const series = `plant_store_http_requests_total{code="${status}"}`;
    assert.equal(valueOf(text, series), 0, series);
  }
});

Deno.test("Metrics counts requests by status", () => {
  const metrics = new Metrics();
  for (const status of [200, 200, 409, 418]) metrics.request(status, 0.001);
  const text = metrics.text(WELL);
  const name = "plant_store_http_requests_total";
  assert.equal(valueOf(text, `${name}{code="200"}`), 2);
  assert.equal(valueOf(text, `${name}{code="409"}`), 1);
  assert.equal(valueOf(text, `${name}{code="418"}`), 1);
  assert.equal(
    valueOf(text, "plant_store_http_request_duration_seconds_count"),
    4,
  );
});

Deno.test("Metrics counts creates by outcome", () => {
  const metrics = new Metrics();
  metrics.create("stored");
  metrics.create("stored");
  metrics.create("replayed");
  metrics.create("conflict");
  metrics.create("queue full");
  metrics.create("failed");
  const text = metrics.text(WELL);
  const counts = ["stored", "replayed", "conflict", "queue_full", "failed"].map(
    (outcome) =>
      valueOf(text, `plant_store_creates_total{outcome="${outcome}"}`),
  );
  assert.deepEqual(counts, [2, 1, 1, 1, 1]);
});

Deno.test("Metrics puts a value on a bound into that bound's bucket", () => {
  const metrics = new Metrics();
  metrics.commit(1, 0.001);
  metrics.commit(100, 0.0011);
  metrics.commit(101, 7);
  const text = metrics.text(WELL);
  const plants = (le: string) =>
    valueOf(text, `plant_store_commit_plants_bucket{le="${le}"}`);
  const seconds = (le: string) =>
    valueOf(text, `plant_store_commit_duration_seconds_bucket{le="${le}"}`);
  assert.deepEqual(
    [plants("1"), plants("50"), plants("100"), plants("+Inf")],
    [1, 1, 2, 3],
  );
  assert.deepEqual(
    [seconds("0.0005"), seconds("0.001"), seconds("0.0025"), seconds("+Inf")],
    [0, 1, 2, 3],
  );
  assert.equal(valueOf(text, "plant_store_commit_plants_sum"), 202);
  assert.equal(valueOf(text, "plant_store_commits_total"), 3);
});

Deno.test("Metrics tells what waits and whether the store is well", () => {
  const metrics = new Metrics();
  const well = metrics.text({ creates: 12, isStoreWell: true });
  assert.equal(valueOf(well, "plant_store_creates_waiting"), 12);
  assert.equal(valueOf(well, "plant_store_up"), 1);
  const failing = metrics.text({ creates: 0, isStoreWell: false });
  assert.equal(valueOf(failing, "plant_store_up"), 0);
});

Deno.test("Metrics tells when the process began and its memory", () => {
  const text = new Metrics().text(WELL);
  const start = valueOf(text, "process_start_time_seconds") ?? 0;
  const age = Date.now() / 1000 - start;
  assert.ok(age > 0 && age < 3600, `${age} s`);
  const bytes = valueOf(text, "process_resident_memory_bytes") ?? 0;
  assert.ok(bytes > 1e7 && bytes < 1e10, `${bytes} bytes`);
});

Deno.test({
  name: "promtool finds nothing to say about the text of Metrics",
  ignore: !hasPromtool,
  async fn() {
    const metrics = new Metrics();
    assert.equal(await promtool(metrics.text(WELL)), "0");
    metrics.request(200, 0.00123);
    metrics.request(503, 12);
    metrics.create("stored");
    metrics.commit(7, 0.0019);
    const text = metrics.text({ creates: 3, isStoreWell: false });
    assert.equal(await promtool(text), "0");
  },
});
