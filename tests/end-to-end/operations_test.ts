import assert from "node:assert/strict";
import { ERROR } from "../../src/errors.ts";
import { METRICS_CONTENT_TYPE } from "../../src/telemetry/metrics.ts";
import { occurrences } from "../support/load.ts";
import {
  has,
  Program,
  type ProgramOptions,
  runProgram,
  StoreLock,
  TemporaryDirectory,
  TOKEN,
} from "../support/program.ts";

const PROMTOOL = Deno.env.get("PROMTOOL") ?? "";

const PLANT = '{"id":1,"name":"Monstera"}';

/** What no line for a user may hold. */
const STACK = /^\s*at |Uncaught|panicked|Stack backtrace/m;

const isWindows = Deno.build.os === "windows";

/** What a command printed on stdout and stderr; throws where it failed. */
async function run(
  command: string,
  args: readonly string[],
  input?: string,
): Promise<string> {
  const child = new Deno.Command(command, {
    args: [...args],
    stdin: input === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const output = child.output();
  if (input !== undefined) {
    await new Response(input).body?.pipeTo(child.stdin);
  }
  const { success, stdout, stderr } = await output;
  const decoder = new TextDecoder();
  const text = decoder.decode(stdout) + decoder.decode(stderr);
  assert.ok(success, `${command} ${args.join(" ")}: ${text}`);
  return text;
}

const HAS_OPENSSL = await has("openssl", "version");
const HAS_CURL = await has("curl", "--version");

/** GET with a token, unless it is empty. */
function get(url: string, token: string = TOKEN): Promise<Response> {
  return fetch(url, {
    ...(token !== "" && { headers: { "authorization": `Bearer ${token}` } }),
  });
}

/** What /metrics gives for a series. */
async function metricsOf({ origin }: Program): Promise<Map<string, number>> {
  const response = await get(`${origin}/metrics`);
  assert.equal(response.status, 200);
  const lines = (await response.text()).trimEnd().split("\n");
  return new Map(
    lines.filter((line) => !line.startsWith("#")).map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}

Deno.test("/livez and /readyz say ok without a token", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  for (const path of ["/livez", "/readyz"]) {
    const response = await get(program.origin + path, "");
    assert.equal(response.status, 200, path);
    assert.equal(response.headers.get("content-type"), "application/json");
    assert.equal(await response.text(), '{"status":"ok"}');
  }
});

Deno.test("a service whose store is gone lives and is not ready, and the health check says so", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  Deno.removeSync(file);
  const ready = await get(`${program.origin}/readyz`, "");
  assert.equal(ready.status, 503);
  assert.match(ready.headers.get("retry-after") ?? "", /^\d+$/);
  assert.equal((await ready.json()).error, ERROR.STORE_FAILED);
  const live = await get(`${program.origin}/livez`, "");
  assert.deepEqual([live.status, await live.text()], [200, '{"status":"ok"}']);

  const args = ["healthcheck", "--port", `${program.port}`];
  const { status, stderr } = await runProgram(args);
  assert.equal(status, 1);
  assert.match(stderr, /^plant-store: not ready: [^\n]* with 503\n$/);
});

Deno.test("/metrics is for those with a token, and text that Prometheus reads", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const url = `${program.origin}/metrics`;
  for (
    const [token, error] of [
      ["", ERROR.NO_TOKEN],
      ["another", ERROR.TOKEN_NOT_ACCEPTED],
    ] as const
  ) {
    const refused = await get(url, token);
    assert.equal(refused.status, 401);
    assert.match(refused.headers.get("www-authenticate") ?? "", /^Bearer /);
    assert.equal((await refused.json()).error, error);
  }
  const response = await get(url);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), METRICS_CONTENT_TYPE);
  assert.match(METRICS_CONTENT_TYPE, /^text\/plain; version=0\.0\.4(;|$)/);
  assert.match(await response.text(), /^# HELP /);
});

