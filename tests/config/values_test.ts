import assert from "node:assert/strict";
import { resolve } from "node:path";
import { assertRefused, readConfig, settings } from "../support/settings.ts";
import { fileAt } from "../support/stores.ts";

Deno.test("Settings.config() accepts a host, without brackets", () => {
  for (
    const host of [
      ...["localhost", "plants_1.example.", "3com.example", "_a._1-", "a-b"],
      ...["x".repeat(63), `a.${"x".repeat(63)}`, "1.2.3.4", "::"],
      ...["::ffff:127.0.0.1", "[::1]", "[fe80::1%eth0]", "a.b"],
    ]
  ) {
    const expected = host.replaceAll(/[[\]]/g, "");
    assert.equal(readConfig({ "--host": host }).host, expected);
  }
});

Deno.test("Settings.config() refuses what is not a host", () => {
  for (
    const host of [
      ...["", "[]", "[", "::1]", "[::1", "[[::1]]", "[1.2.3.4]", "[localhost]"],
      ...["1.2.3.4:80", "localhost:80", "[::1]:80", ":80", ":::1", "fe80::1%"],
      ...["256.1.1.1", "1.2.3", "127.0.0.01", "1", ".", "1.2.3.4.", "a..b"],
      ...[".a", "a/b", "http://a", "a b", "a\n", "ä", "*", "x[::1]"],
      ...["x".repeat(64), `a.${"x".repeat(64)}`],
    ]
  ) {
    assert.throws(() => readConfig({ "--host": host }), {
      name: "OperatorError",
      message: `--host: expected an address such as 127.0.0.1, got "${host}"`,
    });
  }
});

Deno.test("Settings.config() accepts a port from 0 to 65535, and nothing else", () => {
  for (const port of ["0", "00080", "65535"]) {
    assert.equal(readConfig({ "--port": port }).port, Number(port));
  }
  for (
    const port of [
      ...["", "65536", "-1", " 80", "80 ", "8e3", "80.5", "0x50", "000080"],
      ...["٣", "http"],
    ]
  ) {
    const message = /^--port: expected a whole number from 0 to 65535, got "/;
    assertRefused({ "--port": port }, {}, message);
  }
});

Deno.test("Settings.config() reads the base URL, without a slash at its end", () => {
  for (
    const [given, expected] of [
      ["https://plants.example/", "https://plants.example"],
      ["HTTP://Plants.Example:80/", "http://plants.example"],
      ["http://plants.example/@api//", "http://plants.example/@api"],
      ["http://[::1]:8000/a", "http://[::1]:8000/a"],
    ] as const
  ) assert.equal(readConfig({ "--base-url": given }).baseUrl, expected);
});

Deno.test("Settings.config() refuses what is not a base URL", () => {
  for (
    const url of [
      ...["", "plants.example", "/api", "ftp://a", "http://", "a:1"],
      ...["http://a?x", "http://a/?", "http://a/b#c", "http://a/#"],
      ...["xhttp://a", "httpsx://a", "http://secret@a", "http://:secret@a"],
      ...["http://u:secret@a"],
    ]
  ) {
    assertRefused(
      { "--base-url": url },
      {},
      /^--base-url: expected a URL such as .*, got (one with an @|".*")$/,
    );
  }
});

Deno.test("Settings.logFormat() accepts text, json and journal, and nothing else", () => {
  for (const format of ["text", "json", "journal"]) {
    assert.equal(settings({ "--log-format": format }).logFormat(), format);
  }
  for (const format of ["", "JSON", "xml", "jsontext"]) {
    const message = /^--log-format: expected text, json or journal, got "\w*"$/;
    assertRefused({ "--log-format": format }, {}, message);
  }
});

Deno.test("Settings.store() reads a file, and --kv wins", () => {
  for (
    const path of ["p.db", "/a/p.db", "--odd", "a/https:b", "a:b", "1s://x"]
  ) {
    const absolute = resolve(path);
    const [flag, variable] = ["--kv", "KV_PATH"]
      .map((setting) => fileAt(absolute, setting));
    const env = { KV_PATH: "other.db" };
    assert.deepEqual(settings({ "--kv": path }, env).store(), flag);
    assert.deepEqual(settings({}, { KV_PATH: path }).store(), variable);
  }
});

Deno.test("Settings.store() refuses what is neither a file nor an http URL", () => {
  for (
    const url of [
      ...["https://", "http://:99999/", "http:", "ftp://kv.test", "s://x"],
      ...["s3://x", "a.b://x", "a+b://x", "a-b://x", "xhttp://x", "HTTPSX://x"],
      ...["http://secret@kv.test", "http://:secret@kv.test", ""],
      ...["http://u:secret@kv.test", "http://u:secret@"],
    ]
  ) {
    assertRefused(
      { "--kv": url },
      { DENO_KV_ACCESS_TOKEN: "a-token" },
      /^--kv: expected a file,? or a URL.*, got (one with an @|"\S*")$/,
    );
  }
});

Deno.test("Settings.config() refuses a flag with an empty path, and an empty ACCESS_TOKEN_FILE", () => {
  for (const flag of ["--token-file", "--tls-cert", "--tls-key"]) {
    const message = new RegExp(`^${flag}: expected a file, got ""$`);
    assertRefused({ [flag]: "" }, {}, message);
  }
  const message = /^ACCESS_TOKEN_FILE: expected a file, got ""$/;
  assertRefused({}, { ACCESS_TOKEN_FILE: "" }, message);
});
