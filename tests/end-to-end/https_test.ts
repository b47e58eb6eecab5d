import assert from "node:assert/strict";
import { isMissing } from "../support/needs.ts";
import {
  assertOneLine,
  Program,
  runProgram,
  TOKEN,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { makeCertificate, runTool } from "../support/tools.ts";

const PLANT = '{"id":1,"name":"Monstera"}';

Deno.test({
  name:
    "serve with a certificate answers HTTP/2 and HTTP/1.1 over TLS, and HEAD without a body",
  ignore: isMissing("openssl", "curl"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const { cert, key } = await makeCertificate(directory, "plants");
    await using program = await Program.start(store, {
      flags: ["--tls-cert", cert, "--tls-key", key],
    });
    const { origin } = program;
    assert.match(origin, /^https:\/\/127\.0\.0\.1:\d+$/);
    const curl = (...args: string[]) =>
      runTool("curl", ["-sS", "-i", "--cacert", cert, ...args]);
    const versions = [["--http2", "2"], ["--http1.1", "1\\.1"]] as const;
    for (const [option, version] of versions) {
      const authorization = `Authorization: Bearer ${TOKEN}`;
      const type = "Content-Type: application/json";
      const url = `${origin}/plants`;
      const headers = ["-H", authorization, "-H", type];
      const reply = await curl(option, url, "-d", PLANT, ...headers);
      assert.match(reply, new RegExp(`^HTTP/${version} 200 `));
      assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera"}'), reply);
      for (const [path, status] of [["/", 200], ["/ferns", 404]]) {
        // Over HTTP/2, curl fails if a body follows. Over HTTP/1.1, Deno sends none.
        const head = await curl(option, "--head", `${origin}${path}`);
        assert.match(head, new RegExp(`^HTTP/${version} ${status} `));
        assert.match(head, /^content-length: [1-9]/im);
      }
    }
    const description = await curl(`${origin}/openapi.json`);
    assert.ok(description.includes(`"url": "${origin}"`), description);
    await assert.rejects(runTool("curl", ["-sS", origin]), /certificate/);
  },
});

Deno.test({
  name:
    "healthcheck accepts a self-signed certificate that is for the public name only",
  ignore: isMissing("openssl"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const name = "plants.example";
    const { cert, key } = await makeCertificate(directory, "a", `DNS:${name}`);
    const baseUrl = `https://${name}/api`;
    const env = { TLS_CERT: cert, TLS_KEY: key, BASE_URL: baseUrl };
    await using program = await Program.start(store, { env });
    const run = (env: Record<string, string>) =>
      runProgram(["healthcheck", "--port", `${program.port}`], { env });
    const { status, stdout, stderr } = await run(env);
    assert.deepEqual([status, stdout, stderr], [0, "", ""]);
    assertOneLine(await run({}), 1, /^plant-store: no answer from /);
  },
});
