import assert from "node:assert/strict";
import { AcceptedTokens } from "../../src/http/auth.ts";
import { reload } from "../../src/http/reload.ts";
import { Log } from "../../src/telemetry/log.ts";
import { onLinux } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";

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
      "is a pipe, which could block the service",
      async (path) => {
        Deno.removeSync(path);
        await runTool("mkfifo", [path]);
      },
      (path) => `<4>--tls-cert: cannot read ${path}: it is not a regular file`,
    ],
  ] satisfies [
    string,
    (path: string) => void | Promise<void>,
    ((path: string) => string)?,
  ][]
) {
  const warns = warning === undefined ? "does not warn" : "warns";
  onLinux.test(`reload() ${warns} if the certificate ${what}`, async ({ directory }) => {
    const path = directory.file("plants.crt");
    Deno.writeTextFileSync(path, "a certificate");
    const tls = {
      pair: { cert: "a certificate", key: "a key" },
      certFile: { name: "--tls-cert", path },
      expires: new Date(),
    };
    await change(path);
    const logged: string[] = [];
    const log = new Log("journal", (entry) => logged.push(entry));
    reload({ tokenFile: undefined, tls }, new AcceptedTokens([]), log);
    assert.deepEqual(logged, [
      KEPT,
      ...warning === undefined ? [] : [warning(path)],
    ]);
  });
}
