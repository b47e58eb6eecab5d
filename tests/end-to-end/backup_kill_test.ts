/** A backup has its name only when it is complete. */
import assert from "node:assert/strict";
import { assertOneLine, type Ended } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { HAS_STRACE } from "../support/tools.ts";
import {
  assertSameLines,
  backUp,
  createStore,
  exportLines,
  setWalMode,
} from "../support/transfer.ts";

const COPY = "copy.db";
const LEFTOVER = /^copy\.db\.[0-9a-f]{8}\.partial(-wal|-shm|-journal)?$/;

/** The system calls that write a file, sync it or change its name. */
const CALLS = "pwrite64,fsync,fdatasync,linkat,renameat,renameat2,unlinkat," +
  "?link,?rename,?unlink";

/** Kills at writes: the others do what the first ones do. */
const WRITE_KILLS_MAX = 2;

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
      `a backup${where} is complete, or missing after a kill at any write, sync, link, rename or removal`,
    ignore: !HAS_STRACE,
    fn: async () => {
      using directory = new TemporaryDirectory();
      using away = new TemporaryDirectory();
      const store = directory.file("plants.db");
      const lines = await createStore(store, 100);
      setWalMode(store);
      Deno.chmodSync(store, 0o600);
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
        const writesMax = isWithout ? 0 : WRITE_KILLS_MAX;
        if (call === "pwrite64" && nth > writesMax) continue;
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
          const mode = Deno.statSync(target.file(name)).mode ?? 0;
          assert.equal(mode & 0o077, 0, `others may read ${name}, ${where}`);
        }
      }
      assert.ok(kills > 3, `${kills} kills at ${calls}`);
      assert.ok(copies > 0, "no kill came after the copy had its name");
    },
  });
}
