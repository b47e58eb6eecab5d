import assert from "node:assert/strict";
import { RequestHandler } from "../../src/http/handler.ts";
import { eventually } from "../support/load.ts";
import { needs } from "../support/needs.ts";
import { assertOneLine, runProgram, TOKEN } from "../support/program.ts";
import { StoreLock } from "../support/temporary.ts";
import { makeCertificate, runTool } from "../support/tools.ts";

const withTools = needs("openssl", "curl");

const PLANT = '{"id":1,"name":"Monstera"}';

withTools.test("serve with a certificate answers HTTP/2 and HTTP/1.1 over TLS", async ({ directory, start }) => {
  const { cert, key } = await makeCertificate(directory, "plants");
  await using program = await start(["--tls-cert", cert, "--tls-key", key]);
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
  const path = `${origin}/openapi.json`;
  const description = await runTool("curl", [...trusting, path]);
  assert.ok(description.includes(`"url": "${origin}"`), description);
  await assert.rejects(runTool("curl", ["-sS", origin]), /certificate/);
});

withTools.test("HEAD gets a reply without a body over HTTP/2, with TLS and without, whatever its status", async ({ directory, store, start }) => {
  const { cert, key } = await makeCertificate(directory, "plants");
  await using plain = await start();
  await using secure = await start(["--tls-cert", cert, "--tls-key", key]);
  const framings = [
    [plain, "--http2-prior-knowledge"],
    [secure, "--http2"],
  ] as const;
  const expectStatus = (status: number, path: string, token = TOKEN) =>
    Promise.all(framings.map(async ([{ origin }, option]) => {
      // The result of an earlier probe of the store holds for a moment.
      const reply = await eventually(
        (reply) => reply.startsWith(`HTTP/2 ${status} `),
        // curl fails if a body follows.
        () =>
          runTool("curl", [
            ...["-sS", "-I", "--cacert", cert, option, `${origin}${path}`],
            ...["-H", `Authorization: Bearer ${token}`],
          ]),
      );
      assert.match(reply, /^content-length: [1-9]/im);
    }));
  for (const { path, methods } of RequestHandler.ROUTES) {
    await expectStatus(methods.includes("HEAD") ? 200 : 405, path);
  }
  await expectStatus(401, "/metrics", "guess");
  await expectStatus(404, "/ferns");
  using _lock = new StoreLock(store);
  await expectStatus(503, "/readyz");
});

withTools.test("healthcheck accepts a self-signed certificate that is for the public name only", async ({ directory, start }) => {
  const { cert, key } = await makeCertificate(
    directory,
    "plants",
    "DNS:plants.example",
  );
  const tls = { TLS_CERT: cert, TLS_KEY: key };
  await using program = await start([], {
    env: { ...tls, BASE_URL: "https://plants.example/api" },
  });
  const run = (env: Record<string, string>) =>
    runProgram(["healthcheck", "--port", `${program.port}`], { env });
  assert.deepEqual(
    await run({ ...tls, BASE_URL: "https://plants.example/api" }),
    { status: 0, signal: null, stdout: "", stderr: "" },
  );
  const withoutBase = / with 404: give the service's --base-url/;
  assertOneLine(await run(tls), 1, withoutBase);
  assertOneLine(await run({}), 1, /^plant-store: no answer from /);
});

withTools.test("a certificate that has expired is a warning at the start and in check, and SIGHUP warns of one that was replaced", async ({ directory, start }) => {
  const { cert, key } = await makeCertificate(directory, "plants");
  await runTool("openssl", [
    ...["x509", "-in", cert, "-signkey", key, "-days", "-1", "-out", cert],
  ]);
  const env = { TLS_CERT: cert, TLS_KEY: key };
  const warning = /the certificate in \/.*\/plants\.crt has expired on /;
  const { status, stdout } = await runProgram(["check"], { env });
  assert.match(stdout, warning);
  assert.equal(status, 0);
  await using program = await start([], { env });
  assert.match(program.stderr, RegExp(`Z warning: ${warning.source}`));
  const metric = "plant_store_certificate_expiry_timestamp_seconds";
  const metrics = await runTool("curl", [
    ...["-sSk", "-H", `Authorization: Bearer ${TOKEN}`],
    `${program.origin}/metrics`,
  ]);
  const [, seconds] = RegExp(`^${metric} (\\d+)$`, "m").exec(metrics) ?? [];
  assert.ok(Number(seconds) < Date.now() / 1000, `expires at ${seconds}`);

  const { length } = program.stderr;
  await program.reload();
  await makeCertificate(directory, "plants");
  program.process.kill("SIGHUP");
  await program.printed(
    /Z warning: \S+\.crt has changed: restart the service to use it\n$/,
    length,
  );
});
