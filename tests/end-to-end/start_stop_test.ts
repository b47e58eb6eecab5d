import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import config from "../../deno.json" with { type: "json" };
import {
  type Ended,
  has,
  Program,
  type ProgramOptions,
  runProgram,
  StoreLock,
  TemporaryDirectory,
  TOKEN,
} from "../support/program.ts";
import { exchange, request, Wire } from "../support/wire.ts";

const BODY = '{"id":7,"name":"Monstera"}';

/** What no line for a user may hold. */
const STACK = /^\s*at |Uncaught|panicked|Stack backtrace/m;

/** A value that must not be shown wherever it was given. */
const SECRET = "hush-hush";

/** Asserts that a start ended with a status and one plain line. */
function assertOneLine(
  { status, stdout, stderr }: Ended,
  expected: number,
  says: RegExp,
): void {
  assert.equal(status, expected, stderr);
  assert.match(stderr, /^plant-store: [^\n]+\n$/);
  assert.match(stderr, says);
  assert.doesNotMatch(stderr, STACK);
  assert.ok(!stderr.includes(SECRET), stderr);
  assert.equal(stdout, "");
}

/** The curl command in the banner. */
function curlOf(stderr: string): string {
  return /^ {2}(curl [^]*?)\n\n/m.exec(stderr)?.[1] ?? "";
}

/** Runs a command in a shell and gives what it printed. */
async function shell(
  command: string,
  env: Record<string, string> = {},
): Promise<string> {
  const { stdout } = await new Deno.Command("sh", {
    args: ["-c", command],
    env,
    stdin: "null",
    stderr: "null",
  }).output();
  return new TextDecoder().decode(stdout);
}

const HAS_CURL = await has("curl", "--version");

/** Listens on a free port for clients that will get no answer. */
function silence(): Deno.TcpListener {
  return Deno.listen({ hostname: "127.0.0.1", port: 0 });
}

/** Spawns a program whose KV Connect server gives no answer. */
function spawnOnto({ addr }: Deno.TcpListener): Program {
  return Program.spawn(
    ["--port", "0", "--kv", `http://127.0.0.1:${addr.port}`],
    { env: { DENO_KV_ACCESS_TOKEN: SECRET } },
  );
}

/** Sends a create and gives the status of its reply. */
async function statusOf(
  program: Program,
  ...create: Parameters<Program["create"]>
): Promise<number> {
  const reply = await program.create(...create);
  await reply.body?.cancel();
  return reply.status;
}

/** Waits until connections are refused; until then they must just end. */
async function refusal(port: number): Promise<void> {
  for (;;) {
    try {
      using wire = await Wire.connect(port);
      assert.equal(await wire.rest(), "");
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionRefused) return;
      throw error;
    }
  }
}

async function isStored(file: string): Promise<boolean> {
  using kv = await Deno.openKv(file);
  return (await kv.get(["plants", 7n])).versionstamp !== null;
}

/** A start with a KV Connect server that takes the connection, no more. */
async function startOnSilence(): Promise<Ended> {
  using listener = silence();
  const { port } = listener.addr;
  return await runProgram(["--port", "0", "--kv", `http://127.0.0.1:${port}`], {
    env: { DENO_KV_ACCESS_TOKEN: SECRET },
  });
}

const HALF_BODY = request(BODY, { headers: ["content-length: 100"] });
const HALF_CHUNKS = request(`5\r\n${BODY.slice(0, 5)}\r\n`, {
  headers: ["transfer-encoding: chunked"],
});

Deno.test("a silent KV server and a body that never ends are waited for 10 s", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  // All of it at once, for each takes about 10 s.
  const [ended, ...replies] = await Promise.all([
    startOnSilence(),
    exchange(program.port, HALF_BODY),
    exchange(program.port, HALF_CHUNKS),
  ]);
  assertOneLine(ended, 1, /http:\/\/127\.0\.0\.1:\d+/);
  for (const reply of replies) {
    assert.equal(reply?.status, 408);
    assert.deepEqual(JSON.parse(reply.text), {
      error: 40801,
      message: "body: expected all of it within 10 s",
    });
    assert.match(reply.headers.get("connection") ?? "", /close/);
  }
  assert.equal(await isStored(file), false);
  assert.equal(await statusOf(program, BODY), 200);
});

