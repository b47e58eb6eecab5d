/** Starts that overlap with each other: none may take a live log for foreign. */
import assert from "node:assert/strict";
import { eventually, isStored, PLANT, send } from "../support/load.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { assertInjected, tracedOn, withStrace } from "../support/strace.ts";
import { createStore } from "../support/transfer.ts";

/** How often a start examines the log before it opens the store. */
const LOOKS = { "a new store": 2, "a closed store": 3 } as const;

for (const [what, looks] of Object.entries(LOOKS)) {
  for (let look = 1; look <= looks; look++) {
    withStrace.test(`a start on ${what} succeeds if another start creates the log right after look ${look} of ${looks} for it`, async ({ directory, store, start }) => {
      const trace = directory.file("trace");
      if (what === "a closed store") await createStore(store, 1);
      const stop = `inject=statx:signal=SIGSTOP:when=${look}`;
      await using stopped = Program.spawn(
        ["--port", "0", "--kv", store],
        tracedOn(`${store}-wal`, trace, "trace=statx", stop),
      );
      await eventually(
        (lines) => lines.includes("stopped by SIGSTOP"),
        () => Deno.readTextFile(trace).catch(() => ""),
      );
      await using other = await start();
      assert.ok(isStored(await send(other, { id: 2n, plant: PLANT })));
      stopped.process.kill("SIGCONT");
      await stopped.printed(/listens on/);
      for (const program of [other, stopped]) {
        assertSucceeded(await program.stop());
      }
    });
  }
}

// A signal stops a process after a call only, so this one is delayed before it.
withStrace.test("a start succeeds if another start creates the log right before the first look for it", async ({ directory, store, start }) => {
  const trace = directory.file("trace");
  const delay = "inject=statx:delay_enter=1500000:when=1";
  await using slow = Program.spawn(
    ["--port", "0", "--kv", store],
    tracedOn(`${store}-wal`, trace, "trace=statx", delay),
  );
  await using other = await start();
  assert.ok(isStored(await send(other, { id: 2n, plant: PLANT })));
  await slow.printed(/listens on/);
  for (const program of [other, slow]) assertSucceeded(await program.stop());
  assertInjected(trace);
});
