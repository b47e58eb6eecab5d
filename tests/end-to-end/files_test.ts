/** What commands do to files, as their system calls show it. */
import assert from "node:assert/strict";
import { main } from "../../src/cli.ts";
import type { Ended } from "../support/background.ts";
import { capture } from "../support/console.ts";
import { Ledger } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { newPlants, range, toJson, writeLines } from "../support/plants.ts";
import {
  assertSucceeded,
  exportLines,
  Program,
  replyStatus,
} from "../support/program.ts";
import { numberFromEnv } from "../support/random.ts";
import { type Call, parseTrace, traced } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { inParallel } from "../support/waiting.ts";

/** Maximum number of kills of a first start. */
const KILL_POINTS = numberFromEnv("KILL_POINTS", 6);

/** The calls that open files, or change their names, sizes, owners and modes. */
const CHANGES = "trace=?open,openat,?openat2,?creat,?mkdir,mkdirat," +
  "?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat," +
  "?unlink,unlinkat,?rmdir,?truncate,ftruncate," +
  "?chmod,fchmod,fchmodat,?chown,fchown,?lchown,fchownat";

/** What SQLite does to the files beside a store, and at its end to the store. */
const BY_SQLITE =
  /^(?:(?:unlink|ftruncate|fchown) \S+\.db-(?:wal|shm|journal)|ftruncate \S+\.db)$/;

/** What saves the plants of a lost store: a new file gets its name. */
const BY_SAVING = /^rename \S+\.db\.saved-[\d-]+\.jsonl(?:\.partial)?$/;

/** Plants in the log of a store that was killed. */
const PLANTS = 100;

/** Every command. */
const COMMANDS = [
  "serve --port 0 --kv new.db",
  "serve --port 0 --kv plants.db",
  "export --kv plants.db",
  "import lines --kv plants.db",
  "remove 1 --kv plants.db",
  'replace {"id":1,"name":"Fern"} --kv plants.db',
  "check --kv plants.db",
  "healthcheck --port 1",
  "openapi",
];

Deno.test("the files of every command in the help are traced", async () => {
  const { stdout } = await capture(() => main(["--help"]));
  const inHelp = Array.from(
    stdout.matchAll(/^ {2}([a-z]+) /gm),
    ([, it]) => it,
  );
  const traced = COMMANDS.map((words) => words.split(" ")[0]);
  assert.deepEqual(new Set(traced), new Set(inHelp));
});

/** Returns the successful changes but those by SQLite and of new files. */
function changesIn(calls: readonly Call[]): string[] {
  return calls
    .filter(({ result }) => !result.startsWith("-1"))
    .filter(({ name, args }) =>
      !name.startsWith("open") || args.includes("O_TRUNC")
    )
    .flatMap(({ name, paths }) => paths.map((path) => `${name} ${path}`))
    .filter((change) => !BY_SQLITE.test(change) && !BY_SAVING.test(change));
}

for (const words of COMMANDS) {
  Deno.test({
    name: `"${words}" renames, truncates, links, deletes and re-owns no file`,
    ignore: isMissing("strace"),
    async fn() {
      using directory = new TemporaryDirectory();
      const store = directory.file("plants.db");
      {
        await using killed = await Program.start(store);
        await inParallel(newPlants(range(1n, PLANTS)), async (newPlant) => {
          const reply = killed.create(toJson(newPlant));
          assert.equal(await replyStatus(reply), 200);
        });
        await killed.stop("SIGKILL");
      }
      writeLines(directory.file("lines"), [
        toJson({ id: -1n, plant: { name: "Monstera" } }),
      ]);
      const trace = directory.file("trace");
      const options = { ...traced(trace, CHANGES), cwd: directory.path };
      await using program = Program.spawn(words.split(" "), options);
      if (words.startsWith("serve")) {
        await program.printed(/listens on/);
        if (words.endsWith("plants.db")) {
          // It also leaves the files of a lost store alone.
          Deno.removeSync(store);
          await program.printed(/the store fails \(lost\)/);
        }
        program.process.kill("SIGTERM");
      }
      const { status, stderr } = await program.ended();
      assert.equal(status, words.startsWith("healthcheck") ? 1 : 0, stderr);
      assert.deepEqual(changesIn(parseTrace(trace)), []);
      const names = directory.names();
      const others = names.filter((name) => !name.includes(".db"));
      assert.deepEqual(others, ["lines", "trace"]);
      // SQLite deletes the log only of a store that is there, and after its use.
      if (!names.includes("plants.db")) {
        assert.ok(names.includes("plants.db-wal"));
      } else assert.ok((await exportLines(store)).length >= PLANTS - 1);
    },
  });
}

/** The calls that a first start is killed before. */
const WRITES = "trace=openat,pwrite64,ftruncate,fsync,fdatasync,?unlink";

/** Traces a service that creates its store, until it stops or is killed. */
async function startFirst(
  directory: TemporaryDirectory,
  ...injection: readonly string[]
): Promise<Ended & { calls: readonly Call[] }> {
  const trace = directory.file("trace");
  const options = traced(trace, WRITES, ...injection);
  const args = ["--port", "0", "--kv", directory.file("plants.db")];
  await using program = Program.spawn(args, options);
  await program.printed(/listens on/).catch(() => {});
  const ended = await program.stop();
  return { ...ended, calls: parseTrace(trace) };
}

/** Returns injections of kills before the calls about a store. */
function killPoints(calls: readonly Call[], store: string): string[] {
  const counts = new Map<string, number>();
  const points = new Set<string>();
  for (const { thread, name, paths } of calls) {
    const nth = (counts.get(thread + name) ?? 0) + 1;
    counts.set(thread + name, nth);
    if (!paths.some((path) => path.startsWith(store))) continue;
    points.add(`inject=${name}:signal=SIGKILL:when=${nth}`);
  }
  const share = (i: number) => Math.floor(i * KILL_POINTS / points.size);
  return [...points].filter((_, i) => share(i + 1) > share(i));
}

Deno.test({
  name:
    "a start creates plants in what a kill at any call of the first start has left",
  ignore: isMissing("strace"),
  async fn() {
    using firstDirectory = new TemporaryDirectory();
    const first = await startFirst(firstDirectory);
    assertSucceeded(first);
    const store = firstDirectory.file("plants.db");
    const points = killPoints(first.calls, store);
    assert.notEqual(points.length, 0);
    let kills = 0;
    await inParallel(points, async (kill) => {
      using directory = new TemporaryDirectory();
      const store = directory.file("plants.db");
      const ledger = new Ledger();
      const ended = await startFirst(directory, kill);
      // The threads share the calls differently in each run, so that a thread may
      // end before the call that would kill it.
      if (ended.signal === "SIGKILL") kills++;
      else assertSucceeded(ended);
      await using program = await Program.start(store);
      await ledger.store(program, newPlants([1n]));
      assertSucceeded(await program.stop());
      await ledger.assertFile(store);
    }, 2);
    assert.notEqual(kills, 0);
  },
});
