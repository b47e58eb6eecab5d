import assert from "node:assert/strict";
import { isMissing } from "../support/needs.ts";
import { Program } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

for (const [tokens, token] of [["", ""], ["first,second", "second"]] as const) {
  Deno.test({
    name:
      `serve with ACCESS_TOKEN=${tokens} prints a curl command that creates a plant in a shell with ACCESS_TOKEN=${token}`,
    ignore: isMissing("curl"),
    async fn() {
      using directory = new TemporaryDirectory();
      const store = directory.file("plants.db");
      const shell = `[ "$ACCESS_TOKEN" ] || unset ACCESS_TOKEN; exec "$0" "$@"`;
      const env = { ACCESS_TOKEN: tokens };
      await using program = await Program.start(store, { env, shell });
      const [, curl] = /^ {2}(curl [^]*?)\n\n/m.exec(program.stderr) ?? [];
      const script = `ACCESS_TOKEN=${token}; ${curl} 2>/dev/null`;
      const reply = await runTool("sh", ["-c", script]);
      assert.match(reply, /^HTTP\/1\.1 200 /);
      assert.ok(
        reply.endsWith('\r\n\r\n{"name":"Monstera","tag":"climber"}\n'),
      );
    },
  });
}
