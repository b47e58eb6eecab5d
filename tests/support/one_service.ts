import assert from "node:assert/strict";
import { entriesOf, type Entry } from "./entries.ts";
import { assertSucceeded, Program } from "./program.ts";
import { TemporaryDirectory } from "./temporary.ts";

/** What a test does with a service, and what it stores there. */
type Run = (program: Program) => Promise<readonly Entry[] | void>;

/** Starts a service for all tests of a file, which it returns a function for. */
export function testsOfOneService() {
  const resources = new AsyncDisposableStack();
  let program: Program;
  let kv: Deno.Kv;
  Deno.test.beforeAll(async () => {
    const directory = resources.use(new TemporaryDirectory());
    const file = directory.file("plants.db");
    program = await Program.start(file);
    resources.defer(async () => {
      const ended = await program.stop();
      assertSucceeded(ended);
      assert.doesNotMatch(ended.stderr, /error/);
    });
    kv = resources.use(await Deno.openKv(file));
  });
  Deno.test.afterAll(() => resources.disposeAsync());
  return {
    /** Registers a test, which stores exactly the entries that it returns. */
    test: (name: string, run: Run) =>
      Deno.test(name, async () => {
        const before = await entriesOf(kv);
        const added = await run(program) ?? [];
        assert.deepEqual(await entriesOf(kv), [...before, ...added]);
      }),
  };
}
