/** Starts that overlap with each other: none may take a live log for foreign. */
import assert from "node:assert/strict";
import { Ledger } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { newPlants } from "../support/plants.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { tracedOn } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { eventually } from "../support/waiting.ts";

for (const suffix of ["", "-wal", "-shm", "-journal"]) {
  Deno.test({
    name:
      `a start succeeds if another start creates the store right after any of its looks for plants.db${suffix}`,
    ignore: isMissing("strace"),
    async fn() {
      let looks = 0;
      while (await isOvertaken(suffix, looks + 1)) looks++;
      assert.ok(looks > 0, "no start has looked for it");
    },
  });
}

/**
 * Stops a start right after one of its looks for a file, until another start has
 * created the store and stored a plant.
 * @param suffix of the file, after the path of the store
 * @param look 1 for the first one
 * @returns false if the start has fewer looks for it
 */
async function isOvertaken(suffix: string, look: number): Promise<boolean> {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const trace = directory.file("trace");
  const stop = `inject=statx:signal=SIGSTOP:when=${look}`;
  await using overtaken = Program.spawn(
    ["--port", "0", "--kv", store],
    tracedOn(store + suffix, trace, "trace=statx", stop),
  );
  const isListening = () => /listens on/.test(overtaken.stderr);
  const isStopped = async () => {
    const calls = await Deno.readTextFile(trace).catch(() => "");
    return calls.includes("stopped by SIGSTOP");
  };
  await overtaken.causes(
    eventually(async () => isListening() || await isStopped()),
  );
  // A service goes on to look while it listens.
  if (isListening()) return false;
  const ledger = new Ledger();
  await using other = await Program.start(store);
  await ledger.store(other, newPlants([1n]));
  overtaken.process.kill("SIGCONT");
  await overtaken.printed(/listens on/);
  for (const it of [other, overtaken]) assertSucceeded(await it.stop());
  await ledger.assertFile(store);
  return true;
}
