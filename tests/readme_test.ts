/** What the README and the files for operators state for people. */
import assert from "node:assert/strict";
import { ALL_SETTINGS } from "../src/config.ts";
import { API_ERRORS, type ApiError, statusOf } from "../src/errors.ts";
import { BODY_BYTES_MAX } from "../src/limits.ts";
import { Metrics } from "../src/telemetry/metrics.ts";

const ROOT = new URL("../", import.meta.url);

const ERRORS: readonly ApiError[] = Object.values(API_ERRORS);

function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

/** Returns the rows of a table in the README, by its header. */
function tableRows(header: readonly string[]): string[][] {
  const tables = read("README.md").split("\n\n").map((block) =>
    block.split("\n").map((line) =>
      line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim())
    )
  );
  const table = tables.find(([first]) => `${first}` === `${header}`);
  assert.ok(table !== undefined, `no table ${header}`);
  return table.slice(2);
}

function numbersIn(cell = ""): number[] {
  return cell.split(", ").filter((text) => text !== "").map(Number);
}

Deno.test("the README has the status and the number of every error of the API", () => {
  const rows = tableRows([
    "status",
    "error",
    "meaning",
    "what the client does",
  ]);
  const stated = rows.flatMap(([, cell]) => numbersIn(cell));
  assert.deepEqual(
    stated.toSorted((a, b) => a - b),
    ERRORS.map(({ error }) => error),
  );
  for (const [statuses, cell] of rows) {
    const errors = numbersIn(cell);
    if (errors.length === 0) continue;
    assert.deepEqual(
      new Set(numbersIn(statuses)),
      new Set(errors.map(statusOf)),
    );
  }
});

Deno.test("the README has the client retry the errors whose remedy is to send the request again", () => {
  const rows = tableRows([
    "status",
    "error",
    "meaning",
    "what the client does",
  ]);
  assert.deepEqual(
    rows.filter(([, , , action = ""]) => action.startsWith("retries"))
      .flatMap(([, cell]) => numbersIn(cell)),
    ERRORS.filter(({ remedy }) => remedy.startsWith("Send the same request"))
      .map(({ error }) => error),
  );
});

Deno.test("the README has every setting as src/config.ts has it", () => {
  const code = (text = "") => text === "" ? "" : `\`${text}\``;
  assert.deepEqual(
    tableRows(["flag", "environment", "default", "meaning"]),
    ALL_SETTINGS.map((setting) => [
      code(setting.flag),
      code(setting.variable),
      code(setting.default),
      `${code(setting.placeholder)}: ${setting.help}`.replaceAll("|", "\\|"),
    ]),
  );
});

Deno.test("the configuration of nginx has the limit of the body", () => {
  const text = read("src/deploy/nginx.conf");
  for (
    const line of [
      `client_max_body_size    ${BODY_BYTES_MAX / 1024}k;`,
      `client_body_buffer_size ${BODY_BYTES_MAX / 1024}k;`,
      `"message":"${API_ERRORS.bodyTooLarge.message("")}"`,
    ]
  ) assert.ok(text.includes(line), line);
  assert.ok(read("README.md").includes(`${BODY_BYTES_MAX / 1024} KiB`));
});

Deno.test("the alerts use metrics of the service", () => {
  const metrics = new Metrics().text({
    createsWaiting: 0,
    bodiesHeldBytes: 0,
    isStoreHealthy: true,
  });
  const used = read("src/deploy/alerts.yml").match(/\bplant_store_\w+/g) ?? [];
  assert.ok(used.length > 0);
  for (const name of used) {
    assert.match(metrics, new RegExp(`^${name}\\b`, "m"), name);
  }
});
