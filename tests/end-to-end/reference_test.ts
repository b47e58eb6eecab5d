import assert from "node:assert/strict";
import { ROUTES } from "../../src/http/handler.ts";
import { Program, runProgram } from "../support/program.ts";
import { test } from "../support/tests.ts";
import { type Reply, request, Wire } from "../support/wire.ts";

/** Sends a request for a path, and reads its reply to the end of the connection. */
async function read(
  { port }: Program,
  method: "GET" | "HEAD",
  path: string,
  { isAuthorized = true } = {},
): Promise<Reply & { readonly rest: string }> {
  using wire = await Wire.connect(port);
  await wire.send(request("", {
    line: `${method} ${path} HTTP/1.1`,
    without: [
      ...["content-length", "content-type"],
      ...(isAuthorized ? [] : ["authorization"]),
    ],
  }));
  const reply = await wire.reply({ isToHead: method === "HEAD" });
  assert.ok(reply !== undefined, `no reply to ${method} ${path}`);
  await wire.closeWrite();
  return { ...reply, rest: await wire.rest() };
}

for (const baseUrl of [undefined, "https://plants.example/api"]) {
  const what = baseUrl === undefined ? "address" : "base URL";
  test(`/openapi.json is what the command openapi writes, byte for byte, for the ${what}`, async ({ start }) => {
    const args = baseUrl === undefined ? [] : ["--base-url", `${baseUrl}/`];
    await using program = await start(args);
    const url = baseUrl ?? program.origin;
    const { pathname } = new URL(`${url}/openapi.json`);
    const text = await (await program.get(pathname)).text();
    assert.deepEqual(JSON.parse(text).servers, [{ url }]);
    const port = ["--port", `${program.port}`];
    const { stdout } = await runProgram(["openapi", ...port, ...args]);
    assert.equal(text, stdout);
  });
}

test("HEAD gets the status and the headers of GET without a body, on every path", async ({ start }) => {
  await using program = await start();
  const paths = ROUTES
    .filter(({ path, methods }) => path !== "" && methods.includes("HEAD"))
    .map(({ path }) => path);
  for (
    const [path, status, options] of [
      ...paths.map((path) => [path, 200, {}] as const),
      ["/metrics", 401, { isAuthorized: false }],
      ["/unknown", 404],
    ] as const
  ) {
    const [get, head] = await Promise.all([
      read(program, "GET", path, options),
      read(program, "HEAD", path, options),
    ]);
    for (const { headers } of [get, head]) {
      headers.delete("date");
      // Deno 2.6 adds it to bodies that it may compress.
      headers.delete("vary");
      // The metrics count the requests, so their length changes.
      if (path === "/metrics") headers.delete("content-length");
    }
    assert.equal(get.status, status, path);
    assert.equal(head.status, status, path);
    assert.deepEqual([...head.headers], [...get.headers], path);
    assert.notEqual(get.text, "", path);
    assert.deepEqual([get.rest, head.text, head.rest], ["", "", ""], path);
  }
});
