/** Stores with damaged pages: what an export writes, and the way back. */
import assert from "node:assert/strict";
import { pagesOf } from "../support/damage.ts";
import { assertSucceeded, runProgram } from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { test } from "../support/tests.ts";
import {
  assertSameLines,
  backUp,
  drawId,
  exportLines,
  importFile,
  restore,
  shuffle,
  storeLines,
  toLine,
  writeLines,
} from "../support/transfer.ts";

const PLANTS = 10_000;

const PAGE_BYTES = 4_096;

/** Asserts that plants are in the gaps that an export has named. */
function assertNamed(missing: readonly string[], stderr: string): void {
  const gaps = Array.from(
    stderr.matchAll(/^ids (-?\d+) to (-?\d+) cannot be read$/gm),
    ([, first = "", last = ""]) => [BigInt(first), BigInt(last)] as const,
  );
  for (const line of missing) {
    const id = BigInt(/-?\d+/.exec(line)?.[0] ?? "");
    const isNamed = gaps.some(([first, last]) => first <= id && id <= last);
    assert.ok(isNamed, `${id} is in no gap`);
  }
}

for (const ids of ["rising", "random"]) {
  test(`an export of a store with ${ids} ids and 1, 4 or 40 pages of random bytes names every missing plant and ends with 1, and with a backup it is the way back`, async ({ directory, store }) => {
    const seed = seedOfRun();
    const random = new Random(seed);
    try {
      const drawn = Array.from(
        { length: PLANTS },
        (_, i) => ids === "random" ? drawId(random) : BigInt(i),
      );
      const lines = Array.from(
        BigInt64Array.from(drawn).sort(),
        (id) => toLine(id, `Plant ${id}.`),
      );
      const created = ids === "random" ? shuffle(random, lines) : lines;
      const old = created.slice(0, PLANTS / 2);
      const backup = directory.file("backup.db");
      await storeLines(store, old);
      assertSucceeded(await backUp(store, backup));
      await storeLines(store, created);
      const intact = Deno.readFileSync(store);
      const pages = pagesOf(store);
      let exported: string[] = [];
      for (const count of [1, 4, 40]) {
        const damaged = intact.slice();
        for (let i = 0; i < count; i++) {
          const { offset } = random.pick(pages);
          const page = damaged.subarray(offset, offset + PAGE_BYTES);
          page.forEach((_, i) => page[i] = random.int(0, 255));
        }
        Deno.writeFileSync(store, damaged);
        const ended = await runProgram(["export", "--kv", store]);
        assert.match(
          ended.stderr,
          /^the database is damaged: plants may be missing\n\d+ exported, 0 skipped, \d+ gaps?\n$/m,
        );
        assert.equal(ended.status, 1);
        exported = ended.stdout.split("\n").slice(0, -1);
        const found = new Set(exported);
        const isFound = Map.groupBy(lines, (line) => found.has(line));
        assertSameLines(exported, isFound.get(true) ?? []);
        assertNamed(isFound.get(false) ?? [], ended.stderr);
      }
      const file = writeLines(directory.file("exported"), exported);
      const restored = directory.file("restored.db");
      assertSucceeded(await restore(restored, backup));
      assertSucceeded(await importFile(restored, file));
      const expected = new Set([...old, ...exported]);
      assertSameLines(
        await exportLines(restored),
        lines.filter((line) => expected.has(line)),
      );
    } catch (cause) {
      throw new Error(`with SEED=${seed}`, { cause });
    }
  });
}
