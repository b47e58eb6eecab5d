import assert from "node:assert/strict";
import { has, Program, runProgram, TOKEN } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { HAS_OPENSSL, makeCertificate, runTool } from "../support/tools.ts";

const PLANT = '{"id":1,"name":"Monstera"}';

const HAS_TOOLS = HAS_OPENSSL && await has("curl", "--version");

Deno.test({
  name: "serve with a certificate answers HTTP/2 and HTTP/1.1 over TLS",
  ignore: !HAS_TOOLS,
  async fn() {
    using directory = new TemporaryDirectory();
    const { cert, key } = await makeCertificate(directory, "plants");
    await using program = await Program.start([
      ...["--kv", directory.file("plants.db")],
      ...["--tls-cert", cert, "--tls-key", key],
    ]);
    const { origin } = program;
    assert.match(origin, /^https:\/\/127\.0\.0\.1:\d+$/);
    const trusting = ["-sS", "-i", "--cacert", cert];
    const versions = [["--http2", "2"], ["--http1.1", "1\\.1"]] as const;
    for (const [option, version] of versions) {
      const reply = await runTool("curl", [
        ...[...trusting, option, `${origin}/plants`],
        ...["-H", `Authorization: Bearer ${TOKEN}`],
        ...["-H", "Content-Type: application/json", "-d", PLANT],
      ]);
      assert.match(reply, new RegExp(`^HTTP/${version} 200 `));
      assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera"}'), reply);
    }
    const refused = await runTool("curl", [...trusting, `${origin}/plants`]);
    assert.match(refused, /^HTTP\/2 405 [^]*"error":40501,/);
    const path = `${origin}/openapi.json`;
    const description = await runTool("curl", [...trusting, path]);
    assert.ok(description.includes(`"url": "${origin}"`), description);
    await assert.rejects(runTool("curl", ["-sS", origin]), /certificate/);
    assert.equal((await program.stop()).status, 0);
  },
});

Deno.test({
  name:
    "healthcheck accepts a self-signed certificate that is for the public name only",
  ignore: !HAS_TOOLS,
  async fn() {
    using directory = new TemporaryDirectory();
    const { cert, key } = await makeCertificate(
      directory,
      "plants",
      "DNS:plants.example",
    );
    const tls = { TLS_CERT: cert, TLS_KEY: key };
    await using program = await Program.start(
      ["--kv", directory.file("plants.db")],
      { env: { ...tls, BASE_URL: "https://plants.example/api" } },
    );
    const args = ["healthcheck", "--port", `${program.port}`];
    const run = async (env: Record<string, string>) =>
      await runProgram(args, { env });
    const ready = await run({ ...tls, BASE_URL: "https://plants.example/api" });
    assert.deepEqual(ready, {
      status: 0,
      signal: null,
      stdout: "",
      stderr: "",
    });
    const withoutBase = await run(tls);
    assert.equal(withoutBase.status, 1);
    assert.match(
      withoutBase.stderr,
      / with 404: give the service's --base-url/,
    );
    const withoutTls = await run({});
    assert.equal(withoutTls.status, 1);
    assert.match(withoutTls.stderr, /^plant-store: no answer from [^\n]+\n$/);
  },
});
