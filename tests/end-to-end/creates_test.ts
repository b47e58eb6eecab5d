/** Creates at the same time, and of the largest plants, into a real file. */
import assert from "node:assert/strict";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import { entriesOf, type Entry } from "../support/entries.ts";
import { eventually, toBody } from "../support/load.ts";
import { ObservedProgram } from "../support/observed_program.ts";
import { Program } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { toBytes } from "../support/wire.ts";

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** Sends a create, and repeats it while a busy machine cannot take it. */
async function create(program: Program, body: string): Promise<Answer> {
  const reply = await eventually(
    ({ status }) => status !== 503,
    () => program.create(body),
  );
  return { status: reply.status, body: await reply.json() };
}

/** Sends creates at the same time. */
function createAll(
  program: Program,
  bodies: readonly string[],
): Promise<Answer[]> {
  return Promise.all(bodies.map((body) => create(program, body)));
}

/** Counts answers by status. */
function countStatuses(answers: readonly Answer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

function toEntry({ id, plant }: NewPlant): Entry {
  return [["plants", id], plant];
}

Deno.test("2,000 creates at once are all stored, and a restart keeps them", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  // Above 2^53, where a double would make one id of two.
  const newPlants = Array.from({ length: 2_000 }, (_, i): NewPlant => ({
    id: 2n ** 60n + BigInt(i),
    plant: { name: `plant ${i}`, tag: `${i % 7}` },
  }));
  const bodies = newPlants.map(toBody);
  {
    await using program = await Program.start(["--kv", file]);
    const answers = await createAll(program, bodies);
    assert.deepEqual(
      answers,
      newPlants.map(({ plant }) => ({ status: 200, body: plant })),
    );
    const { status, stderr } = await program.stop("SIGTERM");
    assert.equal(status, 0, stderr);
  }
  using kv = await Deno.openKv(file);
  assert.deepEqual(await entriesOf(kv), newPlants.map(toEntry));

  await using program = await Program.start(["--kv", file]);
  const repeated = bodies.slice(0, 300);
  assert.deepEqual(
    countStatuses(await createAll(program, repeated)),
    { 200: 300 },
  );
  const different = repeated.map((body) => body.replace("plant", "p"));
  assert.deepEqual(
    countStatuses(await createAll(program, different)),
    { 409: 300 },
  );
  assert.deepEqual(await entriesOf(kv), newPlants.map(toEntry));
});

Deno.test("60 of the largest plants at once are stored completely", async () => {
  await using service = await ObservedProgram.start();
  // With one character beyond Latin-1, all take two bytes in the store.
  const newPlants = Array.from({ length: 60 }, (_, i): NewPlant => {
    const id = 100n + BigInt(i);
    const bytes = toBytes(toBody({ id, plant: { name: "Ω" } })).length;
    return { id, plant: { name: "x".repeat(BODY_BYTES_MAX - bytes) + "Ω" } };
  });
  const bodies = newPlants.map(toBody);
  for (const body of bodies) {
    assert.equal(toBytes(body).length, BODY_BYTES_MAX);
  }
  const answers = await createAll(service.program, bodies);
  assert.deepEqual(countStatuses(answers), { 200: 60 });
  assert.deepEqual(await service.stored(), newPlants.map(toEntry));
});
