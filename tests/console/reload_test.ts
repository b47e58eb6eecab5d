import assert from "node:assert/strict";
import { AcceptedTokens } from "../../src/http/auth.ts";
import { reload } from "../../src/console/reload.ts";
import { Log } from "../../src/telemetry/log.ts";
import { test } from "../support/tests.ts";

/** Returns a log and its entries. */
function openLog(): { log: Log; logged: string[] } {
  const logged: string[] = [];
  return { log: new Log("journal", (entry) => logged.push(entry)), logged };
}

test("reload() replaces the tokens with those in the file, unless one is invalid", ({ directory }) => {
  const path = directory.file("tokens");
  const files = { tokenFile: { name: "--token-file", path }, tls: undefined };
  const tokens = new AcceptedTokens(["old"]);
  const { log, logged } = openLog();
  for (const text of ["a\nb\na\n", "c\nd e\n"]) {
    Deno.writeTextFileSync(path, text);
    reload(files, tokens, log);
    const accepted = ["a", "b", "c", "old"]
      .filter((token) => tokens.check(`Bearer ${token}`) === undefined);
    assert.deepEqual(accepted, ["a", "b"]);
  }
  const [reloaded, kept = "", ...others] = logged;
  assert.equal(reloaded, `<6>reloaded 2 tokens from ${path}`);
  assert.match(kept, /^<3>the tokens did not change: --token-file: .*token 2 /);
  assert.deepEqual(others, []);
});

const KEPT = "<6>nothing to reload: no token file is configured";

for (
  const [what, change, warning] of [
    ["has not changed", () => {}],
    [
      "has changed",
      (path) => Deno.writeTextFileSync(path, "another"),
      (path) => `<4>${path} has changed: restart the service to use it`,
    ],
    [
      "is missing",
      (path) => Deno.removeSync(path),
      (path) => `<4>--tls-cert: cannot read ${path}: no such file`,
    ],
    [
      "is a device or a pipe, which could block the service",
      (path) => {
        Deno.removeSync(path);
        Deno.symlinkSync("/dev/null", path);
      },
      (path) => `<4>--tls-cert: cannot read ${path}: it is not a regular file`,
    ],
  ] satisfies [
    string,
    (path: string) => void,
    ((path: string) => string)?,
  ][]
) {
  const warns = warning === undefined ? "does not warn" : "warns";
  test(`reload() ${warns} if the certificate ${what}`, ({ directory }) => {
    const path = directory.file("plants.crt");
    Deno.writeTextFileSync(path, "a certificate");
    const tls = {
      pair: { cert: "a certificate", key: "a key" },
      certFile: { name: "--tls-cert", path },
      expires: new Date(),
    };
    change(path);
    const { log, logged } = openLog();
    reload({ tokenFile: undefined, tls }, new AcceptedTokens([]), log);
    assert.deepEqual(logged, [
      KEPT,
      ...warning === undefined ? [] : [warning(path)],
    ]);
  });
}
