import assert from "node:assert/strict";
import {
  ID_MAX,
  ID_MIN,
  RECENT_CHARS_MAX,
  RECENT_PLANTS_MAX,
} from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";
import { RecentPlants } from "../../src/store/recent_plants.ts";
import { Random } from "../support/random.ts";

/** Plants that all differ from each other. */
const PLANTS: Plant[] = [
  { name: "" },
  { name: "", tag: "" },
  { name: "a" },
  { name: "a", tag: "" },
  { name: "", tag: "a" },
  { name: "ab" },
  { name: "a", tag: "b" },
  { name: "a", tag: "c" },
  { name: "", tag: "ab" },
  { name: "ab", tag: "" },
  { name: "ba" },
  { name: "A" },
  { name: "\u0161" }, // The lower byte of its code unit is "a".
  { name: "\0" },
  { name: "\0\0" },
  { name: "🌿" },
  { name: "🌱" },
  { name: "\u00e9" },
  { name: "e\u0301" },
  { name: "a".repeat(RECENT_CHARS_MAX) },
  { name: "a".repeat(RECENT_CHARS_MAX - 1), tag: "a" },
  { name: "a", tag: "a".repeat(RECENT_CHARS_MAX - 1) },
  { name: "", tag: "a".repeat(RECENT_CHARS_MAX) },
];

Deno.test("matches() knows nothing before add()", () => {
  const recent = new RecentPlants();
  for (const id of [0n, 1n, -1n, ID_MIN, ID_MAX]) {
    assert.equal(recent.matches({ id, plant: { name: "" } }), undefined);
    assert.equal(recent.matches({ id, plant: { name: "a" } }), undefined);
  }
});

Deno.test("matches() is true for the plant that was added, and false for any other", () => {
  const recent = new RecentPlants();
  for (const added of PLANTS) {
    // Each plant takes the slot of the one before.
    recent.add(7n, { ...added });
    for (const plant of PLANTS) {
      assert.equal(
        recent.matches({ id: 7n, plant: { ...plant } }),
        plant === added,
        `${JSON.stringify(plant)} and ${JSON.stringify(added)}`,
      );
    }
  }
});

Deno.test("matches() is false for a plant of any length beyond the one that was added", () => {
  const recent = new RecentPlants();
  recent.add(1n, { name: "a", tag: "b" });
  // Lengths that equal those of the plant in their lowest bits.
  for (const chars of [RECENT_CHARS_MAX, 255, 256, 512, 65_536]) {
    const longer = [
      { name: "a".repeat(chars + 1), tag: "b" },
      { name: "a", tag: "b".repeat(chars + 1) },
    ];
    for (const plant of longer) {
      assert.equal(recent.matches({ id: 1n, plant }), false);
    }
  }
});

Deno.test("add() ignores a plant of more than RECENT_CHARS_MAX", () => {
  const recent = new RecentPlants();
  const evicted = { id: 1n, plant: { name: "Monstera" } };
  recent.add(evicted.id, evicted.plant);
  const id = evicted.id + BigInt(RECENT_PLANTS_MAX);
  for (
    const plant of [
      { name: "a".repeat(RECENT_CHARS_MAX + 1) },
      { name: "a".repeat(RECENT_CHARS_MAX), tag: "b" },
      { name: "", tag: "b".repeat(RECENT_CHARS_MAX + 1) },
      { name: "a".repeat(30_000) },
    ]
  ) {
    recent.add(id, plant);
    assert.equal(recent.matches({ id, plant }), undefined);
    assert.equal(recent.matches(evicted), true);
  }
});

Deno.test("add() evicts only the plant whose id has the same lowest bits", () => {
  const recent = new RecentPlants();
  const plant = { name: "Monstera" };
  const ids = [0n, 1n, -1n, 5n, ID_MAX - 2n, ID_MIN + 9n];
  for (const id of ids) recent.add(id, plant);
  for (const id of ids) assert.equal(recent.matches({ id, plant }), true);

  const later = 5n - BigInt(RECENT_PLANTS_MAX);
  recent.add(later, { name: "Ficus" });
  for (const id of ids) {
    assert.equal(recent.matches({ id, plant }), id === 5n ? undefined : true);
  }
  assert.equal(
    recent.matches({ id: later, plant: { name: "Ficus" } }),
    true,
  );
});

Deno.test("RecentPlants remembers the last RECENT_PLANTS_MAX of rising ids", () => {
  const recent = new RecentPlants();
  const first = -100n;
  const count = BigInt(RECENT_PLANTS_MAX) + 500n;
  for (let id = first; id < first + count; id++) {
    recent.add(id, { name: `Monstera ${id}` });
  }
  for (let id = first; id < first + count; id++) {
    const plant = { name: `Monstera ${id}` };
    assert.equal(
      recent.matches({ id, plant }),
      id < first + 500n ? undefined : true,
    );
  }
});

Deno.test("RecentPlants with few slots forgets plants, and never confuses two", () => {
  const random = new Random(1);
  const recent = new RecentPlants(4);
  const answers = new Set<boolean | undefined>();
  for (let i = 0; i < 20_000; i++) {
    const id = BigInt(random.int(-12, 12));
    const stored = PLANTS.at(Number(id) % PLANTS.length);
    const plant = PLANTS[random.int(0, PLANTS.length - 1)];
    assert.ok(stored !== undefined && plant !== undefined);
    const answer = recent.matches({ id, plant });
    assert.ok(answer === undefined || answer === (plant === stored));
    answers.add(answer);
    if (random.chance(0.5)) recent.add(id, stored);
  }
  assert.deepEqual(answers, new Set([undefined, false, true]));
});
