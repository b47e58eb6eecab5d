import assert from "node:assert/strict";
import { destroyPage, leavesOf, PAGE_BYTES } from "../support/accidents.ts";
import { createDuring } from "../support/instances.ts";
import { Ledger } from "../support/ledger.ts";
import {
  makeStore,
  newPlants,
  range,
  toJson,
  writeLines,
} from "../support/plants.ts";
import {
  assertSucceeded,
  exportLines,
  importFile,
  Program,
  runProgram,
  STACK,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

Deno.test("export ends without a message when its reader closes the pipe", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const plants = newPlants(range(1n, 5_000));
  await makeStore(store, plants);
  const { stdout, stderr, status } = await runProgram(
    ["export", "--kv", store],
    { shell: '{ "$0" "$@"; echo "ended with $?" >&2; } | head -n 2' },
  );
  assert.equal(stdout, `${plants.slice(0, 2).map(toJson).join("\n")}\n`);
  assert.equal(stderr, "ended with 141\n");
  assert.equal(status, 0);
});

/** Returns ids below and above those of the imported plants. */
function onBothSides(number: bigint): bigint {
  return number % 2n === 0n ? -number : number + 5_000n;
}

Deno.test("an import and an export beside a service that creates lose nothing, and the export has every earlier plant, in order", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const ledger = new Ledger();
  await using program = await Program.start(store);
  const lines = range(1n, 5_000)
    .map((id) => toJson({ id, plant: { name: `Imported ${id}` } }));
  const file = writeLines(directory.file("in"), lines);
  await createDuring([program], ledger, async () => {
    assertSucceeded(await importFile(store, file));
    await ledger.acknowledges(1_000);
    const earlier = [...ledger.acknowledged.values()].map(toJson);
    const exported = await exportLines(store);
    const expected = new Set([...lines, ...earlier]);
    const missing = expected.difference(new Set(exported));
    assert.equal(missing.size, 0);
    const ids = exported.map((line) => BigInt(/-?\d+/.exec(line)?.[0] ?? ""));
    assert.ok(ids.every((id, i) => i === 0 || id > (ids[i - 1] ?? 0n)));
  }, onBothSides);
  const creates = (await exportLines(store))
    .filter((line) => !line.includes("Imported"));
  ledger.assertLines(creates.join("\n"));
});

const NAME = /Monstera \d+/g;

Deno.test("export of a store with a destroyed page misses at most its plants, and ends with 0 only if it misses none", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const plants = newPlants(range(1n, 1_000));
  await makeStore(store, plants);
  const lines = new Set(plants.map(toJson));
  const leaves = new Map(leavesOf(store).map(({ page, text }) => [page, text]));
  const copy = directory.file("copy.db");
  const pages = Deno.statSync(store).size / PAGE_BYTES;
  let pagesWithPlants = 0;
  for (let number = 1; number <= pages; number++) {
    Deno.copyFileSync(store, copy);
    destroyPage(copy, number);
    // A process each: a page that Deno reads unchecked would end this one.
    const { status, stdout, stderr } = await runProgram(
      ["export", "--kv", copy],
    );
    const page = `page ${number}, status ${status}: ${stderr}`;
    assert.ok(status <= 2 && (status === 0) === (stderr === ""), page);
    assert.doesNotMatch(stderr, STACK);
    const exported = new Set(stdout.split("\n").slice(0, -1));
    assert.ok(exported.isSubsetOf(lines), page);
    const missing = lines.difference(exported);
    if (status === 0) assert.equal(missing.size, 0, page);
    const own = new Set(leaves.get(number)?.match(NAME));
    // Without some others, the store cannot be opened, or no plant be found.
    if (own.size === 0) continue;
    pagesWithPlants++;
    const names = new Set([...missing].join().match(NAME));
    assert.ok(names.isSubsetOf(own), page);
  }
  assert.ok(pagesWithPlants > 5, `${pagesWithPlants} pages`);
});
