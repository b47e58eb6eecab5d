/** Starts that overlap with each other: none may take a live log for foreign. */
import assert from "node:assert/strict";
import { isStored, PLANT, send } from "../support/load.ts";
import { Program } from "../support/program.ts";
import { assertInjected, tracedOn, withStrace } from "../support/strace.ts";
import { test } from "../support/tests.ts";

for (const isNew of [true, false]) {
  for (const [i, look] of ["first", "second"].entries()) {
    const store = isNew ? "a new store" : "a closed store";
    withStrace.test(`a start on ${store} that examines the log for the ${look} time after another start succeeds`, async ({ directory, store, start }) => {
      const trace = directory.file("trace");
      if (!isNew) await startAndStop(store);
      const delay = `inject=statx:delay_enter=1500000:when=${i + 1}`;
      await using slow = Program.spawn(
        ["--port", "0", "--kv", store],
        tracedOn(`${store}-wal`, trace, "trace=statx", delay),
      );
      await using other = await start();
      assert.ok(isStored(await send(other, { id: 1n, plant: PLANT })));
      await slow.printed(/listens on/);
      for (const program of [other, slow]) {
        assert.equal((await program.stop()).status, 0, program.stderr);
      }
      assertInjected(trace);
    });
  }
}

test("starts of one new store at the same time succeed, and it has the plants of all", async ({ directory, store, start, ledger }) => {
  const programs = await Promise.all(Array.from({ length: 4 }, () => start()));
  for (const [i, program] of programs.entries()) {
    const newPlant = { id: BigInt(i), plant: PLANT };
    assert.ok(isStored(await ledger.send(program, newPlant)));
  }
  for (const program of programs) {
    assert.equal((await program.stop()).status, 0, program.stderr);
  }
  assert.deepEqual(directory.names(), ["plants.db"]);
  assert.equal(await ledger.assertFile(store), programs.length);
});

async function startAndStop(path: string): Promise<void> {
  await using program = await Program.start(["--kv", path]);
  await program.stop();
}
