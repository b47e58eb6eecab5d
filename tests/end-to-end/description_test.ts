import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { AcceptedTokens } from "../../src/http/auth.ts";
import { BodyReader } from "../../src/http/body.ts";
import { Committer } from "../../src/store/committer.ts";
import { ERROR } from "../../src/errors.ts";
import { makeHandler, type Service } from "../../src/http/handler.ts";
import {
  BODY_BYTES_MAX,
  CREATES_WAITING_MAX,
  JSON_DEPTH_MAX,
} from "../../src/limits.ts";
import { Log, type LogFormat } from "../../src/telemetry/log.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import {
  type Description,
  ERROR_REPLIES,
  type Json,
} from "../../src/reference/openapi.ts";
import { faults } from "../support/schema.ts";
import {
  Program,
  runProgram,
  StoreLock,
  TemporaryDirectory,
  TOKEN,
} from "../support/program.ts";
import { chunked, exchange, type Reply, request, Wire } from "../support/wire.ts";

/** The example that documents a reply, and a request that gets it at once. */
const SENT: readonly (readonly [string | number, Uint8Array])[] = [
  ["tagged", request('{"id":1,"name":"Monstera","tag":"climber"}')],
  ["untagged", request('{"id":2,"name":"Ficus lyrata"}')],
  [ERROR.NOT_UTF8, request(new Uint8Array([0x22, 0xff, 0x22]))],
  [ERROR.NOT_JSON, request('{"id":1,"name":}')],
  [ERROR.NOT_A_NEW_PLANT, request('{"id":"1","name":"Pilea"}')],
  [ERROR.NO_TOKEN, request("{}", { without: ["authorization"] })],
  [
    ERROR.TOKEN_NOT_ACCEPTED,
    request("{}", {
      headers: ["authorization: Bearer another"],
    }),
  ],
  [ERROR.ID_TAKEN, request('{"id":1,"name":"Pilea"}')],
  [ERROR.BODY_TOO_LARGE, request(" ".repeat(BODY_BYTES_MAX + 1))],
  [
    ERROR.CONTENT_TYPE_NOT_JSON,
    request("{}", {
      headers: ["content-type: text/plain"],
    }),
  ],
];

/** What else a client may send to the operation. */
const ODD: readonly Uint8Array[] = [
  ...["", " ", "null", "[]", '"', "{", "{}", "{}{}", "\ufeff{}", "\0"],
  ...['{"id":1}', '{"name":""}', '{"id":1,"id":1,"name":""}'],
  ...['{"id":1.5,"name":""}', '{"id":1e999999999,"name":""}'],
  ...['{"id":9223372036854775808,"name":""}', '{"id":3,"name":"\\ud800"}'],
  ...['{"id":null,"name":null,"tag":null}', '{"id":3,"name":"","tag":[]}'],
  "[".repeat(JSON_DEPTH_MAX + 1),
  '{"id":9223372036854775807,"name":"","tag":"","more":[{"id":"x"}]}',
].map((body) => request(body)).concat(
  ["Basic eDp5", "Bearer", "Bearer a b", "Bearer ä", TOKEN, "Bearer x"]
    .map((value) => request("{}", { headers: [`authorization: ${value}`] })),
  ["", "application/jsonp", "text/json", "application/json, text/plain"]
    .map((value) => request("{}", { headers: [`content-type: ${value}`] })),
  request("{}", { without: ["content-type"] }),
  request("{}", { headers: ["content-type: Application/JSON; charset=x"] }),
  request(chunked(" ".repeat(BODY_BYTES_MAX + 1), 4_096), {
    headers: ["transfer-encoding: chunked"],
  }),
  request(chunked('{"id":4,"name":"Fern"}', 1), {
    headers: ["transfer-encoding: chunked"],
  }),
  request("", { headers: ["content-length: 99999999999"] }),
);

/** A reply, and the example that is said to document it. */
type Given = readonly [example: string, reply: Reply | undefined];

