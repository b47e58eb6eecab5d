/** The alerts of Prometheus. */
import assert from "node:assert/strict";
import { isMissing, pathOf } from "../support/needs.ts";
import { read, ROOT } from "../support/readme.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

const ALERTS = "src/deploy/prometheus/alerts.yml";

/**
 * What the service and the node exporter report for three days, a value a minute
 * as promtool reads it: without a problem, and with one, that an alert is about.
 */
const SERIES = `
plant_store_up | 1x4320 | 0x4320 | PlantStoreFails
up{job="plant-store"} | 1x4320 | 0x4320 | PlantStoreUnreachable
up{job="plant-store"} | 1x4320 | _x4320 | PlantStoreUnreachable
plant_store_http_requests_total{code="200",method="post"} | 0+1000x4320
plant_store_http_requests_total{code="503",method="post"} | 0+1x4320 | 0+20x4320 | PlantStoreRefusesCreates
plant_store_http_requests_total{code="401",method="post"} | 0+1x4320 | 0+64x4320 | PlantStoreRefusesTokens
plant_store_http_requests_total{code="200",method="get"} | 0+9000x4320
plant_store_http_requests_total{code="503",method="get"} | 0+900x4320
plant_store_commit_duration_seconds_bucket{le="0.25"} | 0+100x4320 | 0+98x4320 | PlantStoreCommitsSlowly
plant_store_commit_duration_seconds_bucket{le="0.5"} | 0+100x4320
plant_store_commit_duration_seconds_bucket{le="+Inf"} | 0+100x4320
node_systemd_unit_state{name="plant-store-backup.service",state="failed"} | 0x4320 | 1x4320 | PlantStoreBackupFailed
node_systemd_timer_last_trigger_seconds{name="plant-store-backup.timer"} | 0x1440 86400x1440 172800x1440 | 0x4320 | PlantStoreBackupOld
node_filesystem_avail_bytes{fstype="ext4",mountpoint="/mnt"} | 11x4320 | 9x4320 | PlantStoreDiskNearlyFull
node_filesystem_size_bytes{fstype="ext4",mountpoint="/mnt"} | 100x4320
node_filesystem_avail_bytes{fstype="tmpfs",mountpoint="/tmp"} | 9x4320
node_filesystem_size_bytes{fstype="tmpfs",mountpoint="/tmp"} | 100x4320
`.trim().split("\n").map((line) => line.split(" | "));

const FIRED = SERIES.flatMap(([, , , alert]) => alert ?? []);

Deno.test({
  name: "each alert fires for its problem, and none without one",
  ignore: isMissing("PROMTOOL"),
  async fn() {
    using directory = new TemporaryDirectory();
    const healthy = new Map(SERIES.map(([series, values]) => [series, values]));
    const problems = SERIES.filter(([, , , alert]) => alert !== undefined);
    const tests = [[], ...problems].map(([name, , problem, fired = ""]) => ({
      interval: "1m",
      input_series: Array.from(healthy, ([series, values]) => ({
        series,
        values: series === name ? problem : values,
      })),
      promql_expr_test: [{
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: "71h",
        exp_samples: fired === ""
          ? []
          : [{ labels: `{alertname="${fired}"}`, value: 1 }],
      }],
    }));
    const rules = new URL(ALERTS, ROOT).pathname;
    const file = directory.file("test.yml");
    // JSON is YAML.
    Deno.writeTextFileSync(
      file,
      JSON.stringify({
        rule_files: [rules],
        evaluation_interval: "10m",
        tests,
      }),
    );
    await runTool(pathOf("PROMTOOL"), ["check", "rules", rules]);
    await runTool(pathOf("PROMTOOL"), ["test", "rules", file]);
  },
});

Deno.test("every alert has a problem for which it must fire", () => {
  const alerts = read(ALERTS).matchAll(/- alert: (\w+)/g);
  assert.deepEqual(new Set(Array.from(alerts, ([, it]) => it)), new Set(FIRED));
});

Deno.test("the alerts use metrics of the service", () => {
  const metrics = read("src/telemetry/metrics.ts");
  const names = read(ALERTS).match(/\bplant_store_\w+?(?=_bucket|\b)/g) ?? [];
  assert.ok(names.length > 0, "the alerts use no metric of the service");
  for (const name of names) {
    assert.ok(metrics.includes(`# TYPE ${name} `), name);
  }
});
