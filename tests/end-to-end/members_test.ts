/**
 * Every member of a Plant that the description names goes all the way. The tests
 * name no member, so a new one needs no change here.
 */
import assert from "node:assert/strict";
import { countChars, formatNewPlant, toPlant } from "../../src/plant/plant.ts";
import { descriptionText } from "../../src/reference/openapi.ts";
import { PLANT_MEMBERS } from "../support/plants.ts";
import { errorOf, Program } from "../support/program.ts";
import { test } from "../support/tests.ts";
import { exportLines, storeLines } from "../support/transfer.ts";

interface Schema {
  readonly required: readonly string[];
  readonly properties: Readonly<Record<string, unknown>>;
}

const { required, properties }: Schema =
  JSON.parse(descriptionText("http://plants.example")).components.schemas.Plant;

/** The names of the described members, in order. */
const NAMES = Object.keys(properties);

/** A plant with every member. */
const WHOLE = Object.fromEntries(NAMES.map((name) => [name, `the ${name}`]));

/** The id of {@link WHOLE}; those after it are of plants without a member. */
const WHOLE_ID = 1;

/** Returns the plant without one member, and its id. */
function without(absent: string) {
  const members = NAMES.filter((name) => name !== absent);
  return {
    id: WHOLE_ID + 1 + NAMES.indexOf(absent),
    plant: Object.fromEntries(members.map((name) => [name, WHOLE[name]])),
  };
}

/** Creates all plants, or repeats it: the replies are the same. */
async function assertReplies(program: Program): Promise<void> {
  async function assertStored(id: number, plant: object): Promise<void> {
    const response = await program.create({ id, ...plant });
    assert.deepEqual(await response.json(), plant);
    assert.equal(response.status, 200);
  }
  async function errorNumber(id: number, plant: object): Promise<unknown> {
    const [, error] = await errorOf(program.create({ id, ...plant }));
    return error;
  }
  await assertStored(WHOLE_ID, WHOLE);
  for (const name of NAMES) {
    const { id, plant } = without(name);
    for (const [value, error] of [["another", 40901], [1, 40003]] as const) {
      const altered = { ...WHOLE, [name]: value };
      assert.equal(await errorNumber(WHOLE_ID, altered), error, name);
    }
    if (required.includes(name)) {
      assert.equal(await errorNumber(id, plant), 40003, name);
    } else {
      await assertStored(id, plant);
      assert.equal(await errorNumber(id, WHOLE), 40901, name);
      assert.equal(await errorNumber(WHOLE_ID, plant), 40901, name);
    }
  }
}

test("the description names the members of a Plant", () => {
  assert.deepEqual(PLANT_MEMBERS, NAMES);
});

test("every described member of a plant is accepted, stored, compared, exported and imported", async ({ directory, store, start }) => {
  const copy = directory.file("copy.db");
  for (let starts = 0; starts < 2; starts++) {
    await using program = await start();
    await assertReplies(program);
    await program.stop();
  }
  const lines = await exportLines(store);
  const optional = NAMES.filter((name) => !required.includes(name));
  assert.deepEqual(lines.map((line) => JSON.parse(line)), [
    { id: WHOLE_ID, ...WHOLE },
    ...optional.map(without).map(({ id, plant }) => ({ id, ...plant })),
  ]);
  await storeLines(copy, lines);
  assert.deepEqual(await exportLines(copy), lines);
  await using program = await Program.start(["--kv", copy]);
  await assertReplies(program);
});

test("every described member of a stored value is read, counted and formatted", () => {
  const plant = toPlant({ ...WHOLE, "not described": 1 });
  assert.deepEqual(plant, WHOLE);
  assert.ok(plant !== null);
  assert.equal(countChars(plant), Object.values(WHOLE).join("").length);
  const line = formatNewPlant({ id: 1n, plant });
  assert.deepEqual(JSON.parse(line ?? ""), { id: 1, ...WHOLE });
  for (const name of NAMES) {
    assert.equal(toPlant({ ...WHOLE, [name]: 1 }), null, name);
    const foreign = toPlant({ ...WHOLE, [name]: "\ud800" });
    assert.ok(foreign !== null);
    assert.equal(formatNewPlant({ id: 1n, plant: foreign }), undefined, name);
  }
});
