import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { eventually } from "../support/load.ts";
import {
  assertOneLine,
  errorOf,
  Program,
  runProgram,
  statusOf,
} from "../support/program.ts";
import { freePort } from "../support/tools.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";
import { request, Wire } from "../support/wire.ts";

const OK = '{"status":"ok"}';

const STORE_FAILED = API_ERRORS.storeFailed;

/** Asserts that a service is not ready, and that only the log says why. */
async function assertNotReady(program: Program): Promise<void> {
  const response = await program.get("/readyz");
  assert.equal(response.status, 503);
  assert.match(response.headers.get("retry-after") ?? "", /^\d+$/);
  assert.deepEqual(await response.json(), {
    error: STORE_FAILED.error,
    message: "the store fails: the log of the service says why",
  });
}

Deno.test("before the store is open, GET /livez answers 200, and everything else 503 at once", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  // Keeps the store in the mode in which a second start only has to write.
  await using _first = await Program.start(["--kv", file]);
  using lock = new StoreLock(file);
  const port = freePort();
  await using program = Program.spawn(["--port", `${port}`, "--kv", file]);
  using wire = await eventually(
    (wire) => wire !== undefined,
    () => Wire.connect(port).catch(() => undefined),
  ) ?? assert.fail();
  await wire.send(request('{"id":1,"name":"Fern"}'));
  const reply = await wire.reply();
  assert.equal(reply?.status, 503);
  assert.equal(JSON.parse(reply.text).error, STORE_FAILED.error);
  for (const [path, status] of [["/livez", 200], ["/readyz", 503]] as const) {
    const response = fetch(`http://127.0.0.1:${port}${path}`);
    assert.equal(await statusOf(response), status);
  }
  assert.equal(program.stderr, "");
  lock[Symbol.dispose]();
  await program.printed(/listens on/);
  const ready = fetch(`http://127.0.0.1:${port}/readyz`);
  assert.equal(await statusOf(ready), 200);
});

Deno.test("GET /readyz answers 503 if the database file is deleted, and /livez 200", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  Deno.removeSync(file);
  await assertNotReady(program);
  await program.printed(/error: the store fails: .*deleted/);
  assert.equal(await (await program.get("/livez")).text(), OK);
  assert.equal((await program.metrics()).get("plant_store_up"), 0);
  const args = ["healthcheck", "--port", `${program.port}`];
  assertOneLine(
    await runProgram(args),
    1,
    /answers \/readyz with 503: see the log of the service$/m,
  );
});

Deno.test({
  name:
    "GET /readyz answers 503 on a full disk, and 200 when there is room again although no create arrives",
  ignore: !canMount(),
  async fn() {
    using disk = new SmallDisk(4);
    await using program = await Program.start(["--kv", disk.file("plants.db")]);
    assert.equal(await statusOf(program.get("/readyz")), 200);
    assert.equal((await program.metrics()).get("plant_store_up"), 1);
    const { length } = program.stderr;

    const ballast = disk.fill("ballast");
    // Until the probe writes again, the last result is current.
    await eventually(
      (status) => status === 503,
      () => statusOf(program.get("/readyz")),
    );
    await assertNotReady(program);
    assert.equal((await program.metrics()).get("plant_store_up"), 0);
    const failing = /error: the store fails: database or disk is full.*\n/;
    await program.printed(failing, length);
    assert.deepEqual(
      await errorOf(program.create({ id: 1, name: "x".repeat(10_000) })),
      [503, STORE_FAILED.error],
    );

    Deno.removeSync(ballast);
    await program.printed(/info: the store has recovered\n/, length);
    assert.equal(await (await program.get("/readyz")).text(), OK);
    assert.equal((await program.metrics()).get("plant_store_up"), 1);
    assert.equal(program.stderr.slice(length).trimEnd().split("\n").length, 2);
    const retry = program.create({ id: 1, name: "x".repeat(10_000) });
    assert.equal(await statusOf(retry), 200);
  },
});
