/**
 * Refusals and failures of commands, as only the real program can show them. The
 * tests in `config`, `console` and `store` have the other ones.
 */
import assert from "node:assert/strict";
import { STORE_OPEN_MS_MAX } from "../../src/store/open.ts";
import { destroyPage, execute, pagesOf } from "../support/accidents.ts";
import type { Ended } from "../support/background.ts";
import { KV_ENV } from "../support/kv_server.ts";
import { isMissing } from "../support/needs.ts";
import {
  FIRST_TABLE,
  makeStore,
  newPlants,
  range,
  toJson,
} from "../support/plants.ts";
import {
  assertOneLine,
  assertSucceeded,
  exportLines,
  occurrences,
  Program,
  replyStatus,
  runProgram,
} from "../support/program.ts";
import { tracedOn } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

const CHECK = "check its address, and its token in DENO_KV_ACCESS_TOKEN";

/**
 * Starts a KV Connect server that keeps nothing.
 * @param replies those to clients that connect; by default, it accepts them, and
 * those to reads and writes, by default none
 */
function startKvServer(
  replies: { metadata?: () => Response; data?: () => Response } = {},
) {
  const aborting = new AbortController();
  const { signal } = aborting;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, signal, onListen: () => {} },
    (request) => {
      const { origin, pathname } = new URL(request.url);
      if (pathname !== "/") return replies.data?.() ?? new Promise(() => {});
      return replies.metadata?.() ?? Response.json({
        version: 2,
        databaseId: "11111111-2222-3333-4444-555555555555",
        endpoints: [{ url: origin, consistency: "strong" }],
        token: KV_ENV.DENO_KV_ACCESS_TOKEN,
        expiresAt: "2100-01-01T00:00:00Z",
      });
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    async [Symbol.asyncDispose](): Promise<void> {
      aborting.abort();
      await server.finished;
    },
  };
}

function startOn(store: string): Promise<Ended> {
  return runProgram(["--port", "0", "--kv", store]);
}

for (
  const [kv, message] of [
    ["plants.db", /: not a Deno KV store: /],
    // The shell adds this argument.
    ["bad\\377.db", /: expected arguments in UTF-8$/m],
  ] as const
) {
  Deno.test(`serve, import and export refuse --kv ${kv} with one line and status 2, and change no file`, async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    Deno.writeTextFileSync(store, "x");
    const before = directory.contents();
    const shell = `exec "$0" "$@" --kv "$(printf '${kv}')"`;
    for (const command of ["serve --port 0", "import /dev/null", "export"]) {
      const args = command.split(" ");
      const ended = await runProgram(args, { cwd: directory.path, shell });
      assertOneLine(ended, 2, message);
      assert.deepEqual(directory.contents(), before);
    }
  });
}

/** Variables with which Deno does something else than the flags say, and what. */
const MISLEADING = [
  [
    "DENO_SERVE_ADDRESS",
    "duplicate,tcp:127.0.0.1:0",
    "listen on another address",
  ],
  ["DENO_KV_DB_MODE", "memory", "open another store"],
  ["DENO_KV_PATH_PREFIX", "/tmp", "open another store"],
] as const;

Deno.test("a command refuses a variable with which Deno would use another address or store, and changes no file", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  {
    // The files of a killed service are those of an open store.
    await using service = await Program.start(store);
    await service.stop("SIGKILL");
  }
  const before = directory.contents();
  const ofService = ["serve --port 0", "check"];
  const ofStore = ["import /dev/null", "export", "remove 1"];
  for (const [name, value, effect] of MISLEADING) {
    const commands = name === "DENO_SERVE_ADDRESS"
      ? ofService
      : [...ofService, ...ofStore];
    for (const command of commands) {
      const args = [...command.split(" "), "--kv", store];
      const ended = await runProgram(args, { env: { [name]: value } });
      assertOneLine(ended, 2, `unset ${name}, which makes Deno ${effect}`);
      assert.deepEqual(directory.contents(), before);
    }
  }
});

Deno.test({
  name:
    "a start that fails to read an intact store succeeds all the same, or fails with one line and status 1",
  ignore: isMissing("strace"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const plants = newPlants(range(1n, 1_000));
    await makeStore(store, plants);
    const trace = directory.file("trace");
    const start = async (...injection: readonly string[]) => {
      await using program = Program.spawn(
        ["--port", "0", "--kv", store],
        tracedOn(store, trace, "trace=pread64", ...injection),
      );
      await program.printed(/\n/);
      return await program.stop();
    };
    assertSucceeded(await start());
    const text = Deno.readTextFileSync(trace);
    const reads = occurrences(text, /^pread64\(/m);
    assert.ok(reads > 3, `${reads} reads`);
    const statuses = new Set<number>();
    for (let nth = 1; nth <= reads; nth += 3) {
      const ended = await start(`inject=pread64:error=EIO:when=${nth}`);
      assert.match(Deno.readTextFileSync(trace), /\(INJECTED\)$/m);
      statuses.add(ended.status);
      if (ended.status !== 0) {
        assertOneLine(ended, 1, / \(disk\): the disk is full or fails: /m);
      }
    }
    assert.deepEqual(statuses, new Set([0, 1]));
    assert.deepEqual(directory.names(), ["plants.db", "trace"]);
    assert.deepEqual(await exportLines(store), plants.map(toJson));
  },
});

Deno.test("a start with a corrupt store fails with one line and status 2", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await makeStore(store, newPlants(range(1n, 1_000)));
  // Deno reads this table first when it opens a store.
  for (const page of pagesOf(store, "migration_state")) {
    destroyPage(store, page);
  }
  const corrupt =
    / \(corrupt\): the database is corrupt, .*: before you restart anything, /;
  assertOneLine(await startOn(store), 2, corrupt);
  assert.deepEqual(directory.names(), ["plants.db"]);
});

