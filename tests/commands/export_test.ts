import assert from "node:assert/strict";
import { exportPlants } from "../../src/commands/export.ts";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import { PAGE_KEYS } from "../../src/store/plants.ts";
import { corrupt } from "../../src/store/store_error.ts";
import { makeUndecodable } from "../support/accidents.ts";
import { capture } from "../support/console.ts";
import { makeStore, newPlants, range, toLines } from "../support/plants.ts";
import { fileAt, openWith } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** Exports the plants of some ids, or all, in this process. */
function exportFrom(path: string, ids: readonly bigint[] = []) {
  return capture(() => exportPlants(fileAt(path), ids));
}

Deno.test("exportPlants() writes all plants in the order of ids, and nothing else", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const plants = newPlants([ID_MIN, -1n, ...range(0n, 300), ID_MAX]);
  await makeStore(path, plants);
  const exported = await exportFrom(path);
  const stdout = toLines(plants);
  assert.deepEqual(exported, { result: 0, stdout, stderr: "" });
});

Deno.test("exportPlants() writes the plants of some ids, once each, and names ids without one", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const plants = newPlants([1n, 2n, 3n]);
  await makeStore(path, plants);
  await makeUndecodable(path, [2n]);
  assert.deepEqual(await exportFrom(path, [3n, 1n, 3n]), {
    result: 0,
    stdout: toLines([3n, 1n].flatMap((id) => newPlants([id]))),
    stderr: "",
  });
  assert.deepEqual(await exportFrom(path, [2n, 7n, 1n]), {
    result: 1,
    stdout: toLines(plants.slice(0, 1)),
    stderr:
      "id 2: not a plant of this service\nid 7: no such plant\n1 exported, 2 skipped",
  });
});

Deno.test("exportPlants() names the values of other programs, and writes the plants after them", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const plants = newPlants([1n, 9n]);
  await makeStore(path, plants);
  {
    using kv = await Deno.openKv(path);
    await kv.set(["plants", 7n], "text");
  }
  assert.deepEqual(await exportFrom(path), {
    result: 1,
    stdout: toLines(plants),
    stderr: "id 7: not a plant of this service\n2 exported, 1 skipped",
  });
});

Deno.test("exportPlants() continues backwards after damage, and names the ids between in one line", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const why = "a newer Deno stored plants in it, or they are damaged: " +
    "run the plant-store that stored them";
  for (
    const [damaged, ids, exported] of [
      [[3n], "ids after 2 before 4", [1n, 2n, 5n, 4n]],
      [[2n, 4n], "ids after 1 before 5", [1n, 5n]],
      [[1n], "ids before 2", [5n, 4n, 3n, 2n]],
      [[5n], "ids after 4", [1n, 2n, 3n, 4n]],
      [[1n, 5n], "ids", []],
    ] as const
  ) {
    const plants = newPlants(range(1n, 5));
    await makeStore(path, plants);
    await makeUndecodable(path, damaged);
    assert.deepEqual(await exportFrom(path), {
      result: 1,
      stdout: toLines(newPlants(exported)),
      stderr:
        `${ids} cannot be read (newer format): ${why}\n${exported.length} exported, 0 skipped, others cannot be read`,
    });
    Deno.removeSync(path);
  }
});

/** Damages one bit of the key of a plant, which then sorts behind all plants. */
function damageKey(path: string, idBytes: string): void {
  const bytes = Deno.readFileSync(path);
  // Deno's encoding of ["plants", id], and the start of the value behind it.
  const key = Uint8Array.fromHex(`02706c616e74730016${idBytes}ff10`);
  const text = new TextDecoder("latin1");
  const content = text.decode(bytes);
  // Pages that were split have old copies in their free space.
  const places = content.matchAll(new RegExp(text.decode(key), "gs")).toArray();
  assert.ok(places.length > 0, "the key is in the file");
  for (const { index } of places) bytes[index] = 0x03;
  Deno.writeFileSync(path, bytes);
}

Deno.test("exportPlants() writes the plants behind a key whose damage ends a listing without an error", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const plants = newPlants(range(1n, 6_000));
  await makeStore(path, plants);
  damageKey(path, "1388");
  const { result, stdout, stderr } = await exportFrom(path);
  // How many keys behind the damaged one cannot be found depends on its place in the
  // tree: those of two pages if it separates them. A page has fewer than 110.
  const [, before = ""] =
    /^ids after 4999 before (\d+) cannot be read \(corrupt\): the database is corrupt, /
      .exec(stderr) ?? [];
  const missing = Number(before) - 5_000;
  assert.ok(missing >= 1 && missing < 220, stderr);
  assert.ok(
    stderr.endsWith(
      `\n${plants.length - missing} exported, 0 skipped, others cannot be read`,
    ),
    stderr,
  );
  assert.equal(
    stdout,
    toLines([
      ...plants.slice(0, 4_999),
      ...plants.slice(4_999 + missing).reverse(),
    ]),
  );
  assert.equal(result, 1);
});

Deno.test("exportPlants() succeeds if only the read of the highest id has failed", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const plants = newPlants(range(1n, 3));
  await makeStore(path, plants);
  const open = () =>
    openWith(fileAt(path), (kv) => ({
      list(range, options) {
        const isOfAllIds = "start" in range && range.start[1] === ID_MIN;
        if (options.reverse && isOfAllIds) throw corrupt();
        return kv.list(range, options);
      },
    }));
  const exported = await capture(() =>
    exportPlants(fileAt(path), [], { open })
  );
  assert.deepEqual(exported, {
    result: 0,
    stdout: toLines(plants),
    stderr: "",
  });
});

Deno.test("exportPlants() reports plants that neither direction has reached, if a listing ends early without an error", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const plants = newPlants(range(1n, 3));
  await makeStore(path, plants);
  {
    // A page of another program's keys is behind the plants.
    using kv = await Deno.openKv(path);
    const notes = kv.atomic();
    for (const i of range(1n, PAGE_KEYS)) notes.set(["plants", 3n, i], "note");
    await notes.commit();
  }
  // The listings fail as on a failing disk, which no change to the file can cause.
  // The highest id is on the second page of a reverse listing.
  for (const readableReversePages of [0, 2]) {
    let reversePages = 0;
    const open = () =>
      openWith(fileAt(path), (kv) => ({
        list(range, options) {
          // Forward, the first plant seems to be the last one.
          if (!options.reverse) return kv.list(range, { ...options, limit: 1 });
          if (reversePages === readableReversePages) throw corrupt();
          reversePages++;
          return kv.list(range, options);
        },
      }));
    const { result, stdout, stderr } = await capture(() =>
      exportPlants(fileAt(path), [], { open })
    );
    assert.equal(result, 1);
    assert.equal(stdout, toLines(plants.slice(0, 1)));
    assert.match(
      stderr,
      /^ids after 1 cannot be read \(corrupt\): the database is corrupt, .*\n1 exported, 0 skipped, others cannot be read$/,
    );
  }
});
