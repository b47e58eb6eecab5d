import assert from "node:assert/strict";
import { needs } from "../support/needs.ts";
import { runTool } from "../support/tools.ts";

const withCurl = needs("curl");

for (const [tokens, token] of [["", ""], ["first,second", "second"]] as const) {
  withCurl.test(`serve with ACCESS_TOKEN=${tokens} prints a curl command that creates a plant in a shell with ACCESS_TOKEN=${token}`, async ({ start }) => {
    const shell = `[ "$ACCESS_TOKEN" ] || unset ACCESS_TOKEN; exec "$0" "$@"`;
    const env = { ACCESS_TOKEN: tokens };
    await using program = await start([], { env, shell });
    const [, curl] = /^ {2}(curl [^]*?)\n\n/m.exec(program.stderr) ?? [];
    const script = `ACCESS_TOKEN=${token}; ${curl} 2>/dev/null`;
    const reply = await runTool("sh", ["-c", script]);
    assert.match(reply, /^HTTP\/1\.1 200 /);
    assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera","tag":"climber"}'));
  });
}