Deno.test("serve, check and import with KV_CREATE=no refuse a path without a store, and change nothing", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const env = { KV_CREATE: "no" };
  const sources = [
    [[], env],
    [["--kv-create", "no"], { KV_CREATE: "yes" }],
  ] as const;
  const problems = [
    ["no such file", () => {}],
    ["it is empty", () => Deno.createSync(store).close()],
    ["it is empty", () => execute(store, FIRST_TABLE)],
  ] as const;
  // What the program leaves of its input, at the end of its only line.
  const shell = `{ echo input | { "$0" "$@"; echo "$?:$(cat)" >&2; }; } 2>&1`;
  for (const [problem, leave] of problems) {
    leave();
    const before = directory.contents();
    for (const [flags, env] of sources) {
      for (
        const command of [["serve", "--port", "0"], ["check"], ["import", "-"]]
      ) {
        const { stdout } = await runProgram(
          [...command, ...flags, "--kv", store],
          { env, shell },
        );
        assert.equal(
          stdout,
          `plant-store: cannot use ${store} (no store): ${problem}: check ` +
            "the path in --kv, and that its disk is mounted\n" +
            "2:input\n",
        );
        assert.deepEqual(directory.contents(), before);
      }
    }
  }
});

Deno.test("import with --kv-create yes makes the store that check, import and serve with KV_CREATE=no need", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  // What an interrupted first start has left.
  execute(store, FIRST_TABLE);
  const env = { KV_CREATE: "no" };
  const importing = ["import", "--kv-create", "yes", "-", "--kv", store];
  const imported = await runProgram(importing, { env });
  assertSucceeded(imported);
  assert.match(imported.stderr, /^created a new store in /);
  const checked = await runProgram(["check", "--kv", store], { env });
  assertSucceeded(checked);
  assert.match(
    checked.stdout,
    /^stores plants in .* \(--kv\)\nnever creates a store \(KV_CREATE\)$/m,
  );
  assertSucceeded(await runProgram(["import", "-", "--kv", store], { env }));
  await using program = await Program.start(store, { env });
  assert.equal(await replyStatus(program.create('{"id":1,"name":"a"}')), 200);
});

Deno.test("serve fails with one line if its port is taken, and creates no store", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  assertOneLine(
    await runProgram(["--port", `${port}`, "--kv", store]),
    1,
    new RegExp(
      `cannot listen on 127.0.0.1 port ${port}: Address already in use .*: check --host, --port$`,
      "m",
    ),
  );
  assert.deepEqual(directory.names(), []);
});

Deno.test({
  name:
    "serve refuses with one line a store below /dev or /proc before it is created",
  ignore: isMissing("Linux"),
  async fn() {
    for (const directory of ["/dev/shm", "/proc"]) {
      const path = `${directory}/${crypto.randomUUID()}.db`;
      const ended = await startOn(path);
      assertOneLine(ended, 2, /cannot use \/.*: check the path in /);
      // Deno itself needs all permissions to look there.
      await runTool("test", ["!", "-e", path]);
    }
  },
});

Deno.test("serve and export wait 9 s for a KV Connect server that does not answer, then fail with one line", async () => {
  // Its clients get no reply.
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  // It accepts clients, but answers no read.
  await using server = startKvServer();
  await Promise.all(
    [
      [`http://127.0.0.1:${silent.addr.port}`, "--port=0"],
      [server.url, "export"],
    ].map(async ([url = "", ...args]) =>
      assertOneLine(
        await runProgram([...args, "--kv", url], { env: KV_ENV }),
        1,
        `cannot use ${url}/ (no answer): no answer within ` +
          `${STORE_OPEN_MS_MAX / 1_000} s: ${CHECK}`,
      )
    ),
  );
});

Deno.test("a start and an export show the text of a KV Connect server that refuses them on one harmless line", async () => {
  const token = KV_ENV.DENO_KV_ACCESS_TOKEN;
  const text = `wrong token: ${token} \x1b[31mred\r\n\u2028${"x".repeat(1e5)}`;
  for (
    const [kind, ...args] of [
      ["metadata", "serve", "--port", "0"],
      ["data", "export"],
    ] as const
  ) {
    const refuse = () => new Response(text, { status: 403 });
    await using server = startKvServer({ [kind]: refuse });
    const run = [...args, "--kv", server.url];
    const ended = await runProgram(run, { env: KV_ENV });
    assertOneLine(ended, 1, new RegExp(`: cannot .*: ${CHECK}$`, "m"));
    assert.match(ended.stderr, /wrong token: \[token\] \\u\{1b\}\[31mred x+…/);
    assert.ok(ended.stderr.length < 600, ended.stderr);
  }
});

Deno.test({
  name:
    "a command fails with one line if stdout cannot be written, and keeps its exit status if stderr cannot",
  ignore: isMissing("Linux"),
  async fn() {
    const stdout = { shell: '"$0" "$@" > /dev/full' };
    const ended = await runProgram(["--help"], stdout);
    assertOneLine(ended, 1, /cannot write to stdout: No space left on device/);
    const stderr = { shell: '"$0" "$@" 2> /dev/full' };
    const silent = await runProgram(["--frob"], stderr);
    assert.deepEqual([silent.status, silent.stderr], [2, ""]);
  },
});