Deno.test("/metrics counts what was stored, replayed, in conflict and refused, and nothing else", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const before = await metricsOf(program);
  const sent: readonly [string, number, string?][] = [
    ['{"id":1,"name":"Monstera"}', 200],
    ['{"id":2,"name":"Pilea"}', 200],
    ['{"id":1,"name":"Monstera"}', 200],
    ['{"id":1,"name":"Monstera"}', 200],
    ['{"id":1,"name":"Monstera"}', 200],
    ['{"id":2,"name":"Monstera"}', 409],
    ['{"id":2}', 400],
    ['{"id":', 400],
    ['{"id":3,"name":""}', 401, "another"],
  ];
  for (const [body, status, token] of sent) {
    const response = await program.create(body, token);
    assert.equal(response.status, status, body);
    await response.body?.cancel();
  }
  const elsewhere = await get(`${program.origin}/nowhere`);
  assert.equal(elsewhere.status, 404);
  await elsewhere.body?.cancel();

  const after = await metricsOf(program);
  assert.deepEqual([...before.keys()], [...after.keys()]);
  const moved = Object.fromEntries(
    after.entries()
      .map(([name, value]): [string, number] => [
        name,
        value - (before.get(name) ?? 0),
      ])
      .filter(([name, difference]) =>
        difference !== 0 && /(total|count|waiting|up)\b/.test(name)
      ),
  );
  assert.deepEqual(moved, {
    // The first look at the metrics is one of those.
    'plant_store_http_requests_total{code="200"}': 6,
    'plant_store_http_requests_total{code="400"}': 2,
    'plant_store_http_requests_total{code="401"}': 1,
    'plant_store_http_requests_total{code="404"}': 1,
    'plant_store_http_requests_total{code="409"}': 1,
    "plant_store_http_request_duration_seconds_count": 11,
    'plant_store_creates_total{outcome="stored"}': 2,
    'plant_store_creates_total{outcome="replayed"}': 3,
    'plant_store_creates_total{outcome="conflict"}': 1,
    "plant_store_commits_total": 2,
    "plant_store_commit_plants_count": 2,
    "plant_store_commit_duration_seconds_count": 2,
  });
  assert.equal(after.get("plant_store_commit_plants_sum"), 2);
  assert.equal(after.get("plant_store_up"), 1);
});

Deno.test({
  name: "promtool finds nothing to say about the /metrics of a service at work",
  ignore: PROMTOOL === "",
  fn: async () => {
    using directory = new TemporaryDirectory();
    await using program = await Program.start(["--kv", directory.file("p.db")]);
    for (const body of [PLANT, PLANT, '{"id":1,"name":""}', "{}"]) {
      await (await program.create(body)).body?.cancel();
    }
    const response = await get(`${program.origin}/metrics`);
    const text = await response.text();
    assert.equal(await run(PROMTOOL, ["check", "metrics"], text), "");
    await assert.rejects(run(PROMTOOL, ["check", "metrics"], `${text}x x\n`));
  },
});

/** Writes tokens as a secret store does: whole, under another name first. */
function replaceTokens(file: string, text: string): void {
  Deno.writeTextFileSync(`${file}.new`, text);
  Deno.renameSync(`${file}.new`, file);
}

/** Whether a token is accepted, by a request that changes nothing. */
async function isAccepted(program: Program, token: string): Promise<boolean> {
  const response = await program.create("{}", token);
  const { error } = await response.json();
  assert.ok(
    error === ERROR.NOT_A_NEW_PLANT || error === ERROR.TOKEN_NOT_ACCEPTED,
  );
  return error === ERROR.NOT_A_NEW_PLANT;
}

/** Makes the service read its tokens and gives the line that it logs. */
async function reload(program: Program): Promise<string> {
  const { length } = program.stderr;
  program.process.kill("SIGHUP");
  // Only what comes from now on, to the end of its line.
  const [line = ""] = await program.printed(
    new RegExp(`(?<=^[^]{${length}})[^\\n]*\\n`),
  );
  return line;
}

