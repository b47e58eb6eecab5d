import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { API_ERRORS, statusOf } from "../../src/api_errors.ts";
import { PAUSES_S } from "../../src/reference/api.ts";
import { curlSample, samples } from "../../src/reference/samples.ts";
import { isThere } from "../support/needs.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

/** A file for the sample of a language, and how to run it. */
const RUNNERS: Readonly<Record<string, readonly string[]>> = {
  curl: ["create.sh", "sh"],
  TypeScript: [
    ...["create.ts", Deno.execPath(), "run", "--check", "--no-config"],
    ...["--allow-net", "--allow-env"],
  ],
  Python: ["create.py", "python3"],
  Go: ["create.go", "go", "run"],
  Java: ["Create.java", "java"],
};

const MISSING = {
  curl: !isThere("curl"),
  TypeScript: false,
  Python: !isThere("python3"),
  Go: !isThere("go"),
  // It is compiled when it is run.
  Java: !isThere("javac"),
};

/**
 * The statuses after which the table of errors advises to send again, and those
 * of a proxy that got no reply.
 */
const TRANSIENT = new Set([
  ...Object.values(API_ERRORS)
    .filter(({ remedy }) => remedy.startsWith("Send the same request again"))
    .map(({ error }) => statusOf(error)),
  ...[502, 504],
]);

/** Code for a random time, and what replaces it in a test; curl has none. */
const RANDOM_TIMES: Readonly<
  Record<string, { code: string; longest: string; none: string }>
> = {
  TypeScript: { code: "Math.random()", longest: "1", none: "0" },
  Python: { code: "random.random()", longest: "1", none: "0" },
  Go: {
    code: "rand.N(pause)",
    longest: "rand.N(time.Nanosecond) + pause",
    none: "0*rand.N(pause)",
  },
  Java: { code: "Math.random()", longest: "1", none: "0" },
};

/** Seconds in the header Retry-After of a service that stops or is busy. */
const STOP_S = 2;
const BUSY_S = 1;

/** How a service answers a request. */
type Answer = (response: ServerResponse) => void;

function lose(response: ServerResponse): void {
  response.writeHead(200, { "content-length": "100" }).write("{");
  response.destroy();
}

function stop(response: ServerResponse): void {
  response.writeHead(503, { "retry-after": `${STOP_S}` }).end("{}");
}

/** Answers as a proxy may: with a date, and a text that is not UTF-8. */
function failAtProxy(response: ServerResponse): void {
  const date = new Date(Date.now() + 1000 * STOP_S).toUTCString();
  const text = new Uint8Array([0x6e, 0xf3, 0x0a]);
  response.writeHead(502, { "retry-after": date }).end(text);
}

function beBusy(response: ServerResponse): void {
  response.writeHead(503, { "retry-after": `${BUSY_S}` }).end("{}");
}

function fail(response: ServerResponse): void {
  response.writeHead(500).end('{"error":50001}');
}

function refuse(response: ServerResponse): void {
  response.writeHead(409).end('{"error":40901}');
}

function accept(response: ServerResponse): void {
  response.end('{"name":"Monstera","tag":"climber"}');
}

/** Runs a sample against a service that gives these answers, one a request. */
async function run(
  language: string,
  answers: readonly Answer[],
  randomTime: "longest" | "none",
  token = "a-token",
) {
  const requests: unknown[] = [];
  const timesMs: number[] = [];
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request;
    const { authorization, "content-type": type } = headers;
    const body = await json(request);
    // Before the reply: a late clock can only lengthen the pause after it.
    timesMs.push(performance.now());
    answers[requests.length]?.(response);
    requests.push({ method, url, authorization, type, body });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);

  using directory = new TemporaryDirectory();
  const [name = "", program = "", ...args] = RUNNERS[language] ?? [];
  const file = directory.file(name);
  const calls = samples(`http://127.0.0.1:${address.port}`);
  const { code = "", [randomTime]: fixed = "" } = RANDOM_TIMES[language] ?? {};
  const sample = calls[language] ?? "";
  assert.ok(sample.includes(code), `no ${code}`);
  Deno.writeTextFileSync(file, sample.replace(code, fixed));
  const env = { ACCESS_TOKEN: token, NO_COLOR: "1" };
  const output = await runTool(program, [...args, file], { env })
    .catch((error) => String(error));
  server.close();
  await once(server, "close");
  const pausesS = timesMs.slice(1).map((timeMs, i) =>
    (timeMs - (timesMs[i] ?? 0)) / 1000
  );
  return { output, requests, pausesS };
}

