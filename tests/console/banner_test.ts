import assert from "node:assert/strict";
import tasks from "../../deno.json" with { type: "json" };
import { printBanner, type Started } from "../../src/console/banner.ts";
import { Log, type LogFormat } from "../../src/telemetry/log.ts";
import { VERSION } from "../../src/version.ts";
import { readConfig } from "../support/settings.ts";

const STARTED: Started = {
  address: "http://0.0.0.0:8000",
  baseUrl: "https://plants.example",
  isNewStore: false,
  generatedToken: undefined,
};

/** Returns the banner of a service with its store in /srv/plants.db. */
function banner(
  format: LogFormat,
  started: Partial<Started>,
  env: Readonly<Record<string, string>> = {},
): string {
  const printed: string[] = [];
  const print = (text: string) => void printed.push(text);
  const config = {
    ...readConfig({ "--kv": "/srv/plants.db" }, env),
    logFormat: format,
  };
  const log = new Log(format, print);
  printBanner(log, config, { ...STARTED, ...started }, print);
  assert.equal(printed.length, 1);
  return printed[0] ?? "";
}

const LISTENS = `Plant Store ${VERSION} listens on http://0.0.0.0:8000`;

Deno.test("printBanner() announces a new store, in text and in JSON", () => {
  const created = "reated a new, empty store in /srv/plants.db";
  assert.ok(banner("text", { isNewStore: true }).includes(`\nC${created}\n`));
  const entry = JSON.parse(banner("json", { isNewStore: true }));
  assert.equal(entry.message, `c${created}; ${LISTENS}`);
  assert.equal(entry.isNewStore, true);
});

Deno.test("printBanner() writes one line to the journal, or the sample call if only it has the token", () => {
  assert.equal(banner("journal", {}), `<6>${LISTENS}`);
  const generatedToken = "0123";
  const sample = banner("text", { generatedToken });
  assert.equal(banner("journal", { generatedToken }), sample);
});

Deno.test("printBanner() does not announce a store that existed, in text and in JSON", () => {
  const text = banner("text", {});
  assert.ok(text.includes("\nThe plants are stored in /srv/plants.db\n\n"));
  assert.doesNotMatch(text, /new|token is/);
  const { time: _time, curl: _curl, ...entry } = JSON.parse(banner("json", {}));
  assert.deepEqual(entry, {
    ...{ level: "info", event: "started", message: LISTENS, version: VERSION },
    ...{ address: STARTED.address, baseUrl: STARTED.baseUrl },
    ...{ store: "/srv/plants.db", isNewStore: false },
  });
});

Deno.test("printBanner() shows a generated token in the call, and says that it is for this run", () => {
  const text = banner("text", { generatedToken: "0123" });
  assert.match(text, /\nNo token is configured: .* for this run\n/);
  assert.match(text, /"Authorization: Bearer 0123"/);
  const { curl } = JSON.parse(banner("json", { generatedToken: "0123" }));
  assert.ok(text.includes(`\n  ${curl.replaceAll("\n", "\n  ")}\n\n`), curl);
});

Deno.test("printBanner() shows the token of `deno task dev` in the call, and no other configured one", () => {
  const [, devToken = ""] =
    /ACCESS_TOKEN=(\S+)/.exec(tasks.tasks.dev.command) ?? [];
  const dev = banner("text", {}, { ACCESS_TOKEN: `first,${devToken}` });
  assert.ok(dev.includes(`"Authorization: Bearer ${devToken}"`), dev);
  const other = banner("text", {}, { ACCESS_TOKEN: "first,second" });
  assert.ok(other.includes('"Authorization: Bearer ${ACCESS_TOKEN%%,*}"'));
  assert.doesNotMatch(other, /first|second/);
});