/** Replies that tell apart what the service refuses for many reasons. */
async function givenAtOnce({ port }: Program): Promise<Given[]> {
  const given: Given[] = [];
  // One after the other: the id that is taken has to be there before.
  for (const [example, bytes] of SENT) {
    given.push([String(example), await exchange(port, bytes)]);
  }
  return given;
}

/** The reply to a body that does not end, in as long as a body may take. */
async function givenUp({ port }: Program): Promise<Given> {
  const half = request("{", { headers: ["content-length: 100"] });
  return [String(ERROR.BODY_TIMED_OUT), await exchange(port, half)];
}

/** The reply while another process holds the store, and the one at a stop. */
async function givenInDistress(): Promise<Given[]> {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await using program = await Program.start(["--kv", path]);
  const lock = new StoreLock(path);
  const failed = await exchange(
    program.port,
    request('{"id":1,"name":"Fern"}'),
  );
  lock[Symbol.dispose]();
  return [
    [String(ERROR.STORE_FAILED), failed],
    [String(ERROR.SHUTTING_DOWN), await givenAtStop(program)],
  ];
}

/** The reply to a request whose body still arrives when the service stops. */
async function givenAtStop(program: Program): Promise<Reply> {
  using connection = await Deno.connect({
    hostname: "127.0.0.1",
    port: program.port,
  });
  const headers = ["content-length: 100", "expect: 100-continue"];
  await connection.write(request("", { headers }));
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(4_096);
  let text = "";
  while (!text.endsWith("}")) {
    const length = await connection.read(buffer);
    assert.ok(length !== null, `no reply: ${text}`);
    text += decoder.decode(buffer.subarray(0, length));
    // It waits for the body now.
    if (text.endsWith("100 Continue\r\n\r\n")) program.process.kill("SIGTERM");
  }
  const [, head = "", body = ""] = text.split("\r\n\r\n");
  const [line = "", ...lines] = head.split("\r\n");
  return {
    status: Number(line.split(" ")[1]),
    headers: new Headers(lines.map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    })),
    text: body,
  };
}

/** A service in this process, without a listener. */
function serviceWith(committer: Committer, format: LogFormat): Service {
  return {
    tokens: new AcceptedTokens([TOKEN]),
    bodies: new BodyReader(),
    committer,
    store: { isReady: () => Promise.resolve(true) },
    log: new Log(format),
    metrics: new Metrics(),
    baseUrl: "http://plants.test",
    running: 0,
    isDraining: false,
  };
}

/** A create as the runtime would hand it to the service. */
function createOf(id: number): Request {
  const body = `{"id":${id},"name":"Fern"}`;
  return new Request("http://plants.test/plants", {
    method: "POST",
    headers: {
      "authorization": `Bearer ${TOKEN}`,
      "content-type": "application/json",
      "content-length": String(body.length),
    },
    body,
  });
}

async function toReply(response: Response): Promise<Reply> {
  const { status, headers } = response;
  return { status, headers, text: await response.text() };
}

/** The first reply to one create more than may wait, all of which wait. */
async function givenWhenFull(): Promise<Given> {
  const committer = new Committer({
    commitPlantsMax: 100,
    commitsInFlightMax: 2,
    commit: () => new Promise(() => {}),
    read: () => new Promise(() => {}),
    look: () => undefined,
  }, () => {});
  const handle = makeHandler(serviceWith(committer, "text"));
  const creates = Array.from(
    { length: CREATES_WAITING_MAX + 1 },
    (_, id) => handle(createOf(id)),
  );
  const reply = await toReply(await Promise.race(creates));
  assert.equal(committer.waiting, CREATES_WAITING_MAX);
  return [String(ERROR.QUEUE_FULL), reply];
}

/** What a fault tells, that no client is to learn. */
const FAULT = "the fault of this test";

class FaultyCommitter extends Committer {
  constructor() {
    super({
      commitPlantsMax: 1,
      commitsInFlightMax: 1,
      commit: () => Promise.reject(new Error(FAULT)),
      read: () => Promise.reject(new Error(FAULT)),
      look: () => undefined,
    }, () => {});
  }

  override create(): Promise<never> {
    return Promise.reject(new Error(FAULT));
  }
}