Deno.test({
  name: "SIGHUP puts the tokens of the file in the place of the old ones",
  ignore: isWindows,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const tokens = directory.file("tokens");
    Deno.writeTextFileSync(tokens, "first-token\n");
    await using program = await Program.start(
      ["--kv", directory.file("p.db"), "--token-file", tokens],
      { ownToken: true },
    );
    await program.printed(/Read about[^\n]*\n\n/);
    assert.equal(await isAccepted(program, "first-token"), true);

    replaceTokens(tokens, "first-token\nsecond-token\n");
    assert.equal(await isAccepted(program, "second-token"), false);
    assert.match(await reload(program), /info: .*\/tokens.*\n$/);
    assert.equal(await isAccepted(program, "first-token"), true);
    assert.equal(await isAccepted(program, "second-token"), true);

    replaceTokens(tokens, "second-token\n");
    assert.equal(await isAccepted(program, "first-token"), true);
    await reload(program);
    assert.equal(await isAccepted(program, "second-token"), true);
    const refused = await program.create(PLANT, "first-token");
    assert.equal(refused.status, 401);
    assert.equal((await refused.json()).error, ERROR.TOKEN_NOT_ACCEPTED);
    const taken = await program.create(PLANT, "second-token");
    assert.equal(taken.status, 200);
    await taken.body?.cancel();
    assert.doesNotMatch(program.stderr, /(first|second)-token/);
  },
});

Deno.test({
  name: "a token file that has become bad keeps the old tokens and is one line",
  ignore: isWindows,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const tokens = directory.file("tokens");
    Deno.writeTextFileSync(tokens, "first-token\n");
    await using program = await Program.start(["--kv", directory.file("p.db")], {
      env: { ACCESS_TOKEN_FILE: tokens },
    });
    await program.printed(/Read about[^\n]*\n\n/);
    const start = program.stderr.length;
    const bad = ["", "\n \n", "second-token\nthird token\n", "té\n", undefined];
    for (const text of bad) {
      if (text === undefined) Deno.removeSync(tokens);
      else replaceTokens(tokens, text);
      const line = await reload(program);
      assert.match(line, /error: the tokens stay as they were: .*\/tokens/);
      assert.doesNotMatch(line, /second|third|té/);
      assert.equal(await isAccepted(program, "first-token"), true);
      assert.equal(await isAccepted(program, "second-token"), false);
    }
    Deno.mkdirSync(tokens);
    assert.match(await reload(program), /error: the tokens stay as they were/);
    assert.equal(occurrences(program.stderr.slice(start), /\n/g), 6);

    Deno.removeSync(tokens);
    replaceTokens(tokens, "second-token\n");
    assert.match(await reload(program), /info: /);
    assert.equal(await isAccepted(program, "second-token"), true);
    assert.equal(await isAccepted(program, "first-token"), false);
  },
});

Deno.test({
  name: "SIGHUP does not end a service without a token file",
  ignore: isWindows,
  fn: async () => {
    using directory = new TemporaryDirectory();
    await using program = await Program.start(["--kv", directory.file("p.db")]);
    program.process.kill("SIGHUP");
    const { status, signal, stderr } = await program.stop();
    assert.deepEqual([status, signal], [0, null]);
    assert.doesNotMatch(stderr, /token/);
  },
});

