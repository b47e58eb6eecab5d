/** A database file, or its log, that is deleted or replaced under a service. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import {
  inParallel,
  isStored,
  Ledger,
  occurrences,
  PLANT,
  send,
} from "../support/load.ts";
import {
  assertOneLine,
  Program,
  runProgram,
  statusOf,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;

const FAILING = /error: the store fails/g;
const RECOVERED = /the store has recovered/g;

Deno.test("a database file that is moved away and back fails creates until a restart, which has every plant", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const away = directory.file("away.db");
  const ledger = new Ledger();
  {
    await using program = await Program.start(["--kv", path]);
    await ledger.send(program, { id: 1n, plant: PLANT });
    Deno.renameSync(path, away);
    // Without a create, it is found within an interval.
    await program.printed(/the store fails: .*file was deleted/);
    Deno.renameSync(away, path);
    await assertFails(program, /the store fails: .*file was deleted/g);
    await program.stop();
  }
  await using program = await Program.start(["--kv", path]);
  await ledger.replay(program);
  // A create that was answered 503 may be stored, so it is repeated.
  for (let id = 2n; id <= 20n; id++) {
    assert.ok(isStored(await ledger.send(program, { id, plant: PLANT })));
  }
  await program.stop();
  assert.equal(await ledger.assertFile(path), 20);
});

Deno.test("a replaced database file causes 503 for creates, is logged once, and a restart without its log opens the new one", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const other = directory.file("other.db");
  const ledger = await createStore(other);
  {
    await using program = await Program.start(["--kv", path]);
    assert.ok(isStored(await send(program, { id: 1n, plant: PLANT })));
    Deno.renameSync(other, path);
    await assertFails(program, /the store fails: .*file was replaced/g);
    await program.stop();
  }
  const ended = await runProgram(["--port", "0", "--kv", path]);
  assertOneLine(ended, 2, /plants\.db-wal belongs to another database/);
  Deno.removeSync(`${path}-wal`);
  await using program = await Program.start(["--kv", path]);
  await ledger.replay(program);
  assert.ok(isStored(await ledger.send(program, { id: 8n, plant: PLANT })));
  await program.stop();
  assert.equal(await ledger.assertFile(path), 2);
});

Deno.test("a deleted log behind a link causes 503 for creates, and a restart has every acknowledged plant", async () => {
  using directory = new TemporaryDirectory();
  const real = directory.file("plants.db");
  const path = directory.file("link.db");
  Deno.symlinkSync(real, path);
  const ledger = new Ledger();
  {
    await using program = await Program.start(["--kv", path]);
    await ledger.send(program, { id: 100n, plant: PLANT });
    Deno.removeSync(`${real}-wal`);
    // The log is checked at an interval, and by GET /readyz.
    assert.equal(await statusOf(program.get("/readyz")), 503);
    await assertFails(program, /the store fails: plants\.db-wal was deleted/g);
    await program.stop();
  }
  await using program = await Program.start(["--kv", path]);
  await ledger.replay(program);
  await program.stop();
});

/** Creates a store with one plant. */
async function createStore(path: string): Promise<Ledger> {
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  await ledger.send(program, { id: 7n, plant: PLANT });
  await program.stop();
  return ledger;
}

/** Asserts that every create fails, and that one line names the problem. */
async function assertFails(program: Program, line: RegExp): Promise<void> {
  const ids = Array.from({ length: 20 }, (_, i) => BigInt(i + 1));
  for (const pass of [1, 2]) {
    await inParallel(ids, async (id) => {
      const { status, error, retryAfter } = await send(program, {
        id,
        plant: PLANT,
      });
      const create = `create ${id} in pass ${pass}`;
      assert.deepEqual([status, error], [503, STORE_FAILED], create);
      assert.ok(retryAfter !== undefined, create);
    }, 4);
  }
  assert.equal(occurrences(program.stderr, line), 1, program.stderr);
  assert.equal(occurrences(program.stderr, FAILING), 1, program.stderr);
  assert.equal(occurrences(program.stderr, RECOVERED), 0, program.stderr);
}
