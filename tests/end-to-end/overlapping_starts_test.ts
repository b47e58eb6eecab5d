/** Starts that overlap with each other: none may take a live log for foreign. */
import { Ledger } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { newPlants } from "../support/plants.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { tracedOn } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { eventually } from "../support/waiting.ts";

/** What a start looks for before it opens the store, and which look it is. */
const LOOKS: readonly (readonly [suffix: string, look: number])[] = [
  // realPathOf(): is it a link to a file that is missing?
  ["", 1],
  // openMsMax() has the size of the log.
  ["-wal", 1],
  // inspect(): is it a log without its store?
  ["-journal", 1],
  ["-wal", 2],
  ["-shm", 1],
  // inspect(): is there a store?
  ["", 2],
  // WatchedFiles: which file is it?
  ["", 3],
];

for (const [suffix, look] of LOOKS) {
  Deno.test({
    name:
      `a start succeeds if another start creates the store and its log right after look ${look} for plants.db${suffix}`,
    ignore: isMissing("strace"),
    async fn() {
      using directory = new TemporaryDirectory();
      const store = directory.file("plants.db");
      const ledger = new Ledger();
      const trace = directory.file("trace");
      const stop = `inject=statx:signal=SIGSTOP:when=${look}`;
      await using stopped = Program.spawn(
        ["--port", "0", "--kv", store],
        tracedOn(store + suffix, trace, "trace=statx", stop),
      );
      const lines = () => Deno.readTextFile(trace).catch(() => "");
      await eventually(lines, (text) => text.includes("stopped by SIGSTOP"));
      await using other = await Program.start(store);
      await ledger.store(other, newPlants([1n]));
      stopped.process.kill("SIGCONT");
      await stopped.printed(/listens on/);
      for (const it of [other, stopped]) assertSucceeded(await it.stop());
      await ledger.assertFile(store);
    },
  });
}
