import assert from "node:assert/strict";
import { INDEX_LEAF, overwrite, PAGE_BYTES } from "../support/damage.ts";
import { newPlants, range, toBody } from "../support/plants.ts";
import { eventually, inParallel } from "../support/waiting.ts";
import { assertSucceeded, runProgram, STACK } from "../support/program.ts";
import { test } from "../support/tests.ts";
import {
  createStore,
  exportLines,
  importFile,
  toLine,
  writeLines,
} from "../support/transfer.ts";

test("export ends without a message when its reader closes the pipe", async ({ store }) => {
  const lines = await createStore(store, 5_000);
  const { stdout, stderr, status } = await runProgram(
    ["export", "--kv", store],
    { shell: '{ "$0" "$@"; echo "ended with $?" >&2; } | head -n 2' },
  );
  assert.equal(stdout, `${lines.slice(0, 2).join("\n")}\n`);
  assert.equal(stderr, "ended with 141\n");
  assert.equal(status, 0);
});

test("an import and an export beside a service that creates lose nothing, and the export has every earlier plant, in order", async ({ directory, store, start, ledger }) => {
  await using program = await start();
  let isOver = false;
  // On both sides of the imported plants.
  const ids = range(1n, 50_000).map((id) => id % 2n === 0n ? -id : id + 5_000n);
  const load = inParallel(newPlants(ids), async (newPlant) => {
    if (!isOver) await ledger.send(program, newPlant);
  }, 16);
  const lines = range(1n, 5_000).map((id) => toLine(id, `Imported ${id}`));
  const file = writeLines(directory.file("in"), lines);
  assertSucceeded(await importFile(store, file));
  await eventually((count) => count > 1_000, () => ledger.acknowledged.size);
  const earlier = [...ledger.acknowledged.values()].map(toBody);
  const exported = await exportLines(store);
  isOver = true;
  await load;
  const missing = new Set([...lines, ...earlier]).difference(new Set(exported));
  assert.equal(missing.size, 0);
  const found = exported.map((line) => BigInt(/-?\d+/.exec(line)?.[0] ?? ""));
  assert.ok(found.every((id, i) => i === 0 || id > (found[i - 1] ?? 0n)));
  const creates = (await exportLines(store))
    .filter((line) => !line.includes("Imported"));
  ledger.assertLines(creates.join("\n"));
});

const NAME = /Plant \d+/g;

test("export of a store with a destroyed page shows no stack, ends with 0 only if it writes every plant, and misses at most the plants of that page", async ({ directory, store }) => {
  const lines = await createStore(store, 1_000);
  const bytes = Deno.readFileSync(store);
  const copy = directory.file("copy.db");
  const latin1 = new TextDecoder("latin1");
  for (let offset = 0; offset < bytes.length; offset += PAGE_BYTES) {
    Deno.copyFileSync(store, copy);
    overwrite(copy, offset, PAGE_BYTES);
    const { status, stdout, stderr } = await runProgram(
      ["export", "--kv", copy],
    );
    const page = `page ${offset / PAGE_BYTES}, status ${status}: ${stderr}`;
    assert.ok(status <= 2 && (status === 0) === (stderr === ""), page);
    assert.doesNotMatch(stderr, STACK);
    const exported = new Set(stdout.split("\n").slice(0, -1));
    assert.ok(exported.isSubsetOf(new Set(lines)), page);
    const missing = new Set(lines).difference(exported);
    if (status === 0) assert.equal(missing.size, 0, page);
    const text = latin1.decode(bytes.subarray(offset, offset + PAGE_BYTES));
    const own = new Set(text.match(NAME));
    // Without some others, the store cannot be opened, or no plant be found.
    if (bytes[offset] !== INDEX_LEAF || own.size === 0) continue;
    const names = new Set([...missing].join().match(NAME));
    assert.ok(names.isSubsetOf(own), page);
  }
});
