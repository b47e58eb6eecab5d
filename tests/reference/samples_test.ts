import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { API_ERRORS, statusOf } from "../../src/api_errors.ts";
import { renderPage } from "../../src/reference/page.ts";
import { samples } from "../../src/reference/samples.ts";
import { isMissing, type ToolName } from "../support/needs.ts";
import { read } from "../support/readme.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";
import { inTime } from "../support/waiting.ts";

/** The status, the text, and further headers of a reply. */
type Answer = readonly [
  status: number,
  text: string,
  headers?: Readonly<Record<string, string>>,
];

/** A sample, how to run it, and how it prints a pause, which has a unit. */
interface Sample {
  readonly language: string;
  readonly tools: readonly ToolName[];
  readonly file: string;
  readonly command: string;
  /** What a reader changes in it. */
  readonly edit?: (code: string) => string;
  readonly print?: string;
  readonly unitS?: number;
}

const CURL: Sample = {
  language: "curl",
  tools: ["curl"],
  file: "create.sh",
  command: "sh",
};

const SAMPLES: readonly Sample[] = [
  CURL,
  {
    language: "TypeScript",
    tools: [],
    file: "create.mts",
    command:
      `${Deno.execPath()} run --check --no-config --allow-net --allow-env`,
    print: "console.log",
    unitS: 0.001,
  },
  {
    language: "TypeScript",
    tools: ["node"],
    // The name for a Node without types, in a directory of CommonJS.
    file: "create.mjs",
    command: "node",
    print: "console.log",
    unitS: 0.001,
  },
  {
    language: "Python",
    tools: ["python3"],
    file: "create.py",
    command: "python3",
    print: "print",
    unitS: 1,
  },
];

const REQUEST = {
  method: "POST",
  url: "/plants",
  authorization: "Bearer a-token",
  type: "application/json",
  body: { id: 1, name: "Monstera", tag: "climber" },
};

/**
 * Runs a sample, which prints its pauses instead of making them, against a
 * service that gives these answers, one a request, and then none.
 */
async function run(
  { language, file, command, edit, print = "", unitS = NaN }: Sample,
  answers: readonly Answer[],
  token = "a-token",
) {
  const requests: unknown[] = [];
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request;
    const { authorization, "content-type": type } = headers;
    // A redirect makes it a GET.
    const body = method === "POST" ? await json(request) : undefined;
    const [status, text, others] = answers[requests.length] ?? [];
    requests.push({ method, url, authorization, type, body });
    const all = { "Content-Type": "application/json", ...others };
    if (status !== undefined) response.writeHead(status, all).end(text);
    else request.socket.destroy();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);

  using directory = new TemporaryDirectory();
  const path = directory.file(file);
  // As `npm init` makes it.
  Deno.writeTextFileSync(
    directory.file("package.json"),
    '{"type": "commonjs"}',
  );
  const sample = samples(`http://127.0.0.1:${address.port}`)[language] ?? "";
  const code = edit?.(sample) ?? sample;
  const pause = /\b(?:await |time\.)sleep\((.*)\)/;
  Deno.writeTextFileSync(path, code.replace(pause, `${print}("pause", $1)`));
  const env = { ACCESS_TOKEN: token, NO_COLOR: "1" };
  const output = await runTool("sh", ["-c", `exec ${command} ${path}`], { env })
    .catch((error) => String(error));
  server.close();
  await inTime(once(server, "close"), () => "the end of all connections");
  const pausesS = Array.from(
    output.matchAll(/^.*pause (.*)$/gm),
    ([, pause]) => Number(pause) * unitS,
  );
  return { output, requests, pausesS };
}

/** Values of Retry-After, and the shortest pauses after them. */
const AFTERS = ["10", "0", new Date(0).toUTCString(), "9"];
const AFTERS_S = [10, 2, 4, 9];

/** Values above an hour: timers and integers of a platform cannot have some of them. */
const LONG_AFTERS = [
  "3601",
  "4294967",
  "99999999999999999999",
  "9".repeat(5_000),
];

