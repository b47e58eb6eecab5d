import assert from "node:assert/strict";
import { dirname } from "node:path";
import { exportPlants } from "../../src/commands/export.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import { openStore } from "../../src/store/open.ts";
import { capture } from "../support/console.ts";
import {
  destroyPages,
  execute,
  overwrite,
  PAGE_BYTES,
  repeatPage,
} from "../support/damage.ts";
import { makeBackup, makeLog, makeStore } from "../support/places.ts";
import { newPlants, range, toBody } from "../support/plants.ts";
import { withSeed } from "../support/random.ts";
import { replaced } from "../support/replaced.ts";
import { commitAll, fileAt } from "../support/stores.ts";
import { test } from "../support/tests.ts";
import { drawId } from "../support/transfer.ts";

/** Exports the plants of some ids, or all, in this process. */
function exportFrom(path: string, ids: readonly string[] = []) {
  return capture(() => exportPlants(fileAt(path), ids));
}

/** Returns plants as an export writes them. */
function linesOf(plants: readonly NewPlant[]): string {
  return plants.map((plant) => `${toBody(plant)}\n`).join("");
}

test("exportPlants() writes those of some ids, and names those that it cannot", async ({ store: path }) => {
  const plants = newPlants([1n, 2n, 3n]);
  await makeStore(path, plants);
  const second = "SELECT k FROM kv ORDER BY k LIMIT 1 OFFSET 1";
  execute(path, `UPDATE kv SET v_encoding = 9 WHERE k = (${second})`);
  const { result, stdout, stderr } = await exportFrom(path, ["3", "2", "7"]);
  assert.equal(stdout, linesOf(plants.slice(2)));
  const [unreadable = "", ...others] = stderr.split("\n");
  assert.match(unreadable, /^id 2: cannot be read: a newer Deno stored /);
  assert.deepEqual(others, ["id 7: no such plant", "1 exported, 2 skipped"]);
  assert.equal(result, 1);
  await assert.rejects(exportFrom(path, ["one"]), /expected an id .*"one"/);
  Deno.removeSync(path);
  await assert.rejects(exportFrom(path), {
    name: "OperatorError",
    message: /^cannot read \S+plants\.db: no such file: check the path/,
  });
});

test("exportPlants() counts entries of other programs, and does not take them for damage", async ({ store: path }) => {
  const plants = newPlants([1n, 2n]);
  await makeStore(path, plants);
  {
    using kv = await Deno.openKv(path);
    await kv.set(["plants", 7n], "text");
  }
  assert.deepEqual(await exportFrom(path), {
    result: 1,
    stdout: linesOf(plants),
    stderr: "id 7: not a plant of this service\n2 exported, 1 skipped",
  });
});

/** Returns the gaps that an export has named. */
function gapsIn(stderr: string) {
  return stderr.matchAll(/^ids (-?\d+) to (-?\d+) cannot be read$/gm)
    .map(([, first = "", last = ""]) => [BigInt(first), BigInt(last)] as const)
    .toArray();
}

function isIn(gaps: ReturnType<typeof gapsIn>) {
  return (id: bigint) => gaps.some(([from, to]) => from <= id && id <= to);
}

const DAMAGED =
  "the database is damaged, or a newer Deno stored plants in it: plants may be missing or changed, also outside of gaps";

test("exportPlants() of a file that only SQLite finds damaged writes every plant, and fails", async ({ store: path }) => {
  const plants = newPlants(range(1n, 300));
  await makeStore(path, plants);
  assert.equal((await exportFrom(path)).result, 0);
  // The number of free pages, in the header.
  overwrite(path, 36, 4);
  assert.deepEqual(await exportFrom(path), {
    result: 1,
    stdout: linesOf(plants),
    stderr: `${DAMAGED}\n300 exported, 0 skipped`,
  });
});

test("exportPlants() fails if a value cannot be read, although SQLite finds no damage", async ({ store: path }) => {
  const plants = newPlants([1n, 2n, 3n]);
  await makeStore(path, plants);
  const second = "SELECT k FROM kv ORDER BY k LIMIT 1 OFFSET 1";
  execute(path, `UPDATE kv SET v_encoding = 9 WHERE k = (${second})`);
  assert.deepEqual(await exportFrom(path), {
    result: 1,
    stdout: linesOf(plants.toSpliced(1, 1)),
    stderr:
      `ids 2 to 2 cannot be read\n${DAMAGED}\n2 exported, 0 skipped, 1 gap`,
  });
});