/** The reply of a service with a fault, and what it logs. */
async function faultOf(
  format: LogFormat,
): Promise<{ reply: Reply; logged: string[]; metrics: Metrics }> {
  const service = serviceWith(new FaultyCommitter(), format);
  const logged: string[] = [];
  const { error } = console;
  console.error = (line: string) => logged.push(line);
  try {
    const response = await makeHandler(service)(createOf(1));
    const { metrics } = service;
    return { reply: await toReply(response), logged, metrics };
  } finally {
    console.error = error;
  }
}

async function givenOfFault(): Promise<Given> {
  const { reply } = await faultOf("text");
  return [String(ERROR.FAULT), reply];
}

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** A body with the one part that differs from time to time made the same. */
function withoutId(body: Json): unknown {
  return JSON.parse(JSON.stringify(body).replace(UUID, "*"));
}

/** The description as a running service gives it. */
async function readDescription({ origin }: Program): Promise<Description> {
  const response = await fetch(`${origin}/openapi.json`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/json");
  return await response.json();
}

/** Headers that a reply has only where they are documented. */
const TELLING = ["allow", "retry-after", "www-authenticate"];

/** Asserts that a reply is the one that an example documents. */
function assertDocumented(
  api: Description,
  [example, { status, headers, text }]: readonly [string, Reply],
): void {
  const documented = api.paths["/plants"].post.responses[status];
  assert.ok(documented !== undefined, `status ${status} for ${example}`);
  const { schema, examples } = documented.content["application/json"];
  const expected = examples[example];
  assert.ok(expected !== undefined, `${status} has no example ${example}`);

  assert.equal(headers.get("content-type"), "application/json", example);
  const body = JSON.parse(text);
  assert.deepEqual(faults(body, schema, api), [], example);
  assert.deepEqual(withoutId(body), withoutId(expected.value));

  const documentedHeaders = Object.entries(documented.headers ?? {});
  for (const [name, { required, examples = {} }] of documentedHeaders) {
    if (!required && !headers.has(name)) continue;
    const { value } = examples[example] ?? Object.values(examples)[0] ?? {};
    // Where the runtime and the service both say it, it is there twice.
    const said = new Set(headers.get(name)?.split(", "));
    assert.equal([...said].join(", "), String(value), `${example}: ${name}`);
  }
  const names = documentedHeaders.map(([name]) => name.toLowerCase());
  for (const name of TELLING) {
    assert.equal(
      headers.has(name),
      names.includes(name),
      `${example}: ${name}`,
    );
  }
}

Deno.test("every reply that the operation documents is really given, as it is documented", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const api = await readDescription(program);
  const given = (await Promise.all([
    givenAtOnce(program),
    givenUp(program).then((given) => [given]),
    givenInDistress(),
    givenWhenFull().then((given) => [given]),
    givenOfFault().then((given) => [given]),
  ])).flat();
  for (const [example, reply] of given) {
    assert.ok(reply !== undefined, `${example}: no reply`);
    assertDocumented(api, [example, reply]);
  }
  const documented = Object.values(api.paths["/plants"].post.responses)
    .flatMap(({ content }) =>
      Object.keys(content["application/json"].examples)
    );
  assert.deepEqual(
    given.map(([example]) => example).toSorted(),
    documented.toSorted(),
  );
});

Deno.test("whatever is sent to the operation, its reply is in the description", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const api = await readDescription(program);
  const { responses } = api.paths["/plants"].post;
  const numbers = new Set<string>();
  for (const bytes of ODD) {
    const reply = await exchange(program.port, bytes);
    const sent = new TextDecoder().decode(bytes).slice(0, 300);
    assert.ok(reply !== undefined, sent);
    const documented = responses[reply.status];
    assert.ok(documented !== undefined, `${reply.status} for ${sent}`);
    const { schema, examples } = documented.content["application/json"];
    const body = JSON.parse(reply.text);
    assert.deepEqual(faults(body, schema, api), [], sent);
    if (reply.status === 200) {
      assert.ok(!("id" in body), sent);
      continue;
    }
    assert.ok(String(body.error) in examples, `${body.error} for ${sent}`);
    numbers.add(String(body.error));
    const required = Object.entries(documented.headers ?? {})
      .filter(([, { required }]) => required);
    for (const [name] of required) assert.ok(reply.headers.has(name), sent);
  }
  assert.deepEqual([...numbers].map(Number).toSorted(), [
    ERROR.NOT_JSON,
    ERROR.NOT_A_NEW_PLANT,
    ERROR.NO_TOKEN,
    ERROR.TOKEN_NOT_ACCEPTED,
    ERROR.BODY_TOO_LARGE,
    ERROR.CONTENT_TYPE_NOT_JSON,
  ]);
});

