import assert from "node:assert/strict";
import { descriptionText } from "../../src/reference/openapi.ts";
import { HEALTHCHECK_MS_MAX } from "../../src/limits.ts";
import { Program, runProgram, TemporaryDirectory } from "../support/program.ts";

const HAS_OPENSSL = await new Deno.Command("openssl", { args: ["version"] })
  .output().then(({ success }) => success, () => false);

/** Answers GET with the path and the Host that were asked for, and a status. */
function listen(
  status: number,
  options: Partial<Deno.ServeTcpOptions & Deno.TlsCertifiedKeyPem> = {},
) {
  const asked: string[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {}, ...options },
    ({ method, url }) => {
      asked.push(`${method} ${url.slice(url.indexOf("/", 8))}`);
      return Response.json({}, { status });
    },
  );
  return {
    asked,
    port: String(server.addr.port),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("--help names every command in a line of its own", async () => {
  const { status, stdout } = await runProgram(["--help"]);
  assert.equal(status, 0);
  const words = ["serve", "export", "import FILE", "backup FILE"];
  for (const word of [...words, "healthcheck", "openapi"]) {
    assert.match(stdout, new RegExp(`^  ${word} {2,}\\S`, "m"));
  }
});

Deno.test("a command line that cannot be meant is one plain line and status 2", async () => {
  using directory = new TemporaryDirectory();
  const cases: [string[], string][] = [
    [["frob"], "there is no command frob: see --help"],
    [["constructor"], "there is no command constructor: see --help"],
    [["serve", "now"], "now is not expected here: see --help"],
    [["export", "file"], "file is not expected here: see --help"],
    [["import"], "import needs a FILE: see --help"],
    [["import", ""], "import needs a FILE: see --help"],
    [["import", "a", "b"], "b is not expected here: see --help"],
    [["backup"], "backup needs a FILE: see --help"],
    [["backup", "a", "b"], "b is not expected here: see --help"],
    [["healthcheck", "now"], "now is not expected here: see --help"],
    [["openapi", "now"], "now is not expected here: see --help"],
    [["export", "--fr\nob"], "there is no flag --fr ob: see --help"],
    [["export", "--frob"], "there is no flag --frob: see --help"],
    [["export", "--kv"], "--kv needs a value: see --help"],
    [["import", "none"], "cannot read none: there is no such file"],
    [["import", "."], "cannot read .: it is a directory"],
    [
      ["healthcheck", "--port", "0"],
      "--port 0 could be any: name the service's own port",
    ],
  ];
  for (const [args, message] of cases) {
    const ended = await runProgram(args, { cwd: directory.path });
    assert.equal(ended.stderr, `plant-store: ${message}\n`);
    assert.equal(ended.stdout, "");
    assert.equal(ended.status, 2);
  }
  assert.deepEqual([...Deno.readDirSync(directory.path)], []);
});

Deno.test("a command does not need what only the service needs", async () => {
  using directory = new TemporaryDirectory();
  const env = {
    ACCESS_TOKEN_FILE: "/none",
    TLS_CERT: "/none",
    TLS_KEY: "/none",
  };
  const store = directory.file("plants.db");
  const imported = await runProgram(["import", "/dev/null", "--kv", store], {
    env,
  });
  assert.equal(imported.status, 0, imported.stderr);
  const exported = await runProgram(["export", "--kv", store], { env });
  assert.equal(exported.status, 0, exported.stderr);
});

Deno.test("openapi: the description at the public address", async () => {
  const url = "https://plants.example/api";
  const { status, stdout } = await runProgram(["openapi", "--base-url", url]);
  assert.equal(status, 0);
  assert.equal(stdout, descriptionText(url));
});

Deno.test("openapi: without a public address, the description at the configured one", async () => {
  const { stdout } = await runProgram(["openapi", "--port", "9000"]);
  assert.equal(stdout, descriptionText("http://127.0.0.1:9000"));
  const all = await runProgram(["openapi"], { env: { HOST: "0.0.0.0" } });
  assert.equal(all.stdout, descriptionText("http://localhost:8000"));
});

Deno.test("healthcheck: a service that is ready", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("plants.db")]);
  const args = ["healthcheck", "--port", String(program.port)];
  const { status, stdout, stderr } = await runProgram(args);
  assert.deepEqual({ status, stdout, stderr }, {
    status: 0,
    stdout: "",
    stderr: "",
  });
});

