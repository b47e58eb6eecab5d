import assert from "node:assert/strict";
import tasks from "../../deno.json" with { type: "json" };
import { printBanner, type Started } from "../../src/console/banner.ts";
import { Log, type LogFormat } from "../../src/telemetry/log.ts";
import { VERSION } from "../../src/version.ts";
import { readConfig } from "../support/settings.ts";
import { test } from "../support/tests.ts";

const STARTED: Started = {
  address: "http://0.0.0.0:8000",
  baseUrl: "https://plants.example",
  isNewStore: false,
  generatedToken: undefined,
};

/** Returns what a service with its store in /srv/plants.db prints. */
function entries(
  format: LogFormat,
  started: Partial<Started>,
  env: Readonly<Record<string, string>> = {},
  flags: Readonly<Record<string, string>> = {},
): readonly string[] {
  const printed: string[] = [];
  const print = (text: string) => void printed.push(text);
  const config = {
    ...readConfig({ "--kv": "/srv/plants.db", ...flags }, env),
    logFormat: format,
  };
  const log = new Log(format, print);
  printBanner(log, config, { ...STARTED, ...started }, print);
  return printed;
}

/** Returns the only text that a service prints. */
function banner(...args: Parameters<typeof entries>): string {
  const [text = "", ...others] = entries(...args);
  assert.deepEqual(others, []);
  return text;
}

const LISTENS = `Plant Store ${VERSION} listens on http://0.0.0.0:8000`;

Deno.test("printBanner() announces a new store, in JSON and in the journal as a warning", () => {
  const created = "reated a new store in /srv/plants.db";
  assert.ok(banner("text", { isNewStore: true }).includes(`\nC${created}\n`));
  const [first = "", second = "", ...others] = entries("json", {
    isNewStore: true,
  });
  const { time: _time, ...warning } = JSON.parse(first);
  assert.deepEqual(warning, {
    ...{ level: "warning", event: "new store", message: `c${created}` },
  });
  assert.equal(JSON.parse(second).isNewStore, true);
  assert.deepEqual(others, []);
  const lines = [`<4>c${created}`, `<6>${LISTENS}`];
  assert.deepEqual(entries("journal", { isNewStore: true }), lines);
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
  const sample = `\nCreate a plant:\n\n  ${curl.replaceAll("\n", "\n  ")}\n\n`;
  assert.ok(text.includes(sample), text);
});

Deno.test("printBanner() shows the token of `deno task dev` in the call", () => {
  const [, devToken = ""] =
    /ACCESS_TOKEN=(\S+)/.exec(tasks.tasks.dev.command) ?? [];
  const text = banner("text", {}, { ACCESS_TOKEN: `first,${devToken}` });
  assert.match(text, /\nCreate a plant:\n/);
  assert.ok(text.includes(`"Authorization: Bearer ${devToken}"`), text);
});

Deno.test("printBanner() shows no other configured token: the shell takes the first one from ACCESS_TOKEN", () => {
  for (
    const [list, word] of [
      ["first", "$ACCESS_TOKEN"],
      ["first,second", "${ACCESS_TOKEN%%,*}"],
      ["first,first", "${ACCESS_TOKEN%%,*}"],
    ] as const
  ) {
    const text = banner("text", {}, { ACCESS_TOKEN: list });
    const where = ", in a terminal where ACCESS_TOKEN is set:\n";
    assert.ok(text.includes(`\nCreate a plant${where}`), text);
    assert.ok(text.includes(`"Authorization: Bearer ${word}"`), text);
    assert.doesNotMatch(text, /first|second/);
  }
});

test("printBanner() names the file from which the shell needs a token", ({ directory }) => {
  const file = directory.file("tokens");
  Deno.writeTextFileSync(file, "first\nsecond\n");
  const text = banner("text", {}, {}, { "--token-file": file });
  const where = `where ACCESS_TOKEN is set to a token in ${file}:`;
  assert.ok(text.includes(where), text);
  assert.ok(text.includes('"Authorization: Bearer $ACCESS_TOKEN"'), text);
});
