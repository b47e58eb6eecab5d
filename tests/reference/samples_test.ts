import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { API_ERRORS, statusOf } from "../../src/api_errors.ts";
import { PAUSES_S } from "../../src/reference/api.ts";
import { samples } from "../../src/reference/samples.ts";
import { isThere } from "../support/needs.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { testsIf } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";

/** Longer than the first pause of a sample. */
const RETRY_AFTER_S = 2;

/** The file of a sample, and a command that compiles and runs it. */
const RUNNERS: Readonly<
  Record<string, readonly [file: string, command: string, isThere: boolean]>
> = {
  curl: ["create.sh", "sh", isThere("curl")],
  TypeScript: [
    "create.ts",
    `${Deno.execPath()} run --check --no-config --allow-net --allow-env`,
    true,
  ],
  Python: ["create.py", "python3", isThere("python3")],
  Go: ["create.go", "go run", isThere("go")],
  Java: ["Create.java", "java", isThere("javac")],
};

/** Returns a sample that retries without pauses. */
function withoutPauses(sample: string): string {
  return sample.replace(/\b(sleep)\((.*)\)/i, "$1(0 * ($2))");
}

/**
 * Runs a sample against a service that gives these answers, one a request, and
 * then 503.
 */
async function run(
  language: string,
  file: string,
  command: string,
  answers: readonly (readonly [status: number, text: string])[],
  edit = (sample: string) => sample,
) {
  const requests: unknown[] = [];
  const times: number[] = [];
  const server = createServer(async (request, response) => {
    times.push(performance.now());
    const { method, url, headers } = request;
    const { authorization, "content-type": type } = headers;
    const body = await json(request);
    const [status, text] = answers[requests.length] ?? [503, "{}"];
    response.writeHead(status, { "retry-after": `${RETRY_AFTER_S}` }).end(text);
    requests.push({ method, url, authorization, type, body });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);

  using directory = new TemporaryDirectory();
  const path = directory.file(file);
  const sample = samples(`http://127.0.0.1:${address.port}`)[language] ?? "";
  Deno.writeTextFileSync(path, edit(sample));
  const env = { ACCESS_TOKEN: "a-token", NO_COLOR: "1" };
  const output = await runTool("sh", ["-c", `exec ${command} ${path}`], { env })
    .catch((error) => String(error));
  server.close();
  await once(server, "close");
  return { output, requests, times };
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

Deno.test("samples() retries without a reply, and after every status for which the table of errors advises it", () => {
  const { curl: _, ...others } = samples("https://plants.test");
  const advised = Object.values(API_ERRORS)
    .filter(({ remedy }) => remedy.startsWith("Send the same request again"))
    .map(({ error }) => statusOf(error));
  // Those of proxies that limit requests, or got no reply.
  const all = new Set([0, ...advised, 429, 502, 504]);
  const statuses = [...all].sort((a, b) => a - b).join(", ");
  for (const sample of Object.values(others)) {
    assert.ok(sample.includes(statuses), sample);
  }
});

const REQUEST = {
  method: "POST",
  url: "/plants",
  authorization: "Bearer a-token",
  type: "application/json",
  body: { id: 1, name: "Monstera", tag: "climber" },
};

for (const [language, [file, command, isThere]] of Object.entries(RUNNERS)) {
  const { test } = testsIf(isThere);
  test(`the sample in ${language} repeats a create after a 503, not before its Retry-After, and no other`, async () => {
    const [stored, refused] = await Promise.all([
      run(language, file, command, [[503, "{}"], [200, "it is stored"]]),
      run(language, file, command, [[409, "it is taken"]]),
    ]);
    assert.match(stored.output, /it is stored/);
    assert.deepEqual(stored.requests, [REQUEST, REQUEST]);
    const [first = NaN, second = NaN] = stored.times;
    assert.ok(second - first >= 1000 * RETRY_AFTER_S, `${second - first} ms`);
    assert.match(refused.output, /it is taken/);
    assert.deepEqual(refused.requests, [REQUEST]);
  });

  // curl prints no advice, and its pauses cannot be shortened.
  if (language === "curl") continue;
  test(`the sample in ${language} ends after its last try`, async () => {
    const { output, requests } = await run(
      ...[language, file, command, [], withoutPauses] as const,
    );
    assert.match(output, /keep the create, send it later/);
    assert.equal(requests.length, 1 + PAUSES_S.length);
  });
}
