/** The alerts of Prometheus. */
import assert from "node:assert/strict";
import { Metrics } from "../../src/telemetry/metrics.ts";
import { PROMTOOL, runTool, withPromtool } from "../support/tools.ts";

const FOLDER = new URL("../../src/deploy/prometheus/", import.meta.url);
const ALERTS = new URL("alerts.yml", FOLDER).pathname;

const METRICS = new Metrics(() => ({
  createsWaiting: 0,
  isStoreHealthy: true,
  isStoreNew: false,
  databaseBytes: 0,
})).text(0);

const UP = "plant_store_up";
const NEW = "plant_store_new_store";
const SCRAPED = 'up{job="plant-store"}';
const ANSWERED = 'plant_store_http_requests_total{code="200"}';
const UNAVAILABLE = 'plant_store_http_requests_total{code="503"}';
const UNAUTHORIZED = 'plant_store_http_requests_total{code="401"}';
const FAST = 'plant_store_commit_duration_seconds_bucket{le="0.25"}';
const SLOW = 'plant_store_commit_duration_seconds_bucket{le="0.5"}';
const COMMITS = 'plant_store_commit_duration_seconds_bucket{le="+Inf"}';
const BACKUP_FAILED =
  'node_systemd_unit_state{name="plant-store-backup.service",state="failed"}';
const BACKUP_STARTED =
  'node_systemd_timer_last_trigger_seconds{name="plant-store-backup.timer"}';
const FREE = 'node_filesystem_avail_bytes{mountpoint="/var/lib"}';
const SIZE = 'node_filesystem_size_bytes{mountpoint="/var/lib"}';

/**
 * What the service and the node exporter report while nothing is wrong: values
 * as promtool reads them, one a minute for three days. A backup starts every day.
 */
const HEALTHY: Readonly<Record<string, string>> = {
  [UP]: "1x4320",
  [NEW]: "0x4320",
  [SCRAPED]: "1x4320",
  [ANSWERED]: "0+1000x4320",
  [UNAVAILABLE]: "0+1x4320",
  [UNAUTHORIZED]: "0+1x4320",
  [FAST]: "0+100x4320",
  [SLOW]: "0+100x4320",
  [COMMITS]: "0+100x4320",
  [BACKUP_FAILED]: "0x4320",
  [BACKUP_STARTED]: "0x1440 86400x1440 172800x1440",
  [FREE]: "11x4320",
  [SIZE]: "100x4320",
};

/** What is wrong, the alert if one fires, and for how long it has been wrong. */
const CASES: readonly [
  condition: string,
  series: Readonly<Record<string, string>>,
  alert?: string | undefined,
  time?: string,
][] = [
  ["nothing is wrong for three days", {}, undefined, "71h"],
  ["the store fails", { [UP]: "0x60" }, "PlantStoreFails"],
  [
    "an instance cannot be scraped",
    { [SCRAPED]: "0x60" },
    "PlantStoreUnreachable",
  ],
  [
    "2 % of the requests are answered 503",
    { [UNAVAILABLE]: "0+20x60" },
    "PlantStoreRefusesCreates",
  ],
  [
    "6 % of the requests are answered 401",
    { [UNAUTHORIZED]: "0+64x60" },
    "PlantStoreRefusesTokens",
  ],
  ["the service has created its store", { [NEW]: "1x60" }, "PlantStoreIsNew"],
  [
    "2 % of the commits take more than 0.25 s",
    { [FAST]: "0+98x60" },
    "PlantStoreCommitsSlowly",
  ],
  [
    "the last backup failed",
    { [BACKUP_FAILED]: "1x60" },
    "PlantStoreBackupFailed",
  ],
  [
    "the last backup is 47 hours old",
    { [BACKUP_STARTED]: "0x4320" },
    undefined,
    "47h",
  ],
  [
    "the last backup is older than two days",
    { [BACKUP_STARTED]: "0x4320" },
    "PlantStoreBackupOld",
    "49h",
  ],
  ["9 % of the disk is free", { [FREE]: "9x60" }, "PlantStoreDiskNearlyFull"],
];

for (const [condition, series, alert, time = "30m"] of CASES) {
  const fires = alert === undefined ? "no alert fires" : `${alert} fires`;
  withPromtool.test(`${fires} if ${condition}`, async ({ directory }) => {
    const inputs = Object.entries({ ...HEALTHY, ...series });
    const firing = { labels: `{alertname="${alert}"}`, value: 1 };
    const file = directory.file("test.yml");
    // JSON is YAML.
    const text = JSON.stringify({
      rule_files: [ALERTS],
      tests: [{
        interval: "1m",
        input_series: inputs.map(([series, values]) => ({ series, values })),
        promql_expr_test: [{
          expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
          eval_time: time,
          exp_samples: alert === undefined ? [] : [firing],
        }],
      }],
    });
    Deno.writeTextFileSync(file, text);
    await runTool(PROMTOOL, ["test", "rules", file]);
  });
}

Deno.test("every alert has a case in which it fires", () => {
  const alerts = Deno.readTextFileSync(ALERTS).matchAll(/- alert: (\w+)/g);
  const fired = new Set(CASES.map(([, , alert]) => alert));
  fired.delete(undefined);
  assert.deepEqual(new Set(Array.from(alerts, ([, name]) => name)), fired);
});

Deno.test("the alerts use metrics of the service", () => {
  const used = Deno.readTextFileSync(ALERTS).match(/\bplant_store_\w+/g) ?? [];
  assert.ok(used.length > 0);
  for (const name of used) {
    assert.match(METRICS, new RegExp(`^${name}\\b`, "m"), name);
  }
});