/** Makes a key and a certificate of it for 127.0.0.1, that nobody vouches for. */
async function makeCertificate(
  directory: TemporaryDirectory,
  name: string,
): Promise<{ cert: string; key: string }> {
  const cert = directory.file(`${name}.crt`);
  const key = directory.file(`${name}.key`);
  await run("openssl", [
    ...["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=plants.test"],
    ...["-addext", "subjectAltName=IP:127.0.0.1"],
    ...["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
    ...["-keyout", key, "-out", cert],
  ]);
  return { cert, key };
}

Deno.test({
  name:
    "with a certificate it serves https: HTTP/2 and HTTP/1.1, as curl has it",
  ignore: !HAS_OPENSSL || !HAS_CURL,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const { cert, key } = await makeCertificate(directory, "plants");
    await using program = Program.spawn([
      ...["--port", "0", "--kv", directory.file("p.db")],
      ...["--tls-cert", cert, "--tls-key", key],
    ]);
    await program.printed(/Read about[^\n]*\n/);
    const [, origin] = /listens on (https:\S+)/.exec(program.stderr) ?? [];
    assert.ok(origin !== undefined, program.stderr);
    program.origin = origin;
    const curl = ["-sS", "-i", "--cacert", cert];
    for (
      const [option, version] of [["--http2", "2"], ["--http1.1", "1\\.1"]]
    ) {
      const reply = await run("curl", [
        ...[...curl, `${option}`, `${program.origin}/plants`],
        ...["-H", `Authorization: Bearer ${TOKEN}`],
        ...["-H", "Content-Type: application/json", "-d", PLANT],
      ]);
      assert.match(reply, new RegExp(`^HTTP/${version} 200 `));
      assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera"}'), reply);
    }
    const refused = await run("curl", [...curl, `${program.origin}/plants`]);
    assert.match(refused, /^HTTP\/2 405 [^]*"error":40501,/);
    const described = await run("curl", [
      ...curl,
      `${program.origin}/openapi.json`,
    ]);
    assert.ok(described.includes(`"url": "${program.origin}"`));
    // Who does not know the certificate gets no further.
    await assert.rejects(run("curl", ["-sS", program.origin]), /certificate/);

    const args = ["healthcheck", "--port", `${program.port}`];
    const env = { TLS_CERT: cert, TLS_KEY: key };
    assert.equal((await runProgram(args, { env })).status, 0);
    assert.equal((await runProgram(args)).status, 1);
    assert.equal((await program.stop()).status, 0);
  },
});

Deno.test({
  name:
    "a key that does not fit its certificate is one plain line and a failure",
  ignore: !HAS_OPENSSL,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const [one, other] = await Promise.all([
      makeCertificate(directory, "one"),
      makeCertificate(directory, "other"),
    ]);
    const ended = await runProgram([
      ...["--port", "0", "--kv", directory.file("p.db")],
      ...["--tls-cert", one.cert, "--tls-key", other.key],
    ]);
    assert.ok(ended.status === 1 || ended.status === 2, `${ended.status}`);
    assert.match(ended.stderr, /^plant-store: [^\n]+\n$/);
    assert.match(ended.stderr, /key/i);
    assert.doesNotMatch(ended.stderr, STACK);
  },
});

Deno.test("under the path of BASE_URL there is everything, and nothing outside", async () => {
  using directory = new TemporaryDirectory();
  const env = { BASE_URL: "https://plants.example/api/v1" };
  await using program = await Program.start(["--kv", directory.file("p.db")], {
    env,
  });
  const paths = ["/", "/openapi.json", "/livez", "/readyz", "/metrics"];
  for (const path of paths) {
    const inside = await get(`${program.origin}/api/v1${path}`);
    assert.equal(inside.status, 200, path);
    await inside.body?.cancel();
    for (const outside of [path, `/api${path}`, `/api/v1/api/v1${path}`]) {
      const response = await get(program.origin + outside);
      assert.equal(response.status, 404, outside);
      assert.equal((await response.json()).error, ERROR.NO_SUCH_PATH);
    }
  }
  const description = await get(`${program.origin}/api/v1/openapi.json`);
  assert.deepEqual((await description.json()).servers, [{ url: env.BASE_URL }]);

  // What the page asks for is there, below the prefix.
  const page = await (await get(`${program.origin}/api/v1/`)).text();
  assert.ok(page.includes(`${env.BASE_URL}/plants`));
  const links = page.matchAll(/(?:href|src|action)="(\/[^"]*)"/g)
    .map(([, path = ""]) => path).toArray();
  assert.ok(links.length > 0);
  for (const link of links) {
    const response = await get(program.origin + link);
    assert.equal(response.status, 200, link);
    await response.body?.cancel();
  }

  const args = ["healthcheck", "--port", `${program.port}`];
  assert.equal((await runProgram(args, { env })).status, 0);
  const astray = await runProgram(args);
  assert.equal(astray.status, 1);
  assert.match(astray.stderr, /answers \/readyz with 404/);
});