Deno.test("each request that the description shows is answered 200 with its plant", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const response = await fetch(`${program.origin}/openapi.json`);
  const text = await response.text();
  const api: Description = JSON.parse(text);
  const { examples } =
    api.paths["/plants"].post.requestBody.content["application/json"];
  // By their text: a number of JSON.parse() would not be the same id.
  const bodies = text.matchAll(/"value": (\{\s+"id": [^}]*\})/g)
    .map(([, body = ""]) => body).toArray();
  assert.deepEqual(
    bodies.map((body) => JSON.parse(body)),
    Object.values(examples).map(({ value }) => value),
  );
  for (const body of bodies) {
    const { id: _, ...plant } = JSON.parse(body);
    const response = await program.create(body);
    assert.deepEqual([response.status, await response.json()], [200, plant]);
  }
  const { stdout } = await runProgram(["export", "--kv", directory.file("p.db")]);
  const ids = stdout.matchAll(/^\{"id":(\d+),/gm).map(([, id]) => id);
  assert.deepEqual([...ids], ["1", "2", "9007199254740993"]);
});

Deno.test("another path is 404 and another method 405, as the text of the description says", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const api = await readDescription(program);
  for (
    const [line, { error, message }] of [
      ["POST /plant HTTP/1.1", ERROR_REPLIES.NO_SUCH_PATH],
      ["GET /plants HTTP/1.1", ERROR_REPLIES.METHOD_NOT_ALLOWED],
    ] as const
  ) {
    const reply = await exchange(program.port, request("{}", { line }));
    const status = Math.trunc(error / 100);
    assert.equal(reply?.status, status);
    assert.deepEqual(JSON.parse(reply.text), { error, message });
    const schema = api.components.schemas.Error;
    assert.deepEqual(faults(JSON.parse(reply.text), schema, api), []);
    const told = `Status ${status}, error ${error}: `;
    assert.ok(api.info.description.includes(told), told);
    assert.equal(reply.headers.get("allow"), status === 405 ? "POST" : null);
  }
});

Deno.test("more headers than the limits of the description allow get a refusal without an Error body", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const { info } = await readDescription(program);
  assert.match(
    info.description,
    /64 KiB and 100 headers, .*; else there may be a bare 400 or 431/,
  );
  const many = Array.from({ length: 128 }, (_, i) => `x-${i}: 1`);
  const body = '{"id":5,"name":"Fern"}';
  // The runtime refuses them, with 400 or 431 by its version.
  const refused = await exchange(
    program.port,
    request(body, { headers: many }),
  );
  assert.ok(refused?.status === 400 || refused?.status === 431);
  assert.equal(refused.text, "");
  // As many as every version takes, the four of every request included.
  const allowed = request(body, { headers: many.slice(0, 96) });
  assert.equal((await exchange(program.port, allowed))?.status, 200);
});

