/** Stores with damaged pages: what an export writes, and the way back. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { assertSucceeded, type Ended, runProgram } from "../support/program.ts";
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

/** The first byte of a page that has plants, and no page below it. */
const LEAF = 0x0a;

/** Whether the ids of a store are random, or rising as its plants are created. */
const IDS = { rising: false, random: true } as const;

/** How many pages are destroyed; 0: one is copied over another. */
const DAMAGES = [1, 4, 40, 0] as const;

/** Returns some pages of a database that have plants. */
function drawPages(database: Buffer, count: number, random: Random): Buffer[] {
  const pages = new Map<number, Buffer>();
  while (pages.size < count) {
    const at = PAGE_BYTES * random.int(1, database.length / PAGE_BYTES - 1);
    const page = database.subarray(at, at + PAGE_BYTES);
    if (page[0] === LEAF && page.includes("Plant ")) pages.set(at, page);
  }
  return [...pages.values()];
}

/** Damages pages of a database; returns what they had. */
function damage(database: Buffer, count: number, random: Random): string[] {
  const pages = drawPages(database, count || 2, random);
  const before = pages.map((page) => page.toString("latin1"));
  if (count === 0) pages[0]?.set(pages[1] ?? []);
  else {
    for (const page of pages) {
      page.forEach((_, i) => page[i] = random.int(0, 255));
    }
  }
  return before;
}

/**
 * Asserts that an export of a damaged store is incomplete, and says so.
 * @returns the exported lines
 */
function assertIncomplete(
  { status, stdout, stderr }: Ended,
  lines: readonly string[],
): string[] {
  assert.match(
    stderr,
    /^the database is damaged: plants may be missing\n\d+ exported, 0 skipped(, \d+ gaps?)?\n$/m,
  );
  assert.equal(status, 1);
  const exported = stdout.split("\n").slice(0, -1);
  const found = new Set(exported);
  assertSameLines(exported, lines.filter((line) => found.has(line)));
  return exported;
}

/** Asserts that plants are in the gaps of an export, and in destroyed pages. */
function assertLost(
  missing: readonly string[],
  stderr: string,
  destroyed: readonly string[],
): void {
  const gaps = Array.from(
    stderr.matchAll(/^ids (-?\d+) to (-?\d+) cannot be read$/gm),
    ([, first = "", last = ""]) => [BigInt(first), BigInt(last)] as const,
  );
  let between = 0;
  for (const line of missing) {
    const id = BigInt(/-?\d+/.exec(line)?.[0] ?? "");
    const isNamed = gaps.some(([first, last]) => first <= id && id <= last);
    assert.ok(isNamed, `${id} is in no gap`);
    const name = `Plant ${id}.`;
    if (!destroyed.some((page) => page.includes(name))) between++;
  }
  // SQLite finds the plant between two pages by way of the first one.
  assert.ok(between <= destroyed.length, `${between} were in no such page`);
}

for (const [ids, isRandom] of Object.entries(IDS)) {
  test(`an export of a store with ${ids} ids and 1, 4 or 40 destroyed pages, or a page in the place of another, has every other plant and ends with 1, and with a backup it is the way back`, async ({ directory, store }) => {
    const seed = seedOfRun();
    const random = new Random(seed);
    try {
      const drawn = Array.from(
        { length: PLANTS },
        (_, i) => isRandom ? drawId(random) : BigInt(i),
      );
      const lines = Array.from(
        BigInt64Array.from(drawn).sort(),
        (id) => toLine(id, `Plant ${id}.`),
      );
      const created = isRandom ? shuffle(random, lines) : lines;
      const old = created.slice(0, PLANTS / 2);
      const backup = directory.file("backup.db");
      await storeLines(store, old);
      assertSucceeded(await backUp(store, backup));
      await storeLines(store, created);
      const intact = Deno.readFileSync(store);
      for (const count of DAMAGES) {
        const database = Buffer.from(intact);
        const destroyed = damage(database, count, random);
        Deno.writeFileSync(store, database);
        const ended = await runProgram(["export", "--kv", store]);
        const exported = assertIncomplete(ended, lines);
        const found = new Set(exported);
        const missing = lines.filter((line) => !found.has(line));
        if (count > 0) assertLost(missing, ended.stderr, destroyed);
        if (count !== 40) continue;
        const file = writeLines(directory.file("exported"), exported);
        const restored = directory.file("restored.db");
        assertSucceeded(await restore(restored, backup));
        assertSucceeded(await importFile(restored, file));
        const expected = new Set([...old, ...exported]);
        assertSameLines(
          await exportLines(restored),
          lines.filter((line) => expected.has(line)),
        );
      }
    } catch (cause) {
      throw new Error(`with SEED=${seed}`, { cause });
    }
  });
}