// The runtime waits for the rest of a body before it closes a connection.
Deno.test("a connection whose body did not arrive in time is closed when it comes", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const both = [
    { half: HALF_BODY, rest: " ".repeat(100 - BODY.length) },
    { half: HALF_CHUNKS, rest: "0\r\n\r\n" },
  ];
  await Promise.all(both.map(async ({ half, rest }) => {
    using wire = await Wire.connect(program.port);
    await wire.send(half);
    assert.equal((await wire.reply())?.status, 408);
    await wire.send(rest);
    assert.equal(await wire.rest(), "");
  }));
});

Deno.test("a first start shows where it is and a curl command that works", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file], { ownToken: true });
  await program.printed(/climber[^\n]+\n\n/);
  assert.ok(program.stderr.includes(`listens on ${program.origin}\n`));
  assert.ok(program.stderr.includes(file));
  const curl = curlOf(program.stderr);
  assert.match(curl, /Bearer [0-9a-f]{32}"/);
  assert.ok(curl.includes(`${program.origin}/plants`), curl);
  if (!HAS_CURL) return;
  for (let i = 0; i < 2; i++) {
    const reply = await shell(curl);
    assert.match(reply, /^HTTP\/1\.1 200 /);
    assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera","tag":"climber"}'));
  }
  assert.match(await shell(curl.replace("Monstera", "M")), /"error":40901/);
});

Deno.test("with a token of one's own the curl command takes it from the shell", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")], {
    env: { ACCESS_TOKEN: SECRET },
  });
  await program.printed(/climber[^\n]+\n\n/);
  const curl = curlOf(program.stderr);
  assert.ok(curl.includes("$ACCESS_TOKEN"), curl);
  if (HAS_CURL) {
    assert.match(
      await shell(curl, { ACCESS_TOKEN: SECRET }),
      /^HTTP\/1\.1 200 /,
    );
    assert.match(await shell(curl, { ACCESS_TOKEN: "x" }), /^HTTP\/1\.1 401 /);
  }
  const { stderr, stdout } = await program.stop();
  assert.ok(!stderr.includes(SECRET), stderr);
  assert.equal(stdout, "");
});

Deno.test({
  name: "SIGHUP during the start does not end it",
  ignore: Deno.build.os === "windows",
  async fn() {
    using listener = silence();
    await using program = spawnOnto(listener);
    // It asks the KV Connect server, and waits.
    using _asked = await listener.accept();
    program.process.kill("SIGHUP");
    const { status, signal, stderr } = await program.stop();
    assert.deepEqual([status, signal], [0, null], stderr);
  },
});

Deno.test({
  name: "a service whose terminal is closed stops",
  ignore: !await has("script", "--version"),
  async fn() {
    using directory = new TemporaryDirectory();
    await using program = await Program.start(["--kv", directory.file("p.db")], {
      shell: 'exec script -qfc "$0 $*" /dev/null >&2',
    });
    const { port } = program;
    await program.printed(/climber/);
    program.process.kill("SIGKILL");
    await refusal(port);
  },
});

Deno.test("each run without a token makes another", async () => {
  using directory = new TemporaryDirectory();
  const tokens = new Set<string>();
  for (let run = 0; run < 2; run++) {
    const program = await Program.start(["--kv", directory.file("plants.db")], {
      ownToken: true,
    });
    const [, token = ""] = await program.printed(/Bearer ([0-9a-f]{32})"/);
    tokens.add(token);
    assert.equal(await statusOf(program, BODY, token), 200);
    assert.equal(await statusOf(program, BODY, "0".repeat(32)), 401);
    assert.equal((await program.stop()).status, 0);
  }
  assert.equal(tokens.size, 2);
});

Deno.test("with --log-format json every line on stderr is one object", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  const program = await Program.start(["--log-format", "json", "--kv", file], {
    ownToken: true,
  });
  await program.printed(/\n/);
  const started = JSON.parse(program.stderr);
  assert.equal(started.event, "started");
  assert.equal(started.level, "info");
  assert.equal(started.version, config.version);
  assert.equal(started.address, program.origin);
  assert.equal(started.baseUrl, program.origin);
  assert.equal(started.store, file);
  assert.ok(!Number.isNaN(Date.parse(started.time)));
  if (HAS_CURL) {
    assert.match(await shell(started.curl), /^HTTP\/1\.1 200 /);
  }
  const { status, stderr } = await program.stop();
  assert.equal(status, 0);
  const lines = stderr.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ event }) => event),
    ["started", "stopping", "stopped"],
  );
});

