/** A backup has its name only when it is complete. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { pause } from "../support/load.ts";
import { assertOneLine, type Ended, Program } from "../support/program.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { HAS_STRACE } from "../support/tools.ts";
import {
  assertSameLines,
  backUp,
  createStore,
  exportLines,
  importFile,
  setWalMode,
  toLine,
  writeLines,
} from "../support/transfer.ts";

const KILLS = numberFromEnv("BACKUP_KILLS", 16);

/** About 20 MB: the copy takes as long as the start of the program. */
const PLANTS = 20_000;
const NAME = "Monstera ".repeat(100);

const COPY = "copy.db";
const LEFTOVER = /^copy\.db\.[0-9a-f]{8}\.partial(-wal|-shm|-journal)?$/;

/** Creates a store that only its owner may read. */
async function createLargeStore(path: string): Promise<void> {
  const lines = Array.from(
    { length: PLANTS },
    (_, i) => toLine(BigInt(i), NAME),
  );
  const file = writeLines(`${path}.in`, lines);
  const { status, stderr } = await importFile(path, file);
  assert.equal(status, 0, stderr);
  Deno.chmodSync(path, 0o600);
  Deno.removeSync(file);
}

/** Asserts that a copy is one intact file with every plant. */
function assertComplete(path: string): void {
  const copy = new DatabaseSync(path, { readOnly: true });
  try {
    const check = copy.prepare("PRAGMA integrity_check").get();
    assert.equal(check?.integrity_check, "ok");
    const row = copy.prepare("SELECT count(*) AS plants FROM kv").get();
    assert.equal(row?.plants, PLANTS);
  } finally {
    copy.close();
  }
}

Deno.test("a backup that is killed at any moment leaves a complete copy or none", async () => {
  using directory = new TemporaryDirectory();
  const seed = seedOfRun();
  const random = new Random(seed);
  const store = directory.file("plants.db");
  await createLargeStore(store);
  const startMs = performance.now();
  const whole = await backUp(store, directory.file("whole.db"));
  assert.equal(whole.status, 0, whole.stderr);
  const backupMs = performance.now() - startMs;

  const seen = { nothing: 0, leftovers: 0, copy: 0 };
  for (let kill = 1; kill <= KILLS; kill++) {
    using away = new TemporaryDirectory();
    const copy = away.file(COPY);
    {
      await using program = Program.spawn(["backup", copy, "--kv", store]);
      await pause(random.float() * backupMs * 1.1);
      await program.stop("SIGKILL");
    }
    const names = away.names();
    const where = `kill ${kill}, SEED=${seed}: ${names}`;
    if (names.includes(COPY)) {
      assertComplete(copy);
      seen.copy++;
    }
    const leftovers = names.filter((name) => name !== COPY);
    for (const name of leftovers) {
      assert.match(name, LEFTOVER, where);
      const mode = Deno.statSync(away.file(name)).mode ?? 0;
      assert.equal(mode & 0o077, 0, `others may read ${where}`);
    }
    if (leftovers.length > 0) seen.leftovers++;
    else if (names.length === 0) seen.nothing++;

    // Leftovers do not prevent the next backup.
    if (leftovers.length === 0 || names.includes(COPY)) continue;
    const { status, stderr } = await backUp(store, copy);
    assert.equal(status, 0, stderr);
    assertComplete(copy);
  }
  console.log(
    `seed ${seed}: ${KILLS} kills of a backup of ${backupMs.toFixed()} ms: ` +
      `${seen.nothing} left nothing, ${seen.leftovers} partial files, ` +
      `${seen.copy} the complete copy`,
  );
  if (KILLS >= 40) assert.ok(seen.leftovers > 0, "no kill came during a copy");
});

/** The system calls that make a file durable or change its name. */
const CALLS = "fsync,fdatasync,linkat,renameat,renameat2,unlinkat," +
  "?link,?rename,?unlink";

/** Hard links and permissions fail, as on FAT. */
const AS_FAT = "inject=?link,linkat,?chmod,fchmod,fchmodat:error=EPERM";

/** Runs a backup under strace, with some expressions for it. */
async function traceBackup(
  store: string,
  copy: string,
  expressions: readonly string[] = [],
): Promise<{ readonly ended: Ended; readonly trace: string }> {
  using directory = new TemporaryDirectory();
  const file = directory.file("trace");
  const options = [`trace=${CALLS}`, ...expressions].map((it) => `-e '${it}'`);
  const ended = await backUp(store, copy, {
    shell: `exec strace -f -qq -o ${file} ${options.join(" ")} "$0" "$@"`,
  });
  return { ended, trace: Deno.readTextFileSync(file) };
}

/** Returns the names of the calls that made the copy, in order. */
function callsOfCopy(trace: string): string[] {
  const calls = [...trace.matchAll(/^(\d+) +(\w+)\(.*$/gm)];
  const thread = calls.find(([line]) => line.includes(".partial"))?.[1];
  return calls.flatMap(([, id, name]) => id === thread && name ? [name] : []);
}

for (
  const [where, expressions] of [["", []], [
    " on a file system without hard links and permissions",
    [AS_FAT],
  ]] as const
) {
  Deno.test({
    name:
      `a backup${where} is complete, or missing after a kill at any sync, link, rename or removal`,
    ignore: !HAS_STRACE,
    fn: async () => {
      using directory = new TemporaryDirectory();
      using away = new TemporaryDirectory();
      const store = directory.file("plants.db");
      const lines = await createStore(store, 100);
      setWalMode(store);
      const copy = away.file(COPY);
      // The first run fills the caches of Deno, with calls of its own.
      await traceBackup(store, directory.file("first.db"));
      const { ended, trace } = await traceBackup(store, copy, expressions);
      assert.equal(ended.stderr, `${copy} is a complete copy, 100 entries\n`);
      assert.equal(ended.status, 0);
      assert.deepEqual(away.names(), [COPY]);
      assertSameLines(await exportLines(copy), lines);
      const isWithout = expressions.length > 0;
      assert.equal(/EPERM .*INJECTED/.test(trace), isWithout, trace);
      assertOneLine(
        (await traceBackup(store, copy, expressions)).ended,
        2,
        `${copy} already exists: name a new file`,
      );

      let kills = 0;
      let copies = 0;
      const calls = callsOfCopy(trace);
      for (const [i, call] of calls.entries()) {
        if (call === "linkat" && isWithout) continue;
        const nth = calls.slice(0, i + 1).filter((it) => it === call).length;
        using target = new TemporaryDirectory();
        const copy = target.file(COPY);
        // The files that a kill leaves beside a store change the next calls.
        const fresh = directory.file(`${i}.db`);
        Deno.copyFileSync(store, fresh);
        const { ended } = await traceBackup(fresh, copy, [
          ...expressions,
          `inject=${call}:signal=SIGKILL:when=${nth}`,
        ]);
        const where = `killed at the ${call} ${nth}`;
        if (ended.signal !== null) kills++;
        else assert.equal(ended.status, 0, where);
        const names = target.names();
        if (names.includes(COPY)) {
          copies++;
          assertSameLines(await exportLines(copy), lines);
        }
        for (const name of names.filter((name) => name !== COPY)) {
          assert.match(name, LEFTOVER, where);
        }
      }
      assert.ok(kills > 5, `${kills} kills at ${calls}`);
      assert.ok(copies > 0, "no kill came after the copy had its name");
    },
  });
}
