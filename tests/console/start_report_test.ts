import assert from "node:assert/strict";
import {
  reportStart,
  type StartReport,
} from "../../src/console/start_report.ts";
import { curlSample } from "../../src/reference/samples.ts";
import { Log, LOG_FORMATS, type LogFormat } from "../../src/telemetry/log.ts";
import { VERSION } from "../../src/version.ts";
import { replaced } from "../support/replaced.ts";
import { readConfig } from "../support/settings.ts";

const STARTED: StartReport = {
  address: "http://127.0.0.1:8000",
  baseUrl: "http://127.0.0.1:8000",
  isNewStore: false,
  generatedToken: undefined,
};

/** Returns what a service with its store in /srv/plants.db prints. */
function reported(
  format: LogFormat,
  started: StartReport = STARTED,
  variables: Readonly<Record<string, string>> = {},
): readonly string[] {
  const printed: string[] = [];
  // The lines for people go to stderr past the log.
  using _ = replaced(console, "error", (text) => void printed.push(text));
  const flags = { kv: "/srv/plants.db", "log-format": format };
  const config = readConfig(flags, variables);
  reportStart(new Log(format), config, started);
  return printed;
}

const LISTENS = `Plant Store ${VERSION} listens on http://127.0.0.1:8000`;
const STORED = "The plants are stored in /srv/plants.db";
const CREATED = "Created a new store in /srv/plants.db";
const GENERATED =
  "No token is configured, so this run accepts ACCESS_TOKEN=0123";

/** A first start, without a token and without a store. */
const FIRST = { ...STARTED, isNewStore: true, generatedToken: "0123" };

/** Returns the sample call as a terminal shows it. */
function sample(baseUrl: string, token?: string): string {
  return `\n\n  ${curlSample(baseUrl, token).replaceAll("\n", "\n  ")}\n\n`;
}

Deno.test("reportStart() prints the address, the store, a generated token and the sample call to people", () => {
  const [call = "", ...lines] = reported("text", FIRST).toReversed();
  assert.deepEqual(lines.toReversed(), [LISTENS, CREATED, GENERATED]);
  const { baseUrl } = STARTED;
  const reference = `API reference: ${baseUrl}/\n`;
  const curl = sample(baseUrl, "0123");
  assert.equal(call, `\nCreate a plant:${curl}${reference}`);
});

Deno.test("reportStart() shows no configured token, and calls the base URL", () => {
  const baseUrl = "https://plants.example/api";
  const [first, second, call, ...others] = reported("text", {
    ...STARTED,
    baseUrl,
  });
  assert.deepEqual([first, second, ...others], [LISTENS, STORED]);
  const where = "with an accepted token in ACCESS_TOKEN";
  const reference = `API reference: ${baseUrl}/\n`;
  const curl = sample(baseUrl);
  assert.equal(call, `\nCreate a plant, ${where}:${curl}${reference}`);
});

Deno.test("reportStart() names the configured tokens by their fingerprints", () => {
  const variables = { ACCESS_TOKEN: "secret,b" };
  const [, tokens] = reported("journal", STARTED, variables);
  assert.equal(tokens, "<6>Accepts 2 tokens: 2bb80d53, 3e23e816");
});

Deno.test("reportStart() writes entries with levels to a log for programs, and no call", () => {
  assert.deepEqual(reported("journal"), [`<6>${LISTENS}`, `<6>${STORED}`]);
  const first = [`<6>${LISTENS}`, `<4>${CREATED}`, `<4>${GENERATED}`];
  assert.deepEqual(reported("journal", FIRST), first);
  const entries = reported("json", FIRST).map((line) => {
    const { time: _time, ...entry } = JSON.parse(line);
    return entry;
  });
  const { address, baseUrl } = STARTED;
  assert.deepEqual(entries, [
    {
      ...{ level: "info", event: "started", message: LISTENS },
      ...{ version: VERSION, address, baseUrl, store: "/srv/plants.db" },
      isNewStore: true,
    },
    { level: "warning", event: "new store", message: CREATED },
    { level: "warning", event: "token generated", message: GENERATED },
  ]);
});

Deno.test("reportStart() ends with the warnings, in every format", () => {
  const address = "http://10.0.0.1:8000";
  for (const format of LOG_FORMATS) {
    const [warning = "", ...others] = reported(format, { ...STARTED, address })
      .slice(format === "text" ? 3 : 2);
    assert.match(warning, /Z warning: |"level":"warning"|^<4>/);
    assert.match(warning, /http:\/\/10\.0\.0\.1:8000 is not https, so tokens /);
    assert.deepEqual(others, []);
  }
});