Deno.test("--help names every flag, variable and default, with examples", async () => {
  const { status, stdout, stderr } = await runProgram(["--help"]);
  assert.equal(status, 0);
  assert.equal(stderr, "");
  for (
    const row of [
      /--host .*HOST .*127\.0\.0\.1/,
      /--port .*PORT .*8000/,
      /--kv .*KV_PATH .*plants\.db/,
      /ACCESS_TOKEN /,
      /--token-file .*ACCESS_TOKEN_FILE/,
      /--base-url .*BASE_URL/,
      /--tls-cert .*TLS_CERT/,
      /--tls-key .*TLS_KEY/,
      /--log-format .*LOG_FORMAT .*text/,
      /--help/,
      /--version/,
      /DENO_KV_ACCESS_TOKEN=\S+ /,
      /Examples:\n {2}plant-store\n/,
    ]
  ) assert.match(stdout, row);
});

Deno.test("--version is the version in deno.json", async () => {
  assert.deepEqual(await runProgram(["--version"]), {
    status: 0,
    signal: null,
    stdout: `plant-store ${config.version}\n`,
    stderr: "",
  });
});

/** `*` stands for a temporary directory that has the files made below. */
const BAD: readonly {
  readonly what: string;
  readonly args?: readonly string[];
  readonly env?: Record<string, string>;
  readonly says: RegExp;
  readonly status?: number;
}[] = [
  {
    what: "a port above 65535",
    args: ["--port", "65536"],
    says: /--port.*65536/,
  },
  { what: "a negative port", args: ["--port=-1"], says: /--port/ },
  { what: "a port of no number", env: { PORT: "http" }, says: /PORT.*"http"/ },
  { what: "a port with a fraction", args: ["--port", "80.5"], says: /--port/ },
  { what: "an empty port", env: { PORT: "" }, says: /PORT/ },
  { what: "an unknown flag", args: ["--prot", "1"], says: /--prot/ },
  {
    what: "a flag for a token",
    args: [`--access-token=${SECRET}`],
    says: /--access-token/,
  },
  { what: "an unknown short flag", args: ["-p", "1"], says: /-p/ },
  { what: "an unknown command", args: ["sevre"], says: /sevre/ },
  { what: "a word too many", args: ["serve", "now"], says: /now/ },
  { what: "a flag without its value", args: ["--kv"], says: /--kv/ },
  { what: "an empty host", args: ["--host", ""], says: /--host/ },
  { what: "a host with a path", env: { HOST: "a/b" }, says: /HOST/ },
  { what: "a log format", args: ["--log-format", "xml"], says: /--log-format/ },
  {
    what: "a base URL of ftp",
    args: ["--base-url", "ftp://a"],
    says: /--base-url/,
  },
  {
    what: "a base URL with a query",
    env: { BASE_URL: "http://a/?b" },
    says: /BASE_URL/,
  },
  {
    what: "a base URL with an empty query",
    env: { BASE_URL: "http://a/?" },
    says: /BASE_URL/,
  },
  {
    what: "a base URL with an empty fragment",
    env: { BASE_URL: "http://a/#" },
    says: /BASE_URL/,
  },
  {
    what: "a base URL without a scheme",
    env: { BASE_URL: "a.b" },
    says: /BASE_URL/,
  },
  { what: "an empty token", env: { ACCESS_TOKEN: "" }, says: /ACCESS_TOKEN/ },
  {
    what: "an empty token among others",
    env: { ACCESS_TOKEN: `${SECRET},,a` },
    says: /ACCESS_TOKEN/,
  },
  {
    what: "a token with a space",
    env: { ACCESS_TOKEN: `${SECRET} x` },
    says: /ACCESS_TOKEN/,
  },
  {
    what: "a token beyond ASCII",
    env: { ACCESS_TOKEN: `a,${SECRET}é` },
    says: /ACCESS_TOKEN.*token 2/,
  },
  {
    what: "a token with = in its middle",
    env: { ACCESS_TOKEN: `${SECRET}=x` },
    says: /ACCESS_TOKEN/,
  },
  {
    what: "a token and a token file",
    args: ["--token-file", "*/tokens"],
    env: { ACCESS_TOKEN: SECRET },
    says: /ACCESS_TOKEN.*--token-file/,
  },
  {
    what: "a token file that is missing",
    args: ["--token-file", "*/none"],
    says: /--token-file.*\/none/,
  },
  {
    what: "an empty token file",
    env: { ACCESS_TOKEN_FILE: "*/empty" },
    says: /ACCESS_TOKEN_FILE.*\/empty/,
  },
  {
    what: "a token file that is a directory",
    args: ["--token-file", "*/directory"],
    says: /--token-file.*\/directory: it is a directory/,
  },
  {
    what: "a token file with a line that is none",
    args: ["--token-file", "*/bad-tokens"],
    says: /--token-file.*\/bad-tokens.*token 2/,
  },
  {
    what: "a store in no directory",
    args: ["--kv", "*/no/p.db"],
    says: /\/no[:, ]/,
  },
  {
    what: "a store that is a directory",
    args: ["--kv", "*/directory"],
    says: /\/directory/,
  },
  {
    what: "a store that is a device",
    args: ["--kv", Deno.build.os === "windows" ? "*/garbage" : "/dev/null"],
    says: /is no Deno KV store/,
  },
  { what: "an empty store path", env: { KV_PATH: "" }, says: /KV_PATH/ },
  {
    what: "a store under a file",
    args: ["--kv", "*/tokens/p.db"],
    says: /\/tokens/,
  },
  {
    what: "a store of garbage",
    args: ["--kv", "*/garbage"],
    says: /\/garbage/,
  },
  {
    what: "a store that is another database",
    env: { KV_PATH: "*/other.db" },
    says: /\/other\.db/,
  },
  {
    what: "a store in memory",
    env: { DENO_KV_DB_MODE: "memory" },
    says: /DENO_KV_DB_MODE/,
  },
  {
    what: "a TLS certificate without a key",
    args: ["--tls-cert", "*/tokens"],
    says: /--tls-cert.*--tls-key/,
  },
  {
    what: "a TLS key without a certificate",
    env: { TLS_KEY: "*/tokens" },
    says: /TLS_KEY.*--tls-cert/,
  },
  {
    what: "TLS files that are missing",
    args: ["--tls-cert", "*/none", "--tls-key", "*/none"],
    says: /--tls-cert.*\/none/,
  },
  {
    what: "TLS files that are not PEM",
    args: ["--tls-cert", "*/tokens", "--tls-key", "*/tokens"],
    says: /--tls-cert.*PEM.*\/tokens/,
  },
  {
    what: "TLS files with PEM marks around nothing",
    args: ["--tls-cert", "*/cert.pem", "--tls-key", "*/key.pem"],
    says: /cert\.pem|key\.pem|--tls-cert/,
  },
  {
    what: "a TLS key with a passphrase",
    args: ["--tls-cert", "*/cert.pem", "--tls-key", "*/locked.pem"],
    says: /--tls-key: .*without a passphrase.*\/locked\.pem/,
  },
  {
    what: "a KV Connect URL without its token",
    args: ["--kv", "https://kv.test"],
    says: /DENO_KV_ACCESS_TOKEN/,
  },
  {
    what: "a KV Connect URL with a token of white space",
    args: ["--kv", "https://kv.test"],
    env: { DENO_KV_ACCESS_TOKEN: " \n" },
    says: /DENO_KV_ACCESS_TOKEN/,
  },
  {
    what: "a KV Connect URL in capitals with a line break in its token",
    args: ["--kv", "HTTPS://kv.test"],
    env: { DENO_KV_ACCESS_TOKEN: `${SECRET}\nx` },
    says: /DENO_KV_ACCESS_TOKEN/,
  },
  {
    what: "a KV Connect URL that is none",
    args: ["--kv", "http://:99999/"],
    env: { DENO_KV_ACCESS_TOKEN: SECRET },
    says: /--kv/,
  },
  {
    what: "a KV Connect server that refuses the connection",
    // Nothing gets this port by chance.
    args: ["--kv", "http://127.0.0.1:1"],
    env: { DENO_KV_ACCESS_TOKEN: SECRET },
    says: /http:\/\/127\.0\.0\.1:1\b.*DENO_KV_ACCESS_TOKEN/,
    status: 1,
  },
  {
    what: "an address of another machine",
    args: ["--host", "192.0.2.1"],
    says: /192\.0\.2\.1 .*choose another --host/,
    status: 1,
  },
];

