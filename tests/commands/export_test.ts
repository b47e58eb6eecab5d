import assert from "node:assert/strict";
import { exportPlants } from "../../src/commands/export.ts";
import { PAGE_KEYS_MIN } from "../../src/limits.ts";
import { OperatorError } from "../../src/operator_error.ts";
import { formatNewPlant } from "../../src/plant/plant.ts";
import { openStore } from "../../src/store/open.ts";
import { capture } from "../support/console.ts";
import { execute } from "../support/damage.ts";
import { newPlants, range } from "../support/load.ts";
import { commit } from "../support/stores.ts";
import { test } from "../support/tests.ts";

/** The first page, a damaged plant, and some more. */
const PLANTS = newPlants(range(1n, PAGE_KEYS_MIN + 3));
const DAMAGED = BigInt(PAGE_KEYS_MIN + 1);

/** Creates a store with these plants. */
async function makeStore(path: string): Promise<void> {
  const store = await openStore({ kind: "file", path });
  await commit(store, PLANTS);
  store.close();
}

/** Exports the plants above an id. */
function exportAfter(path: string, after?: string) {
  const store = { kind: "file", path, setting: "--kv" } as const;
  return capture(() =>
    exportPlants(store, { ids: [], after }).catch((error) => error)
  );
}

/** Returns some plants as an export writes them. */
function linesOf(first: number, last?: number): string {
  return PLANTS.slice(first, last).map((it) => `${formatNewPlant(it)}\n`)
    .join("");
}

test("exportPlants() writes the plants above an id", async ({ store: path }) => {
  await makeStore(path);
  for (
    const [after, first] of [
      [undefined, 0],
      ["1", 1],
      ["9223372036854775807", PLANTS.length],
    ] as const
  ) {
    const stdout = linesOf(first);
    const printed = await exportAfter(path, after);
    assert.deepEqual(printed, { result: 0, stdout, stderr: "" });
  }
});

test("exportPlants() of a damaged store names the id above which it was not read, and exports the plants above the damage", async ({ store: path }) => {
  await makeStore(path);
  execute(
    path,
    `UPDATE kv SET v_encoding = 9 WHERE k = (
      SELECT k FROM kv ORDER BY k LIMIT 1 OFFSET ${DAMAGED - 1n}
    )`,
  );
  const unread = (id: number) => `; ids above ${id} were not read`;
  for (
    const [after, stdout, end] of [
      [undefined, linesOf(0, PAGE_KEYS_MIN), unread(PAGE_KEYS_MIN)],
      ["2", "", unread(2)],
    ] as const
  ) {
    const { result, ...printed } = await exportAfter(path, after);
    assert.ok(result instanceof OperatorError);
    assert.ok(result.message.startsWith(`cannot read ${path}: a newer Deno `));
    assert.ok(result.message.endsWith(end), result.message);
    assert.deepEqual(printed, { stdout, stderr: "" });
  }
  const stdout = linesOf(PAGE_KEYS_MIN + 1);
  const printed = await exportAfter(path, `${DAMAGED}`);
  assert.deepEqual(printed, { result: 0, stdout, stderr: "" });
  // None is read if the first page is damaged.
  execute(path, "UPDATE kv SET v_encoding = 9");
  const { result } = await exportAfter(path);
  assert.doesNotMatch(`${result}`, /were not read/);
});

test("exportPlants() refuses an invalid id for --after, and reads no store", async ({ directory, store: path }) => {
  const { result } = await exportAfter(path, "one");
  assert.match(`${result}`, /^OperatorError: expected an id .*, got "one"$/);
  assert.deepEqual(directory.names(), []);
});