test("exportPlants() fails if a page is in the place of the one before it, also where the listing has no gap", async ({ directory, store: path }) => {
  const plants = newPlants(range(1n, 1_000));
  await makeStore(path, plants);
  const copy = directory.file("copy.db");
  let withoutGap = 0;
  for (let page = 0;; page++) {
    Deno.copyFileSync(path, copy);
    if (!repeatPage(copy, page)) break;
    const { result, stderr } = await exportFrom(copy);
    assert.equal(result, 1, `page ${page}`);
    if (gapsIn(stderr).length === 0) withoutGap++;
  }
  assert.ok(withoutGap > 0);
});

/** The pages that every store has and that have no plants. */
const OTHER_PAGES = [1, 2, 3, 5, 6, 7, 8, 9];

test("exportPlants() writes every plant if pages without plants are destroyed, and what is left of a truncated file, and leaves no copy", async ({ directory, store: path }) => {
  const plants = newPlants(range(1n, 1_000));
  await makeStore(path, plants);
  const copy = directory.file("copy.db");
  const destroy = (page: number) =>
    overwrite(copy, (page - 1) * PAGE_BYTES, PAGE_BYTES);
  for (
    const damage of [
      ...OTHER_PAGES.map((page) => () => destroy(page)),
      () => Deno.truncateSync(copy, 20 * PAGE_BYTES),
    ]
  ) {
    Deno.copyFileSync(path, copy);
    damage();
    const { result, stdout, stderr } = await exportFrom(copy);
    const kept = plants.filter(({ id }) => !isIn(gapsIn(stderr))(id));
    assert.ok(stdout === linesOf(kept) && kept.length > 500, stderr);
    assert.equal(result, 1);
  }
  // As a killed service leaves it.
  const store = await openStore(fileAt(path));
  const later = newPlants(range(1_001n, 1_000));
  // Also in the log: a value of another type, and a damaged schema.
  execute(path, "INSERT INTO queue VALUES (x'00', 'id', x'00', '[]', '[]')");
  overwrite(path, PAGE_BYTES / 2, PAGE_BYTES / 2);
  await commitAll(store, later);
  for (const end of ["", "-wal"]) Deno.copyFileSync(path + end, copy + end);
  store.close();
  for (const page of OTHER_PAGES) destroy(page);
  const { result, stdout } = await exportFrom(copy);
  assert.ok(stdout === linesOf([...plants, ...later]));
  assert.equal(result, 1);
  const files = ["", "-shm", "-wal"].map((end) => `copy.db${end}`);
  assert.deepEqual(directory.names(), [...files, "plants.db"]);
});

test("exportPlants() writes what is left of a truncated file and its log, which has pages beyond the end", async ({ directory, store: path }) => {
  await makeStore(path, newPlants(range(1n, 1_000)));
  const plants = newPlants(range(1n, 2_000));
  const store = await openStore(fileAt(path));
  await commitAll(store, plants.slice(1_000));
  const copy = directory.file("copy.db");
  for (const end of ["", "-wal"]) Deno.copyFileSync(path + end, copy + end);
  store.close();
  Deno.truncateSync(copy, 15 * PAGE_BYTES);
  const { result, stdout, stderr } = await exportFrom(copy);
  const kept = plants.filter(({ id }) => !isIn(gapsIn(stderr))(id));
  assert.ok(stdout === linesOf(kept), stderr);
  assert.ok(kept.length > 1_000 && kept.length < 2_000, stderr);
  assert.equal(result, 1);
});

test("exportPlants() writes every plant if Deno misses a row or a column, which is no damage for SQLite", async ({ store: path }) => {
  const plants = newPlants(range(1n, 200));
  const row = "DELETE FROM data_version";
  const column = "ALTER TABLE kv RENAME COLUMN version TO versiom";
  for (const damage of [row, column]) {
    await makeStore(path, plants);
    execute(path, damage);
    const { result, stdout } = await exportFrom(path);
    assert.deepEqual([result, stdout], [0, linesOf(plants)]);
    Deno.removeSync(path);
  }
});

test("exportPlants() copies no store of which Deno can read a part", async ({ directory, store: path }) => {
  await makeStore(path, newPlants(range(1n, 500)));
  const damaged = directory.file("damaged.db");
  for (let page = 10; page <= 15; page++) {
    Deno.copyFileSync(path, damaged);
    overwrite(damaged, (page - 1) * PAGE_BYTES, PAGE_BYTES);
    using _ = replaced(Deno, "copyFileSync", () => assert.fail());
    const { stderr } = await exportFrom(damaged);
    assert.match(stderr, /^[1-9]\d* exported, /m, `page ${page}`);
  }
});