Deno.test("a fault is logged with its stack and an id, and answered with the id alone", async () => {
  for (const format of ["text", "json"] as const) {
    const { reply, logged, metrics } = await faultOf(format);
    assert.equal(reply.status, 500);
    const [id = "no id"] = UUID.exec(reply.text) ?? [];
    assert.deepEqual(JSON.parse(reply.text), {
      error: ERROR.FAULT,
      message: `a fault of the service, logged as ${id}`,
    });
    const told = JSON.stringify([reply.text, ...reply.headers]);
    assert.ok(!told.includes(FAULT) && !told.includes(".ts"), told);

    const counted = metrics.text({ creates: 0, isStoreWell: true });
    assert.match(counted, /_requests_total\{code="500"\} 1\n/);

    assert.equal(logged.length, 1);
    const [line = ""] = logged;
    const { level, event, stack } = format === "json"
      ? JSON.parse(line)
      : { level: "error", event: "fault", stack: line };
    assert.deepEqual([level, event], ["error", "fault"]);
    assert.ok(line.includes(id), line);
    assert.match(stack, new RegExp(`${FAULT}\\n +at .*description_test\\.ts`));
  }
});

Deno.test("/openapi.json is what the command openapi writes, byte for byte, after every start", async () => {
  using directory = new TemporaryDirectory();
  const args = ["--kv", directory.file("p.db")];
  const env = { BASE_URL: "https://plants.example/api/" };
  const { stdout } = await runProgram(["openapi"], { env });
  for (let start = 0; start < 2; start++) {
    await using program = await Program.start(args, { env });
    const response = await fetch(`${program.origin}/api/openapi.json`);
    assert.equal(await response.text(), stdout);
    assert.equal((await program.stop()).status, 0);
  }
  // Without a public address, the one that is listened on.
  await using program = await Program.start(args);
  const response = await fetch(`${program.origin}/openapi.json`);
  const written = await runProgram(["openapi", "--port", `${program.port}`]);
  assert.equal(await response.text(), written.stdout);
  assert.notEqual(written.stdout, stdout);
});

Deno.test("HEAD gets the status and the headers of GET and no body, wherever GET works", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const paths = ["/", "/openapi.json", "/livez", "/readyz", "/metrics"];
  for (const path of [...paths, "/metrics without a token", "/none"]) {
    const [target, ...without] = path.split(" ");
    const [get, head] = await Promise.all(
      ["GET", "HEAD"].map(async (method) => {
        const bytes = request("", {
          line: `${method} ${target} HTTP/1.1`,
          without: ["content-length", "content-type"].concat(
            without.length > 0 ? ["authorization"] : [],
          ),
        });
        const isToHead = method === "HEAD";
        using wire = await Wire.connect(program.port);
        await wire.send(bytes);
        const reply = await wire.reply({ isToHead });
        assert.ok(reply !== undefined, `${method} ${path}`);
        await wire.closeWrite();
        assert.equal(await wire.rest(), "", `${method} ${path}: a body`);
        const { status, headers, text } = reply;
        // These count the requests, and the second goes on.
        headers.delete("date");
        if (path === "/metrics") headers.delete("content-length");
        return { status, headers: Object.fromEntries(headers), text };
      }),
    );
    assert.deepEqual({ ...head, text: "" }, { ...get, text: "" }, path);
    assert.ok(head?.text === "" && get?.text !== "", path);
    const status = without.length > 0 ? 401 : path === "/none" ? 404 : 200;
    assert.equal(get?.status, status, path);
  }
});

Deno.test("the page comes with a policy that lets its own code run and nothing else", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const response = await fetch(`${program.origin}/`);
  const html = await response.text();
  assert.equal(
    response.headers.get("content-type"),
    "text/html; charset=utf-8",
  );
  const policy = new Map(
    response.headers.get("content-security-policy")?.split("; ")
      .map((directive): [string, string] => {
        const [name = "", ...values] = directive.split(" ");
        return [name, values.join(" ")];
      }),
  );
  assert.equal(policy.get("default-src"), "'none'");
  assert.equal(policy.get("connect-src"), "'self'");
  for (const element of ["script", "style"]) {
    const hashes = html
      .matchAll(new RegExp(`<${element}[^>]*>([^]*?)</${element}>`, "g"))
      .map(([, code = ""]) => createHash("sha256").update(code))
      .map((hash) => `'sha256-${hash.digest("base64")}'`).toArray();
    assert.equal(hashes.length, 1);
    assert.equal(policy.get(`${element}-src`), hashes.join(" "));
  }
});
