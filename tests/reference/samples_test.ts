import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { API_ERRORS, statusOf } from "../../src/errors.ts";
import { curlSample, samples } from "../../src/reference/samples.ts";
import { has } from "../support/program.ts";
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
};

const MISSING = {
  curl: !await has("curl", "--version"),
  TypeScript: false,
  Python: !await has("python3", "--version"),
  Go: !await has("go", "version"),
};

/** The statuses after which the table of errors advises to send again. */
const TRANSIENT = new Set(
  Object.values(API_ERRORS)
    .filter(({ remedy }) => remedy.startsWith("Send the same request again"))
    .map(({ error }) => statusOf(error)),
);

/** Code for the pauses of each sample, and what replaces it in a test. */
const PAUSES: Readonly<
  Record<string, { code: string; longest: string; short: string }>
> = {
  curl: {
    code: "--retry 4",
    longest: "--retry 4",
    short: "--retry 4 --retry-delay 1",
  },
  TypeScript: { code: "Math.random()", longest: "1", short: "0" },
  Python: { code: "random.random()", longest: "1", short: "0" },
  Go: {
    code: "rand.N(",
    longest: "rand.N(time.Nanosecond) + (",
    short: "0 * rand.N(",
  },
};

/** The longest random first pause; curl has none. */
const RANDOM_S = 2;

/** Seconds in the header Retry-After. */
const RETRY_AFTER_S = 2;

/** How a service answers a request. */
type Answer = (response: ServerResponse) => void;

function lose(response: ServerResponse): void {
  response.writeHead(200, { "content-length": "100" }).write("{");
  response.destroy();
}

function stop(response: ServerResponse): void {
  response.writeHead(503, { "retry-after": `${RETRY_AFTER_S}` }).end("{}");
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
  pause: "longest" | "short" = "longest",
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
  const { code = "", [pause]: fixed = "" } = PAUSES[language] ?? {};
  const [before, after] = calls[language]?.split(code) ?? [];
  assert.ok(after !== undefined, `no ${code}`);
  Deno.writeTextFileSync(file, `${before}${fixed}${after}`);
  const env = { ACCESS_TOKEN: "a-token", NO_COLOR: "1" };
  const output = await runTool(program, [...args, file], { env })
    .catch((error) => String(error));
  server.close();
  await once(server, "close");
  return { output, requests, timesMs };
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
  for (const sample of Object.values(others)) {
    assert.ok(sample.includes([0, ...TRANSIENT].join(", ")), sample);
  }
});

Deno.test("curlSample() takes the token from the environment unless one is given, and quotes a base URL that the shell would interpret", () => {
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
        `the sample in ${language} sends the create again after a lost connection and a 503, each after its pause, a failed one four times, and a refused one never`,
      ignore,
      sanitizeOps: false,
      sanitizeResources: false,
      sanitizeExit: false,
      fn: async () => {
        const [stored, refused, failed] = await Promise.all([
          run(language, [lose, accept]),
          run(language, [stop, refuse]),
          run(language, Array(9).fill(fail), "short"),
        ]);
        assert.equal(failed.requests.length, 5);
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
        const randomS = language === "curl" ? 0 : RANDOM_S;
        for (
          const [{ timesMs: [first = 0, second = 0] }, seconds] of [
            [stored, randomS],
            [refused, RETRY_AFTER_S + randomS],
          ] as const
          // Clocks of different programs tick differently.
        ) assert.ok(second - first >= 950 * seconds, `${second - first} ms`);
      },
    })
  );
  await Promise.all(steps);
});
