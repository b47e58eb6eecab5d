/** Starts that overlap with each other: none may take a live log for foreign. */
import { newPlants } from "../support/plants.ts";
import { eventually } from "../support/waiting.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { tracedOn, withStrace } from "../support/strace.ts";

/** What a start looks for before it opens the store, and which look it is. */
const LOOKS: readonly (readonly [suffix: string, look: number])[] = [
  ...[1, 2, 3].map((look) => ["", look] as const),
  ...[1, 2].map((look) => ["-wal", look] as const),
  ["-journal", 1],
  ["-shm", 1],
];

for (const [suffix, look] of LOOKS) {
  withStrace.test(`a start succeeds if another start creates the store and its log right after look ${look} for plants.db${suffix}`, async ({ directory, store, start, ledger }) => {
    const trace = directory.file("trace");
    const stop = `inject=statx:signal=SIGSTOP:when=${look}`;
    await using stopped = Program.spawn(
      ["--port", "0", "--kv", store],
      tracedOn(store + suffix, trace, "trace=statx", stop),
    );
    const lines = () => Deno.readTextFile(trace).catch(() => "");
    await eventually((text) => text.includes("stopped by SIGSTOP"), lines);
    await using other = await start();
    await ledger.store(other, newPlants([1n]));
    stopped.process.kill("SIGCONT");
    await stopped.printed(/listens on/);
    for (const it of [other, stopped]) assertSucceeded(await it.stop());
    await ledger.assertFile(store);
  });
}