Deno.test("healthcheck: /readyz is asked for, below the prefix of BASE_URL", async () => {
  await using server = listen(200);
  for (const url of ["https://plants.example", "https://plants.example/api/"]) {
    const { status } = await runProgram(["healthcheck"], {
      env: { PORT: server.port, BASE_URL: url },
    });
    assert.equal(status, 0);
  }
  assert.deepEqual(server.asked, ["GET /readyz", "GET /api/readyz"]);
});

Deno.test("healthcheck: who listens everywhere is asked on loopback", async () => {
  await using server = listen(200);
  const args = ["healthcheck", "--host", "0.0.0.0", "--port", server.port];
  assert.equal((await runProgram(args)).status, 0);
});

for (
  const [answer, advice] of [
    [503, ""],
    [404, ": give the service's --base-url"],
  ] as const
) {
  Deno.test(`healthcheck: a service that answers ${answer} is a failure`, async () => {
    await using server = listen(answer);
    const { status, stderr } = await runProgram(
      ["healthcheck", "--port", server.port],
    );
    assert.equal(
      stderr,
      `plant-store: not ready: 127.0.0.1 port ${server.port} answers /readyz ` +
        `with ${answer}${advice}\n`,
    );
    assert.equal(status, 1);
  });
}

Deno.test("healthcheck: where nobody listens it is a failure", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const { status, stderr } = await runProgram(
    ["healthcheck", "--port", String(port)],
  );
  assert.match(stderr, /^plant-store: no answer from 127\.0\.0\.1 port .*\n$/);
  assert.equal(status, 1);
});

Deno.test("healthcheck: silence, or another protocol, is a failure in bounded time", async () => {
  for (
    const greeting of ["", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 ", "close"]
  ) {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const accepting = listener.accept().then(async (connection) => {
      await connection.write(new TextEncoder().encode(greeting));
      if (greeting === "close") connection.close();
      return connection;
    });
    const startMs = performance.now();
    const { status, stderr } = await runProgram(
      ["healthcheck", "--port", String(listener.addr.port)],
    );
    assert.match(stderr, /^plant-store: no answer from 127\.0\.0\.1 .*\n$/);
    assert.equal(status, 1);
    assert.ok(performance.now() - startMs < HEALTHCHECK_MS_MAX + 5_000);
    const connection = await accepting;
    if (greeting !== "close") connection.close();
  }
});

Deno.test({
  name: "healthcheck: over TLS any certificate will do, for nothing is told",
  ignore: !HAS_OPENSSL,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const [certFile, keyFile] = [
      directory.file("cert.pem"),
      directory.file("key.pem"),
    ];
    const { success } = await new Deno.Command("openssl", {
      args: ["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"].concat(
        ["-pkeyopt", "ec_paramgen_curve:prime256v1"],
        ["-subj", "/CN=plants.example", "-keyout", keyFile, "-out", certFile],
      ),
      stderr: "null",
    }).output();
    assert.ok(success);
    const cert = Deno.readTextFileSync(certFile);
    const key = Deno.readTextFileSync(keyFile);
    await using server = listen(200, { cert, key });
    const { status, stderr } = await runProgram(["healthcheck"], {
      env: { PORT: server.port, TLS_CERT: certFile, TLS_KEY: keyFile },
    });
    assert.equal(stderr, "");
    assert.equal(status, 0);
    assert.deepEqual(server.asked, ["GET /readyz"]);
  },
});