for (const { what, args = [], env = {}, says, status = 2 } of BAD) {
  Deno.test(`a start is refused in one line for ${what}`, async () => {
    using directory = new TemporaryDirectory();
    Deno.mkdirSync(directory.file("directory"));
    Deno.writeTextFileSync(directory.file("tokens"), `${SECRET}\n`);
    Deno.writeTextFileSync(directory.file("bad-tokens"), `a\n${SECRET} b\n`);
    Deno.writeTextFileSync(directory.file("empty"), "\n \n");
    Deno.writeTextFileSync(directory.file("garbage"), "garbage ".repeat(1000));
    for (
      const [file, kind] of [
        ["cert", "CERTIFICATE"],
        ["key", "PRIVATE KEY"],
        ["locked", "ENCRYPTED PRIVATE KEY"],
      ]
    ) {
      const text = `-----BEGIN ${kind}-----\nAAAA\n-----END ${kind}-----\n`;
      Deno.writeTextFileSync(directory.file(`${file}.pem`), text);
    }
    const other = new DatabaseSync(directory.file("other.db"));
    other.exec("CREATE TABLE plants (id INTEGER)");
    other.close();

    const placed = (text: string) => text.replace("*", directory.path);
    const options: ProgramOptions = {
      cwd: directory.path,
      env: Object.fromEntries(
        // Another program may have the port of the default.
        Object.entries({ PORT: "0", ...env })
          .map(([name, value]) => [name, placed(value)]),
      ),
    };
    const ended = await runProgram(args.map(placed), options);
    assertOneLine(ended, status, says);
    const { size } = Deno.statSync(directory.file("garbage"));
    assert.equal(size, 8000, "the file is as it was");
  });
}

