/**
 * Starts that are refused, one for each part of the program that refuses.
 * `config_test.ts`, `config_files_test.ts` and `kv_store_errors_test.ts` have
 * everything that is refused.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { STORE_OPEN_MS_MAX } from "../../src/limits.ts";
import {
  assertOneEntry,
  assertOneLine,
  type Ended,
  has,
  runProgram,
} from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { HAS_STRACE } from "../support/strace.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";

/** A value that no output may contain. */
const SECRET = "hush-hush";

/** A start that is refused; `*` is the directory of {@link makeFiles}. */
interface Refused {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly message: RegExp;
  /** Whether the line is an object. */
  readonly isJson?: true;
}

/** What is refused, and how. */
const REFUSED: Readonly<Record<string, Refused>> = {
  "an unknown flag with a control character": {
    args: ["--\x1b[31m\nred"],
    message: /unknown flag --\\u\{1b\}\[31m red: see --help$/m,
  },
  "an invalid log format": {
    env: { LOG_FORMAT: "JSON" },
    message: /LOG_FORMAT: expected text or json, got "JSON"$/m,
  },
  "a flag before that of the JSON format": {
    args: ["--frob", "--log-format=json"],
    message: /^unknown flag --frob: see --help$/,
    isJson: true,
  },
  "a token file with an invalid line": {
    args: ["--token-file", "*/tokens"],
    env: { LOG_FORMAT: "json" },
    message: /--token-file: \/.*\/tokens: token 2 has a character/,
    isJson: true,
  },
  "a store that is another database": {
    env: { KV_PATH: "*/other.db" },
    message:
      /cannot store plants in \/.*\/other\.db: .*: restore a backup, or name another file/,
  },
};

/** Makes the files that {@link REFUSED} names. */
function makeFiles(directory: TemporaryDirectory): void {
  Deno.writeTextFileSync(directory.file("tokens"), `a\n${SECRET} b\n`);
  using other = new DatabaseSync(directory.file("other.db"));
  other.exec("CREATE TABLE plants (id INTEGER)");
}

/** Returns the names and sizes of the files in a directory. */
function listFiles(directory: TemporaryDirectory): [string, number][] {
  return directory.names().map((name) => [
    name,
    Deno.statSync(directory.file(name)).size,
  ]);
}

for (const [what, refused] of Object.entries(REFUSED)) {
  Deno.test(`serve refuses ${what} with one line and creates no file`, async () => {
    const { args = [], env = {}, message, isJson } = refused;
    using directory = new TemporaryDirectory();
    makeFiles(directory);
    const before = listFiles(directory);
    const place = (text: string) => text.replace("*", directory.path);
    const ended = await runProgram(args.map(place), {
      cwd: directory.path,
      // Another program may listen on the default port.
      env: Object.fromEntries(
        Object.entries({ PORT: "0", ...env })
          .map(([name, value]) => [name, place(value)]),
      ),
    });
    const assertRefused = isJson ? assertOneEntry : assertOneLine;
    assertRefused(ended, 2, message);
    assert.deepEqual(listFiles(directory), before);
    assert.ok(!ended.stderr.includes(SECRET), ended.stderr);
  });
}

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

Deno.test({
  name:
    "serve refuses with one line a store below /dev or /proc before it is created",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    for (const directory of ["/dev/shm", "/proc"]) {
      const path = `${directory}/${crypto.randomUUID()}.db`;
      const ended = await runProgram(["--port", "0", "--kv", path]);
      assertOneLine(ended, 2, /cannot store plants in \/.*: name another file/);
      // Deno itself needs all permissions to look there.
      assert.equal(await has("test", "-e", path), false);
    }
  },
});

for (const isNew of [true, false]) {
  const store = isNew ? "a new" : "an existing";
  Deno.test({
    name:
      `serve fails with one line, and status 1, if no descriptor is left for ${store} store`,
    ignore: !HAS_STRACE,
    fn: async () => {
      using directory = new TemporaryDirectory();
      const path = directory.file("plants.db");
      if (!isNew) (await Deno.openKv(path)).close();
      const before = listFiles(directory);
      // EMFILE for this file only: Deno itself does not run without descriptors.
      const ended = await runProgram(["--port", "0", "--kv", path], {
        shell: `exec strace -D -f -qq -o /dev/null -P "${path}" ` +
          '-e inject=openat:error=EMFILE "$0" "$@"',
      });
      assertOneLine(
        ended,
        1,
        `cannot store plants in ${path}: Too many open files (os error 24): ` +
          `open '${path}'`,
      );
      assert.deepEqual(listFiles(directory), before);
    },
  });
}

Deno.test({
  name:
    "serve fails with one line on a disk without inodes, with status 1, and on a read-only one, with status 2",
  ignore: !canMount(),
  fn: async () => {
    using disk = new SmallDisk(4);
    const path = disk.file("plants.db");
    (await Deno.openKv(path)).close();
    const starts = (name: string) =>
      runProgram(["--port", "0", "--kv", disk.file(name)]);
    // The root and the store.
    disk.remount("nr_inodes=2");
    for (const name of ["plants.db", "new.db"]) {
      assertOneLine(await starts(name), 1, /: No space left on device /);
    }
    disk.remount("ro");
    for (const name of ["plants.db", "new.db"]) {
      assertOneLine(
        await starts(name),
        2,
        `cannot store plants in ${disk.file(name)}: the file system is ` +
          "read-only: mount it for writing, or name another file with --kv " +
          "or KV_PATH",
      );
    }
    disk.remount("rw");
    assert.deepEqual([...Deno.readDirSync(disk.path)].length, 1);
  },
});

/** Runs a start with a KV Connect server on a port. */
async function startWithServer(port: number): Promise<Ended> {
  const url = `http://127.0.0.1:${port}`;
  const ended = await runProgram(["--port", "0", "--kv", url], {
    env: { DENO_KV_ACCESS_TOKEN: SECRET },
  });
  assert.ok(!ended.stderr.includes(SECRET), ended.stderr);
  return ended;
}

// Deno 2.6 retries refused connections too, so each can take 9 s.
Deno.test("serve waits 9 s for a KV Connect server, or while another process has locked the store, then fails with one line", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  (await Deno.openKv(path)).close();
  using _lock = new StoreLock(path, "EXCLUSIVE");
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connected = silent.accept().catch(() => undefined);
  const [unanswered, refused, locked] = await Promise.all([
    startWithServer(silent.addr.port),
    // A port that no program gets by chance, so that nothing listens there.
    startWithServer(1),
    runProgram(["--port", "0", "--kv", path]),
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
    `cannot store plants in ${path}: database is locked by another process: ` +
      "stop it first",
  );
});
