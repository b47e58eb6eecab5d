import assert from "node:assert/strict";
import { RequestHandler } from "../../src/http/handler.ts";
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

test("/openapi.json is what the command openapi writes, byte for byte, for the base URL or else for the address", async ({ store }) => {
  const args = ["--kv", store];
  for (const path of [undefined, "/api/"]) {
    const env = path === undefined
      ? {}
      : { BASE_URL: `https://plants.example${path}` };
    await using program = await Program.start(args, { env });
    const response = await fetch(
      `${program.origin}${path ?? "/"}openapi.json`,
    );
    const text = await response.text();
    const url = path === undefined
      ? program.origin
      : "https://plants.example/api";
    assert.deepEqual(JSON.parse(text).servers, [{ url }]);
    const { stdout } = await runProgram(
      ["openapi", "--port", `${program.port}`],
      { env },
    );
    assert.equal(text, stdout);
    await program.stop();
  }
});

test("HEAD gets the status and the headers of GET without a body, on every path", async ({ store }) => {
  const args = ["--kv", store];
  await using program = await Program.start(args);
  const paths = RequestHandler.ROUTES
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
