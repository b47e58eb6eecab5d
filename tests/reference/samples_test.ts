import assert from "node:assert/strict";
import { curlSample, samples } from "../../src/reference/samples.ts";
import { has } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

/** How to run the call of a language: a program, and what comes before the file. */
const RUNNERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  curl: ["sh"],
  TypeScript: [
    Deno.execPath(),
    ...["run", "--check", "--no-config", "--allow-net", "--allow-env"],
  ],
  Python: ["python3"],
};

Deno.test("samples() has a call in every language that these tests run", () => {
  const calls = samples("http://127.0.0.1:8000");
  assert.deepEqual(Object.keys(calls), Object.keys(RUNNERS));
});

Deno.test("samples() calls POST /plants below the base URL", () => {
  for (const call of Object.values(samples("https://plants.test/api"))) {
    assert.ok(call.includes("https://plants.test/api/plants"), call);
    assert.doesNotMatch(call, /127\.0\.0\.1/);
  }
});

Deno.test("curlSample() takes the token from the environment unless one is given", () => {
  const url = "https://plants.test";
  assert.match(curlSample(url), /"Authorization: Bearer \$ACCESS_TOKEN"/);
  assert.match(curlSample(url, "a-token"), /"Authorization: Bearer a-token"/);
});

Deno.test("curlSample() quotes a base URL that the shell would interpret", () => {
  assert.match(
    curlSample("https://plants.test/a'b&c"),
    /^curl -i 'https:\/\/plants\.test\/a'\\''b&c\/plants' \\\n/,
  );
});

for (const [language, [program, ...args]] of Object.entries(RUNNERS)) {
  Deno.test({
    name: `samples() has a call in ${language} that runs unchanged`,
    ignore: !await has(language === "curl" ? "curl" : program, "--version"),
    fn: async () => {
      const received: unknown[] = [];
      await using server = Deno.serve(
        { hostname: "127.0.0.1", port: 0, onListen: () => {} },
        async (request) => {
          received.push({
            method: request.method,
            path: new URL(request.url).pathname,
            token: request.headers.get("authorization"),
            type: request.headers.get("content-type"),
            body: await request.json(),
          });
          return Response.json({ name: "Monstera", tag: "climber" });
        },
      );
      using directory = new TemporaryDirectory();
      const calls = samples(`http://127.0.0.1:${server.addr.port}`);
      const file = directory.file("create.ts");
      Deno.writeTextFileSync(file, calls[language] ?? "");
      const env = { ACCESS_TOKEN: "a-token", NO_COLOR: "1" };
      const output = await runTool(program, [...args, file], { env });
      assert.match(output, /Monstera.*climber/s);
      assert.deepEqual(received, [{
        method: "POST",
        path: "/plants",
        token: "Bearer a-token",
        type: "application/json",
        body: { id: 1, name: "Monstera", tag: "climber" },
      }]);
    },
  });
}