test("exportPlants() copies no text, no other database, and no backup beside the log of another one", async ({ directory, store: path }) => {
  // With the type of a leaf in the place of the plants.
  Deno.writeTextFileSync(path, "Monstera\n".repeat(3_000).slice(5));
  await assert.rejects(exportFrom(path), /: file is not a database: /);
  Deno.removeSync(path);
  const tables = "CREATE TABLE a (b); CREATE TABLE c (d)";
  execute(path, `${tables}; CREATE INDEX e ON a (b); CREATE INDEX f ON c (d)`);
  await assert.rejects(exportFrom(path), /: not a Deno KV store: /);
  Deno.removeSync(path);
  await makeBackup(path);
  await makeLog(`${path}-wal`);
  await assert.rejects(exportFrom(path), /-wal belongs to another database/);
  assert.deepEqual(directory.names(), ["plants.db", "plants.db-wal"]);
});

test("exportPlants() says why a damaged store cannot be copied, and leaves no copy", async ({ directory, store: path }) => {
  await makeStore(path, newPlants([1n]));
  overwrite(path, PAGE_BYTES, PAGE_BYTES);
  using _ = replaced(Deno, "copyFileSync", (_, to) => {
    // Plants are copied to no other place.
    assert.equal(dirname(dirname(`${to}`)), directory.path);
    throw new Error("No space left on device (os error 28)");
  });
  await assert.rejects(exportFrom(path), {
    name: "OperatorError",
    message: `cannot read ${path}: No space left on device (os error 28)`,
  });
  assert.deepEqual(directory.names(), ["plants.db"]);
});

for (const isRising of [true, false]) {
  const what = isRising ? "rising" : "random";
  test(`exportPlants() of a file with 1, 4 and 40 destroyed pages and ${what} ids writes every plant outside of its gaps, which are in these pages`, ({ directory, store: path }) =>
    withSeed(async (random) => {
      const ids = isRising
        ? range(1n, 6_000)
        : Array.from({ length: 6_000 }, () => drawId(random));
      const plants = ids.sort((a, b) => a < b ? -1 : 1)
        .map((id) => ({ id, plant: { name: `<${id}>`.padEnd(100) } }));
      await makeStore(path, plants);
      for (const count of [1, 4, 40]) {
        const copy = directory.file("copy.db");
        Deno.copyFileSync(path, copy);
        const lost = destroyPages(copy, count, random).join("");
        const { result, stdout, stderr } = await exportFrom(copy);
        const message = `${count} pages`;
        const gaps = gapsIn(stderr);
        const kept = plants.filter(({ id }) => !isIn(gaps)(id));
        assert.ok(stdout === linesOf(kept), message);
        const lostNames = new Set(lost.match(/<-?\d+>/g));
        assert.ok(
          kept.every(({ plant }) => !lostNames.has(plant.name.trim())),
          message,
        );
        // The key between two pages is found only through the first one.
        const others = plants.length - kept.length - lostNames.size;
        assert.ok(others <= count, `${message}: ${others} others`);
        const counts = `${kept.length} exported, 0 skipped, ${gaps.length} gap`;
        assert.ok(stderr.includes(`\n${DAMAGED}\n${counts}`), stderr);
        assert.equal(result, 1);
      }
    }));
}

test("exportPlants() of a file with 1, 3 and 20 pages destroyed in part writes what their ids still find, but for a few in its gaps", ({ directory, store: path }) =>
  withSeed(async (random) => {
    const ids = Array.from({ length: 3_000 }, () => drawId(random));
    await makeStore(path, newPlants(ids));
    for (const count of [1, 3, 20]) {
      const copy = directory.file("copy.db");
      Deno.copyFileSync(path, copy);
      destroyPages(copy, count, random, 512);
      const { stdout, stderr } = await exportFrom(copy);
      const exported = new Set(stdout.split("\n"));
      const found = await exportFrom(copy, ids.map(String));
      const missing = found.stdout.split("\n")
        .filter((line) => !exported.has(line))
        .map((line) => BigInt(/-?\d+/.exec(line)?.[0] ?? ""));
      const message = `${count} pages: ${missing.length} missing`;
      assert.ok(missing.every(isIn(gapsIn(stderr))), message);
      assert.ok(missing.length < 10 * count, message);
    }
  }));
