/**
 * Starts that are refused, one for each part of the program that refuses.
 * The tests in `config` and `store/open_test.ts` have everything that is
 * refused.
 */
import assert from "node:assert/strict";
import { STORE_OPEN_MS_MAX } from "../../src/limits.ts";
import { makeOtherDatabase } from "../support/damage.ts";
import { needs } from "../support/needs.ts";
import {
  assertOneEntry,
  assertOneLine,
  assertSucceeded,
  type Ended,
  has,
  Program,
  type ProgramOptions,
  runProgram,
} from "../support/program.ts";
import { snapshot } from "../support/snapshot.ts";
import { StoreLock } from "../support/temporary.ts";
import { test, testsIf } from "../support/tests.ts";
import { createAndKill } from "../support/transfer.ts";

/** The user that is not root. */
const NOBODY = 65_534;

/** A value that no output may contain. */
const SECRET = "hush-hush";

function startOn(store: string, options?: ProgramOptions): Promise<Ended> {
  return runProgram(["--port", "0", "--kv", store], options);
}

test("serve refuses an invalid command line with one object in the JSON format, even before that flag", async () => {
  const ended = await runProgram(["--frob", "--log-format=json"]);
  assertOneEntry(ended, 2, /^unknown flag --frob: see --help$/);
});

test("serve refuses a token file with an invalid line in the format of LOG_FORMAT, and does not show that line", async ({ directory, store }) => {
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, `a\n${SECRET} b\n`);
  const args = ["--port", "0", "--kv", store, "--token-file", tokens];
  const message = /--token-file: \/.*\/tokens: token 2 has a character/;
  const text = await runProgram(args);
  assertOneLine(text, 2, message);
  const json = await runProgram(args, { env: { LOG_FORMAT: "json" } });
  assertOneEntry(json, 2, message);
  assert.ok(!(text.stderr + json.stderr).includes(SECRET));
  assert.deepEqual(directory.names(), ["tokens"]);
});

test("serve refuses another database with one line, and leaves it unchanged", async ({ directory, store }) => {
  makeOtherDatabase(store);
  const before = snapshot(directory.path);
  assertOneLine(
    await runProgram(["--port", "0"], { env: { KV_PATH: store } }),
    2,
    `cannot store plants in ${store}: not a Deno KV store: restore a backup, ` +
      "or name another file with KV_PATH",
  );
  assert.deepEqual(snapshot(directory.path), before);
});

test("serve fails with one line if its port is taken, and creates no store", async ({ directory, store }) => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  assertOneLine(
    await runProgram(["--port", `${port}`, "--kv", store]),
    1,
    `cannot listen on 127.0.0.1 port ${port}: another program listens there: ` +
      "stop it, or choose another --port",
  );
  assert.deepEqual(directory.names(), []);
});

needs("Linux").test(
  "serve refuses with one line a store below /dev or /proc before it is created",
  async () => {
    for (const directory of ["/dev/shm", "/proc"]) {
      const path = `${directory}/${crypto.randomUUID()}.db`;
      const ended = await startOn(path);
      assertOneLine(ended, 2, /cannot store plants in \/.*: name another file/);
      // Deno itself needs all permissions to look there.
      assert.equal(await has("test", "-e", path), false);
    }
  },
);

/** Root may use every file: the program runs as another user instead. */
const AS_USER: ProgramOptions = Deno.uid() === 0
  ? {
    env: { DENO_DIR: "/dev/null" },
    shell: `exec setpriv --reuid ${NOBODY} --regid ${NOBODY} ` +
      '--clear-groups "$0" "$@"',
  }
  : {};

const asUser = testsIf(
  (await runProgram(["--version"], AS_USER)).status === 0,
);

asUser.test("serve refuses with one line, and status 2, a file of the store that it may not write, and starts when the permission is repaired", async ({ directory, store }) => {
  await createAndKill(store, 10);
  const files = directory.names().map((name) => directory.file(name));
  assert.equal(files.length, 3);
  if (Deno.uid() === 0) {
    for (const path of [directory.path, ...files]) {
      Deno.chownSync(path, NOBODY, NOBODY);
    }
  }
  for (const file of files) {
    Deno.chmodSync(file, 0o400);
    const before = snapshot(directory.path);
    const ended = await startOn(store, AS_USER);
    const [, named] = /: permission denied as user \S+: (\S+): change the /
      .exec(ended.stderr) ?? [];
    assert.equal(named, file, ended.stderr);
    assertOneLine(ended, 2, /^plant-store: cannot store plants in /);
    assert.deepEqual(snapshot(directory.path), before);
    Deno.chmodSync(file, 0o600);
  }
  await using program = await Program.start(["--kv", store], AS_USER);
  assertSucceeded(await program.stop());
});

/** Runs a start with a KV Connect server on a port. */
async function startWithServer(port: number): Promise<Ended> {
  const url = `http://127.0.0.1:${port}`;
  const env = { DENO_KV_ACCESS_TOKEN: SECRET };
  const ended = await startOn(url, { env });
  assert.ok(!ended.stderr.includes(SECRET), ended.stderr);
  return ended;
}

test("serve waits 9 s for a KV Connect server, or while another process has locked the store, then fails with one line", async ({ store }) => {
  (await Deno.openKv(store)).close();
  using _lock = new StoreLock(store, "EXCLUSIVE");
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connected = silent.accept().catch(() => undefined);
  const [unanswered, refused, locked] = await Promise.all([
    startWithServer(silent.addr.port),
    // A port that no program gets by chance, so that nothing listens there.
    startWithServer(1),
    startOn(store),
  ]);
  // A program that has ended before connects no more.
  silent.close();
  (await connected)?.close();
  assertOneLine(
    unanswered,
    1,
    `cannot store plants in http://127.0.0.1:${silent.addr.port}/: no answer ` +
      `within ${STORE_OPEN_MS_MAX / 1_000} s: check its address, and its ` +
      "token in DENO_KV_ACCESS_TOKEN",
  );
  assertOneLine(
    refused,
    1,
    /cannot store plants in http:\/\/127\.0\.0\.1:1\/: .*: check /,
  );
  assertOneLine(
    locked,
    1,
    /: another process has locked it, or its file system has no locks: stop /,
  );
});