/** Asserts that each pause took at least some time. */
function assertPauses(
  pausesS: readonly number[],
  leastS: readonly number[],
): void {
  assert.equal(pausesS.length, leastS.length);
  for (const [i, seconds] of leastS.entries()) {
    // Clocks of different programs tick differently.
    assert.ok((pausesS[i] ?? 0) >= 0.95 * seconds, `${pausesS}, not ${leastS}`);
  }
}

Deno.test("samples() calls POST /plants below the base URL, and leaves no placeholder", () => {
  const calls = samples("https://plants.test/PLANT");
  assert.deepEqual(Object.keys(calls), Object.keys(RUNNERS));
  for (const call of Object.values(calls)) {
    const rest = call.replace("https://plants.test/PLANT/plants", "");
    assert.notEqual(rest, call);
    assert.doesNotMatch(rest, /PLANT/);
  }
});

Deno.test("samples() retries without a reply and after every status that can pass", () => {
  const { curl: _, ...others } = samples("https://plants.test");
  const statuses = [0, ...[...TRANSIENT].sort()].join(", ");
  for (const sample of Object.values(others)) {
    assert.ok(sample.includes(statuses), sample);
  }
});

Deno.test("curlSample() takes the token from the environment unless one is given, and quotes the base URL for the shell", () => {
  assert.match(
    curlSample("https://plants.test/a'b&c"),
    /^curl -i 'https:\/\/plants\.test\/a'\\''b&c\/plants' \\\n.*"Authorization: Bearer \$ACCESS_TOKEN"/,
  );
  const call = curlSample("https://plants.test", "a-token");
  assert.match(call, /"Authorization: Bearer a-token"/);
});

// Side by side, because the samples mostly wait.
Deno.test("the samples send the same create again", async (t) => {
  const steps = Object.entries(MISSING).map(([language, ignore]) =>
    t.step({
      name:
        `the sample in ${language} repeats a create that failed, with every pause, and no other`,
      ignore,
      sanitizeOps: false,
      sanitizeResources: false,
      sanitizeExit: false,
      fn: async () => {
        const [stored, refused, dated, failed] = await Promise.all([
          run(language, [lose, accept], "longest"),
          run(language, [stop, refuse], "longest"),
          run(language, [failAtProxy, accept], "none"),
          run(language, [fail, beBusy, ...Array(9).fill(fail)], "none"),
        ]);
        assert.match(failed.output, /50001/);
        assert.match(stored.output, /Monstera.*climber/s);
        assert.match(refused.output, /40901/);
        const request = {
          method: "POST",
          url: "/plants",
          authorization: "Bearer a-token",
          type: "application/json",
          body: { id: 1, name: "Monstera", tag: "climber" },
        };
        for (const { requests } of [stored, refused]) {
          assert.deepEqual(requests, [request, request]);
        }
        // curl adds no random time, and takes a shorter Retry-After.
        const isCurl = language === "curl";
        const [first = 0] = PAUSES_S;
        assertPauses(stored.pausesS, [isCurl ? first : 2 * first]);
        assertPauses(dated.pausesS, [first]);
        assertPauses(refused.pausesS, [isCurl ? STOP_S : 2 * STOP_S]);
        const all = isCurl ? PAUSES_S.with(1, BUSY_S) : PAUSES_S;
        assertPauses(failed.pausesS, all);
      },
    })
  );
  await Promise.all(steps);
});

// The service itself answers a create without a token that curl sends.
const { curl: _, ...PROGRAMS } = MISSING;

for (const [language, ignore] of Object.entries(PROGRAMS)) {
  Deno.test({
    name: `the sample in ${language} sends nothing without a token`,
    ignore,
    fn: async () => {
      const { output, requests } = await run(language, [], "none", "");
      assert.match(output, /ACCESS_TOKEN is not set/);
      assert.deepEqual(requests, []);
    },
  });
}