Deno.test({
  name: "a start is refused in one line where the directory takes no files",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const ended = await runProgram(["--port", "0", "--kv", "/proc/plants.db"]);
    assertOneLine(ended, 2, /\/proc/);
  },
});

Deno.test("a start is refused in one line where the port is taken", async () => {
  using directory = new TemporaryDirectory();
  using listener = silence();
  const { port } = listener.addr;
  const args = ["--port", `${port}`, "--kv", directory.file("plants.db")];
  assertOneLine(await runProgram(args), 1, new RegExp(`port ${port}`));
});

Deno.test("a store with plants that only a newer Deno reads is refused, with what to do", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  {
    await using program = await Program.start(["--kv", path]);
    assert.equal(await statusOf(program, BODY), 200);
    await program.stop();
  }
  const database = new DatabaseSync(path);
  // V8 refuses a value with a version above its own.
  database.exec("UPDATE kv SET v = CAST(x'FF7F' || substr(v, 3) AS BLOB)");
  database.close();
  for (const command of ["serve", "export"]) {
    const ended = await runProgram([command, "--port", "0", "--kv", path]);
    assertOneLine(ended, 2, /a newer Deno .*plants.* export .* import /);
  }
});

Deno.test("a start that finds its port taken leaves a store that is closed", async () => {
  using directory = new TemporaryDirectory();
  using listener = silence();
  const { port } = listener.addr;
  await runProgram(["--port", `${port}`, "--kv", directory.file("plants.db")]);
  const names = [...Deno.readDirSync(directory.path)].map(({ name }) => name);
  assert.deepEqual(names, ["plants.db"]);
});

Deno.test("the banner names what DENO_SERVE_ADDRESS made it bind", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(
    ["--host", "192.0.2.1", "--kv", directory.file("p.db")],
    { env: { DENO_SERVE_ADDRESS: "tcp:127.0.0.1:0" } },
  );
  assert.match(program.origin, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(await statusOf(program, BODY), 200);
});

Deno.test("the tokens of a file are accepted, with any line ends", async () => {
  using directory = new TemporaryDirectory();
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, "first\r\n\r\n  second \n\n");
  await using program = await Program.start(["--kv", directory.file("p.db")], {
    env: { ACCESS_TOKEN_FILE: tokens },
  });
  assert.equal(await statusOf(program, BODY, "first"), 200);
  assert.equal(await statusOf(program, BODY, "second"), 200);
  assert.equal(await statusOf(program, BODY, TOKEN), 401);
});

