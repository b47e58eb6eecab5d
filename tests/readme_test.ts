/** What the README and the files for operators state for people. */
import assert from "node:assert/strict";
import project from "../deno.json" with { type: "json" };
import { ALL_SETTINGS } from "../src/config.ts";
import { API_ERRORS, statusOf } from "../src/errors.ts";
import { RequestHandler } from "../src/http/handler.ts";
import * as limits from "../src/limits.ts";
import { Metrics } from "../src/telemetry/metrics.ts";

const { BODY_BYTES_MAX } = limits;

/** The runtime's own limit of a header. */
const HEADER_BYTES_MAX = 64 * 1024;

const ROOT = new URL("../", import.meta.url);

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

Deno.test("the README has every error of the API as src/errors.ts has it", () => {
  const [success, ...errors] = tableRows([
    ...["status", "error", "meaning", "what to do"],
  ]);
  assert.equal(success?.[0], "200");
  assert.deepEqual(
    errors,
    Object.values(API_ERRORS).map(({ error, when, remedy }) => [
      ...[`${statusOf(error)}`, `${error}`, when, remedy],
    ]),
  );
});

Deno.test("the README names every path of the service, and those that need a token", () => {
  const text = read("README.md");
  const monitored = new Map(
    tableRows(["path", "reply", "token"]).map(([path, , token]) =>
      [path, token] as const
    ),
  );
  // The page has two paths: the base URL with and without a slash.
  const routes = RequestHandler.ROUTES.filter(({ path }) => path !== "");
  for (const { path, methods, needsToken } of routes) {
    if (methods.includes("POST")) assert.ok(text.includes(`\`POST ${path}\``));
    else assert.ok(text.includes(`\`${path}\``), path);
    const token = monitored.get(`\`${path}\``);
    if (token !== undefined) assert.equal(token, needsToken ? "yes" : "no");
  }
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
});

Deno.test("every size in the README is a limit", () => {
  const found = read("README.md").matchAll(/\b(\d+) ([KM])iB\b/g);
  const sizes = [...found].map(([, number, unit]) =>
    Number(number) * (unit === "K" ? 1024 : 1024 ** 2)
  );
  assert.ok(sizes.includes(BODY_BYTES_MAX));
  const known = [...Object.values(limits), HEADER_BYTES_MAX];
  assert.deepEqual(sizes.filter((size) => !known.includes(size)), []);
});

Deno.test("the binary has the permissions of the start task, with which the tests run the program", () => {
  const { start, compile } = project.tasks;
  const permissions = ({ command }: typeof start) =>
    command.match(/--(allow|deny)-\S+/g);
  assert.deepEqual(permissions(compile), permissions(start));
});

Deno.test("the alerts use metrics of the service", () => {
  const metrics = new Metrics().text({
    createsWaiting: 0,
    requestsRunning: 0,
    isStoreHealthy: true,
  });
  const used = read("src/deploy/alerts.yml").match(/\bplant_store_\w+/g) ?? [];
  assert.ok(used.length > 0);
  for (const name of used) {
    assert.match(metrics, new RegExp(`^${name}\\b`, "m"), name);
  }
});
