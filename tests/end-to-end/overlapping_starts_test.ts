/** Starts that overlap with each other: none may take a live log for foreign. */
import assert from "node:assert/strict";
import { isStored, PLANT, send } from "../support/load.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { assertInjected, tracedOn, withStrace } from "../support/strace.ts";
import { createStore } from "../support/transfer.ts";

for (const isNew of [true, false]) {
  for (const [i, look] of ["first", "second"].entries()) {
    const store = isNew ? "a new store" : "a closed store";
    withStrace.test(`a start on ${store} that examines the log for the ${look} time after another start succeeds`, async ({ directory, store, start }) => {
      const trace = directory.file("trace");
      if (!isNew) await createStore(store, 1);
      const delay = `inject=statx:delay_enter=1500000:when=${i + 1}`;
      await using slow = Program.spawn(
        ["--port", "0", "--kv", store],
        tracedOn(`${store}-wal`, trace, "trace=statx", delay),
      );
      await using other = await start();
      assert.ok(isStored(await send(other, { id: 2n, plant: PLANT })));
      await slow.printed(/listens on/);
      for (const program of [other, slow]) {
        assertSucceeded(await program.stop());
      }
      assertInjected(trace);
    });
  }
}