Deno.test("the path of the base URL is the prefix of the operation", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(
    ["--kv", directory.file("p.db"), "--base-url", "https://plants.test/api/v1/"],
  );
  await program.printed(/curl -i https:\/\/plants\.test\/api\/v1\/plants /);
  const line = "POST /api/v1/plants HTTP/1.1";
  const reply = await exchange(program.port, request(BODY, { line }));
  assert.equal(reply?.status, 200, reply?.text);
  assert.equal(await statusOf(program, BODY), 404);
});

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  Deno.test({
    name: `${signal} lets a running create finish and waits for no idle client`,
    ignore: Deno.build.os === "windows",
    async fn() {
      using directory = new TemporaryDirectory();
      const file = directory.file("plants.db");
      await using program = await Program.start(["--kv", file]);
      const { port } = program;
      using silent = await Wire.connect(port);
      using headless = await Wire.connect(port);
      await headless.send(HALF_BODY.subarray(0, 30));
      using idle = await Wire.connect(port);
      await idle.send(request('{"id":1,"name":"idle"}'));
      assert.equal((await idle.reply())?.status, 200);
      using running = await Wire.connect(port);
      {
        using _lock = new StoreLock(file);
        await running.send(request(BODY));
        // A reply that was asked for later says that the create has come in.
        for (let i = 0; i < 3; i++) await exchange(port, request("[]"));
        program.process.kill(signal);
        await program.printed(/: answering/);
        assert.equal(await idle.rest(), "");
        assert.equal(await silent.rest(), "");
        await refusal(port);
      }
      const reply = await running.reply();
      assert.equal(reply?.status, 200, reply?.text);
      const { status, stderr } = await program.ended();
      assert.equal(status, 0, stderr);
      assert.doesNotMatch(stderr, STACK);
      assert.ok(await isStored(file));
    },
  });
}

/** Stops a program while a body arrives, whose client leaves or stays. */
async function stopInMidBody(
  sends: Uint8Array,
  clientLeaves: boolean,
): Promise<void> {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  {
    using wire = await Wire.connect(program.port);
    await wire.send(sends);
    for (let i = 0; i < 3; i++) await exchange(program.port, request("[]"));
    program.process.kill("SIGTERM");
    const reply = await wire.reply();
    assert.equal(reply?.status, 503, reply?.text);
    assert.equal(JSON.parse(reply.text).error, 50301);
    assert.match(reply.headers.get("retry-after") ?? "", /^\d+$/);
    if (!clientLeaves) {
      const { status, stderr } = await program.ended();
      assert.equal(status, 0, stderr);
    }
  }
  const { status, stderr } = await program.ended();
  assert.equal(status, 0, stderr);
  assert.equal(await isStored(file), false);
}

for (
  const [what, sends] of [
    ["with a length", HALF_BODY],
    ["in chunks", HALF_CHUNKS],
  ] as const
) {
  Deno.test({
    name: `a body ${what} that arrives during a stop is refused with 50301`,
    ignore: Deno.build.os === "windows",
    fn: () => stopInMidBody(sends, true),
  });

  Deno.test({
    name: `a stop does not wait for a body ${what} that never ends`,
    ignore: Deno.build.os === "windows",
    fn: () => stopInMidBody(sends, false),
  });
}

Deno.test({
  name: "the same signal twice in a moment is one stop",
  ignore: Deno.build.os === "windows",
  async fn() {
    using directory = new TemporaryDirectory();
    await using program = await Program.start(["--kv", directory.file("p.db")]);
    program.process.kill("SIGINT");
    program.process.kill("SIGTERM");
    const { status, stderr } = await program.stop("SIGINT");
    assert.equal(status, 0, stderr);
    assert.equal(stderr.match(/stopping,|: answering/g)?.length, 1, stderr);
  },
});

Deno.test({
  name: "a later signal ends a stop that still waits, with a failure",
  ignore: Deno.build.os === "windows",
  async fn() {
    using directory = new TemporaryDirectory();
    const file = directory.file("plants.db");
    await using program = await Program.start(["--kv", file]);
    using running = await Wire.connect(program.port);
    using _lock = new StoreLock(file);
    await running.send(request(BODY));
    for (let i = 0; i < 3; i++) await exchange(program.port, request("[]"));
    program.process.kill("SIGTERM");
    await program.printed(/stopping|answering what runs/);
    // Signals near the first one count as the same, so it takes some of them.
    const again = setInterval(() => program.process.kill("SIGTERM"), 100);
    const { status, stderr } = await program.ended().finally(() =>
      clearInterval(again)
    );
    assert.equal(status, 1, stderr);
    assert.doesNotMatch(stderr, STACK);
    assert.equal(await running.reply(), undefined);
  },
});

Deno.test({
  name: "a signal ends a start that waits for a KV Connect server",
  ignore: Deno.build.os === "windows",
  async fn() {
    using listener = silence();
    await using program = spawnOnto(listener);
    using _connection = await listener.accept();
    const { status, stderr } = await program.stop("SIGTERM");
    assert.equal(status, 0, stderr);
    assert.equal(stderr, "");
  },
});