for (const sample of SAMPLES) {
  const { file, tools } = sample;
  Deno.test({
    name:
      `the sample ${file} sends a create again after a 503, and not after a 409`,
    ignore: isMissing(...tools),
    async fn() {
      const [stored, refused] = await Promise.all([
        run(sample, [[503, "{}"], [200, "it is stored"]]),
        run(sample, [[409, "it is taken"]]),
      ]);
      // The prompt of a shell follows on a line of its own.
      assert.match(stored.output, /it is stored$/m);
      assert.deepEqual(stored.requests, [REQUEST, REQUEST]);
      assert.match(refused.output, /it is taken/);
      assert.deepEqual(refused.requests, [REQUEST]);
    },
  });

  // curl has pauses of its own, and prints what it gets.
  if (sample.print === undefined) continue;
  Deno.test({
    name:
      `the sample ${file} follows no redirect, and takes no page for a stored plant`,
    ignore: isMissing(...tools),
    async fn() {
      const html = { "Content-Type": "text/html; charset=utf-8" };
      for (
        const answer of [
          [302, "", { ...html, Location: "/login" }],
          [307, "", { ...html, Location: "/login" }],
          [200, "sign in", html],
        ] as const
      ) {
        const signIn = [200, "sign in", html] as const;
        const { output, requests } = await run(sample, [answer, signIn]);
        assert.deepEqual(requests, [REQUEST]);
        assert.match(output, new RegExp(`fix .* the address: ${answer[0]} `));
      }
    },
  });

  Deno.test({
    name:
      `the sample ${file} sends no token with characters that a header cannot have, and does not print it`,
    ignore: isMissing(...tools),
    async fn() {
      for (const token of ["", "secret\nbreak", "secret\r", "sécret"]) {
        const { output, requests, pausesS } = await run(sample, [], token);
        assert.match(output, /ACCESS_TOKEN is not a token/);
        assert.doesNotMatch(output, /secret|sécret/);
        assert.deepEqual([requests, pausesS], [[], []]);
      }
    },
  });

  Deno.test({
    name:
      `the sample ${file} pauses for 1, 2, 4 and 8 s, or Retry-After if longer, and a random time up to as long`,
    ignore: isMissing(...tools),
    async fn() {
      const failures = (afters: readonly string[]) =>
        afters.map((it): Answer => [503, "{}", { "Retry-After": it }]);
      for (
        const [answers, shortestS] of [
          [[], [1, 2, 4, 8]],
          [failures(AFTERS), AFTERS_S],
          [failures(LONG_AFTERS), LONG_AFTERS.map(() => 3_600)],
        ] as const
      ) {
        const { output, pausesS } = await run(sample, answers);
        assert.equal(pausesS.length, shortestS.length, output);
        shortestS.forEach((shortest, i) => {
          const ratio = (pausesS[i] ?? NaN) / shortest;
          assert.ok(ratio > 1 && ratio < 2, `pause ${i}: ${pausesS[i]} s`);
        });
        assert.match(output, /keep the create, send it later/);
      }
    },
  });
}

Deno.test({
  name:
    "curl in a script, with the flags of the README, prints the last status, and repeats no 409",
  ignore: isMissing("curl"),
  async fn() {
    const flags = /write\s`(.*)` instead of `(-i)` and `(.*)`/;
    const [, added = "", ...removed] = flags.exec(read("README.md")) ?? [];
    const script: Sample = {
      ...CURL,
      edit: (code) =>
        'cd "$(dirname "$0")"\n' +
        removed.reduce((left, flag) => left.replace(flag, ""), code) +
        ` ${added}; cat reply.json`,
    };
    const stored = await run(script, [[503, "a long error"], [200, "stored"]]);
    assert.equal(stored.output, "200stored");
    assert.deepEqual(stored.requests, [REQUEST, REQUEST]);
    const refused = await run(script, [[409, "taken"]]);
    assert.equal(refused.output, "409taken");
    assert.deepEqual(refused.requests, [REQUEST]);
  },
});

Deno.test("samples() calls POST /plants below the base URL", () => {
  for (const sample of Object.values(samples("https://plants.test/api"))) {
    assert.ok(sample.includes("https://plants.test/api/plants"), sample);
    assert.doesNotMatch(sample, /127\.0\.0\.1/);
  }
});

Deno.test("samples() retries without a reply, and after every status for which the table of errors advises it", () => {
  const advised = Object.values(API_ERRORS)
    .filter(({ remedy }) => remedy.startsWith("Send the same request again"))
    .map(({ error }) => statusOf(error));
  // Those of proxies that limit requests, or got no reply.
  const all = new Set([...advised, 429, 502, 504]);
  const statuses = [...all].toSorted().join(", ");
  const { curl: _, ...others } = samples("https://plants.test");
  for (const sample of Object.values(others)) {
    assert.ok(sample.includes(`0, ${statuses}`), sample);
  }
  // The picture in the README has them at the edge to the next try.
  assert.ok(read("README.md").includes(`|"${statuses},`));
  const { html } = renderPage("https://plants.test");
  const words = html.replaceAll(/\s+/g, " ");
  assert.ok(
    words.includes(`status ${statuses.replace(/, (\d+)$/, " or $1")}.`),
  );
});
