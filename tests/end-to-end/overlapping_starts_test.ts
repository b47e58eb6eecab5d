/** Starts that overlap with each other: none may take a live log for foreign. */
import { newPlants } from "../support/plants.ts";
import { eventually } from "../support/waiting.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { tracedOn, withStrace } from "../support/strace.ts";

/** How often a start looks for the database before it opens the store. */
const LOOKS = 4;

for (let look = 1; look <= LOOKS; look++) {
  withStrace.test(`a start succeeds if another start creates the store and its log right after look ${look} of ${LOOKS} for it`, async ({ directory, store, start, ledger }) => {
    const trace = directory.file("trace");
    const stop = `inject=statx:signal=SIGSTOP:when=${look}`;
    await using stopped = Program.spawn(
      ["--port", "0", "--kv", store],
      tracedOn(store, trace, "trace=statx", stop),
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