/** The run of a service in which everything happens that is logged. */
async function eventfulRun(
  format: string,
): Promise<{ banner: string; lines: string[] }> {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, TOKEN);
  const options: ProgramOptions = {
    env: { ACCESS_TOKEN_FILE: tokens, LOG_FORMAT: format },
  };
  await using program = await Program.start(["--kv", file], options);
  await program.printed(format === "json" ? /\n/ : /Read about[^\n]*\n\n/);
  const banner = program.stderr;

  // Ordinary requests, whatever becomes of them.
  for (const body of [PLANT, PLANT, '{"id":1,"name":""}', "{", "{}"]) {
    await (await program.create(body)).body?.cancel();
  }
  await (await program.create(PLANT, "wrong")).body?.cancel();
  for (const path of ["/", "/nowhere", "/readyz", "/metrics", "/plants"]) {
    await (await get(program.origin + path)).body?.cancel();
  }
  assert.equal(program.stderr, banner);

  await reload(program);
  Deno.writeTextFileSync(tokens, "");
  await reload(program);

  // Another process holds the store, until creates time out.
  {
    using _lock = new StoreLock(file);
    const ids = Array.from({ length: 20 }, (_, i) => i + 10);
    const replies = await Promise.all(
      ids.map((id) => program.create({ id, name: "Fern" })),
    );
    for (const { status, body } of replies) {
      assert.equal(status, 503);
      await body?.cancel();
    }
  }
  for (let id = 30; id < 40; id++) {
    const response = await program.create({ id, name: "Fern" });
    assert.equal(response.status, 200);
    await response.body?.cancel();
  }

  const { status, stdout, stderr } = await program.stop();
  assert.equal(status, 0);
  assert.equal(stdout, "");
  assert.ok(!stderr.includes(TOKEN), stderr);
  return { banner, lines: stderr.slice(banner.length).trimEnd().split("\n") };
}

Deno.test({
  name:
    "the log has one line for each event, in text and in JSON, and none for an ordinary request",
  ignore: isWindows,
  fn: async () => {
    const [text, json] = await Promise.all(["text", "json"].map(eventfulRun));
    const expected = [
      /^\S+Z info: .*\/tokens/,
      /^\S+Z error: the tokens stay as they were: .*\/tokens/,
      /^\S+Z error: the store fails: /,
      /^\S+Z info: the store is well again$/,
      /^\S+Z info: SIGTERM: /,
      /^\S+Z info: stopped$/,
    ];
    expected.forEach((line, i) => assert.match(text?.lines[i] ?? "", line));
    assert.equal(text?.lines.length, expected.length);

    const events = [json?.banner.trimEnd() ?? "", ...json?.lines ?? []]
      .map((line) => JSON.parse(line));
    assert.deepEqual(events.map(({ level, event }) => `${level} ${event}`), [
      "info started",
      "info tokens read",
      "error tokens kept",
      "error store failing",
      "info store well",
      "info stopping",
      "info stopped",
    ]);
    for (const { time, message } of events) {
      assert.ok(!Number.isNaN(Date.parse(time)), time);
      assert.match(message, /^[^\n]+$/);
    }
  },
});
