import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { STORE_OPEN_MS_MAX } from "../../src/limits.ts";
import {
  assertOneEntry,
  assertOneLine,
  type Ended,
  Program,
  runProgram,
  statusOf,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { HAS_OPENSSL, makeCertificate } from "../support/tools.ts";

const PLANT = { id: 7, name: "Monstera" };

/** A token that no output may contain. */
const SECRET = "hush-hush";

/** A port that no program gets by chance, so that nothing listens there. */
const CLOSED_PORT = 1;

Deno.test("serve fails with one line if its port is taken, and creates no store", async () => {
  using directory = new TemporaryDirectory();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const ended = await runProgram(
    ["--port", `${port}`, "--kv", directory.file("plants.db")],
  );
  assertOneLine(
    ended,
    1,
    `cannot listen on 127.0.0.1 port ${port}: another program listens there: ` +
      "stop it, or choose another --port",
  );
  assert.deepEqual(directory.names(), []);
});

Deno.test("serve fails with one line for an address of another machine", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  assertOneLine(
    await runProgram(["--host", "192.0.2.1", "--port", "0", "--kv", file]),
    1,
    /cannot listen on 192\.0\.2\.1 port 0: .*: choose another --host$/m,
  );
});

Deno.test({
  name: "serve refuses with one line a key of another certificate",
  ignore: !HAS_OPENSSL,
  async fn() {
    using directory = new TemporaryDirectory();
    const [one, other] = await Promise.all([
      makeCertificate(directory, "one"),
      makeCertificate(directory, "other"),
    ]);
    const ended = await runProgram([
      ...["--port", "0", "--kv", directory.file("plants.db")],
      ...["--tls-cert", one.cert, "--tls-key", other.key],
    ]);
    assertOneLine(
      ended,
      2,
      "cannot listen on 127.0.0.1 port 0: the key does not belong to the " +
        "certificate: check --tls-cert and --tls-key",
    );
  },
});

Deno.test({
  name: "serve refuses with one line a device as its store",
  ignore: Deno.build.os === "windows",
  async fn() {
    const ended = await runProgram(["--port", "0", "--kv", "/dev/null"]);
    assertOneLine(ended, 2, /cannot store plants in \/dev\/null: .*: name /);
  },
});

Deno.test({
  name:
    "serve refuses with one line a store in a directory that accepts no files",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const ended = await runProgram(["--port", "0", "--kv", "/proc/plants.db"]);
    assertOneLine(ended, 2, /cannot store plants in \/proc\/plants\.db: /);
  },
});

Deno.test("serve and export refuse with one line plants that only a newer Deno reads", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  {
    await using program = await Program.start(["--kv", path]);
    assert.equal(await statusOf(program.create(PLANT)), 200);
    await program.stop();
  }
  const database = new DatabaseSync(path);
  // V8 refuses a value with a version above its own.
  database.exec("UPDATE kv SET v = CAST(x'FF7F' || substr(v, 3) AS BLOB)");
  database.close();
  for (const command of ["serve", "export"]) {
    const ended = await runProgram([command, "--port", "0", "--kv", path]);
    assertOneLine(
      ended,
      2,
      /newer .*: run that Deno, or export with it and import here into a new /,
    );
  }
});

/** Runs a start with a KV Connect server on a port. */
async function startWithServer(
  port: number,
  ...args: string[]
): Promise<Ended> {
  const url = `http://127.0.0.1:${port}`;
  const ended = await runProgram(["--port", "0", "--kv", url, ...args], {
    env: { DENO_KV_ACCESS_TOKEN: SECRET },
  });
  assert.ok(!ended.stderr.includes(SECRET), ended.stderr);
  return ended;
}

// Deno 2.6 retries refused connections too, so each can take 9 s.
Deno.test("serve waits 9 s for a KV Connect server, then fails with one line or one entry", async () => {
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connected = silent.accept();
  const [unanswered, refused, refusedInJson] = await Promise.all([
    startWithServer(silent.addr.port),
    startWithServer(CLOSED_PORT),
    startWithServer(CLOSED_PORT, "--log-format", "json"),
  ]);
  (await connected).close();
  assertOneLine(
    unanswered,
    1,
    `cannot store plants in http://127.0.0.1:${silent.addr.port}/: no answer ` +
      `within ${
        STORE_OPEN_MS_MAX / 1000
      } s: check its address, and its token ` +
      "in DENO_KV_ACCESS_TOKEN",
  );
  const server = /cannot store plants in http:\/\/127\.0\.0\.1:1\/: .*: check /;
  assertOneLine(refused, 1, server);
  assertOneEntry(refusedInJson, 1, server);
});
