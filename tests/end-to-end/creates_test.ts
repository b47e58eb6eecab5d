import assert from "node:assert/strict";
import { Program, TemporaryDirectory } from "../support/program.ts";

const BODY_BYTES_MAX = 32_768;

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** Sends a create and reads its reply. */
async function create(program: Program, body: unknown): Promise<Answer> {
  const reply = await program.create(body);
  return { status: reply.status, body: await reply.json() };
}

/** Sends creates at the same time. */
function createAll(
  program: Program,
  bodies: readonly unknown[],
): Promise<Answer[]> {
  return Promise.all(bodies.map((body) => create(program, body)));
}

/** Every key and value in a store. */
async function stored(file: string): Promise<[Deno.KvKey, unknown][]> {
  using kv = await Deno.openKv(file);
  const entries = await Array.fromAsync(kv.list({ prefix: [] }));
  return entries.map(({ key, value }) => [key, value]);
}

/** How many answers had each status. */
function countStatuses(answers: readonly Answer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

const TAKEN = {
  status: 409,
  body: { error: 40901, message: "id: 7 names another plant already" },
};

Deno.test("the same create is answered with 200 again and again", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  const plant = { name: "Monstera", tag: "climber" };
  for (
    const body of [
      { id: 7, ...plant },
      { id: 7, ...plant },
      '{"tag":"climber", "more":[], "name":"\\u004donstera", "id":0.7e1}',
    ]
  ) {
    assert.deepEqual(await create(program, body), { status: 200, body: plant });
  }
  assert.deepEqual(await stored(file), [[["plants", 7n], plant]]);
});

for (
  const [what, plant, other] of [
    ["another name", { name: "a" }, { name: "b" }],
    ["another tag", { name: "a", tag: "t" }, { name: "a", tag: "T" }],
    ["a tag in place of none", { name: "a" }, { name: "a", tag: "t" }],
    ["an empty tag in place of none", { name: "a" }, { name: "a", tag: "" }],
    ["no tag in place of an empty one", { name: "a", tag: "" }, { name: "a" }],
    ["name and tag exchanged", { name: "a", tag: "b" }, {
      name: "b",
      tag: "a",
    }],
    ["another spelling of a letter", { name: "é" }, { name: "e\u0301" }],
  ] as const
) {
  Deno.test(`a create with ${what} is a conflict and changes nothing`, async () => {
    using directory = new TemporaryDirectory();
    const file = directory.file("plants.db");
    await using program = await Program.start(["--kv", file]);
    const first = await create(program, { id: 7, ...plant });
    assert.deepEqual(first, { status: 200, body: plant });
    assert.deepEqual(await create(program, { id: 7, ...other }), TAKEN);
    assert.deepEqual(await stored(file), [[["plants", 7n], plant]]);
    const again = await create(program, { id: 7, ...plant });
    assert.deepEqual(again, { status: 200, body: plant });
  });
}

Deno.test("creates of one id at once all agree with the one that is stored", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  for (const count of [2, 50]) {
    const same = Array.from(
      { length: count },
      () => ({ id: count, name: "a" }),
    );
    assert.deepEqual(
      countStatuses(await createAll(program, same)),
      { 200: count },
    );
  }
  assert.deepEqual(await stored(file), [
    [["plants", 2n], { name: "a" }],
    [["plants", 50n], { name: "a" }],
  ]);
});

Deno.test("of different creates of one id at once exactly one is stored", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  for (const count of [2, 50]) {
    const id = count;
    const bodies = Array.from(
      { length: count },
      (_, i) => ({ id, name: `${i}` }),
    );
    const answers = await createAll(program, bodies);
    assert.deepEqual(countStatuses(answers), { 200: 1, 409: count - 1 });
    const winner = answers.find(({ status }) => status === 200)?.body;
    using kv = await Deno.openKv(file);
    assert.deepEqual((await kv.get(["plants", BigInt(id)])).value, winner);
  }
  assert.equal((await stored(file)).length, 2);
});

Deno.test("of two contents for one id, 25 creates of each, one content wins", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  const bodies = Array.from({ length: 50 }, (_, i) => (
    { id: 7, name: i % 2 === 0 ? "even" : "odd" }
  ));
  const answers = await createAll(program, bodies);
  const [[, plant] = []] = await stored(file);
  answers.forEach((answer, i) => {
    const { name } = bodies[i] ?? {};
    const wins = JSON.stringify(plant) === JSON.stringify({ name });
    assert.deepEqual(answer, wins ? { status: 200, body: { name } } : TAKEN);
  });
  assert.deepEqual(countStatuses(answers), { 200: 25, 409: 25 });
});

Deno.test("2,000 creates at once are all stored, and a restart keeps them", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  // Above 2^53, where a double would make one id of two.
  const bodies = Array.from({ length: 2000 }, (_, i) => (
    `{"id":${2n ** 60n + BigInt(i)},"name":"plant ${i}","tag":"${i % 7}"}`
  ));
  const plants = Array.from({ length: 2000 }, (_, i): [Deno.KvKey, unknown] => [
    ["plants", 2n ** 60n + BigInt(i)],
    { name: `plant ${i}`, tag: `${i % 7}` },
  ]);
  {
    await using program = await Program.start(["--kv", file]);
    const answers = await createAll(program, bodies);
    assert.deepEqual(countStatuses(answers), { 200: 2000 });
    assert.deepEqual(answers.map(({ body }) => body), plants.map(([, p]) => p));
    assert.deepEqual(await stored(file), plants);
    const { status, stderr } = await program.stop("SIGTERM");
    assert.equal(status, 0, stderr);
  }
  assert.deepEqual(await stored(file), plants);
  await using program = await Program.start(["--kv", file]);
  const again = await createAll(program, bodies.slice(0, 300));
  assert.deepEqual(countStatuses(again), { 200: 300 });
  const other = bodies.slice(0, 300).map((body) => body.replace("plant", "p"));
  assert.deepEqual(
    countStatuses(await createAll(program, other)),
    { 409: 300 },
  );
  assert.deepEqual(await stored(file), plants);
});

Deno.test("old and new ids at once are each answered for themselves", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  const plants = Array.from({ length: 150 }, (_, id) => ({ id, name: "old" }));
  const old = plants.filter(({ id }) => id % 3 === 0);
  const before = await createAll(program, old);
  assert.deepEqual(countStatuses(before), { 200: 50 });
  const answers = await createAll(
    program,
    plants.map(({ id }) => ({ id, name: id % 2 === 0 ? "old" : "new" })),
  );
  answers.forEach(({ status }, id) => {
    const isTaken = id % 3 === 0 && id % 2 === 1;
    assert.equal(status, isTaken ? 409 : 200, `id ${id}`);
  });
  assert.deepEqual(
    await stored(file),
    plants.map(({ id }) => [["plants", BigInt(id)], {
      name: id % 3 === 0 || id % 2 === 0 ? "old" : "new",
    }]),
  );
});

Deno.test("60 of the largest plants at once are stored whole", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  // One character beyond Latin-1 makes all of them take two bytes in the store.
  const bodies = Array.from({ length: 60 }, (_, i) => {
    const [before, after] = [`{"id":${100 + i},"name":"`, 'Ω"}'];
    const free = BODY_BYTES_MAX - before.length - after.length - 1;
    return before + "x".repeat(free) + after;
  });
  for (const body of bodies) {
    assert.equal(new TextEncoder().encode(body).length, BODY_BYTES_MAX);
  }
  const answers = await createAll(program, bodies);
  assert.deepEqual(countStatuses(answers), { 200: 60 });
  assert.deepEqual(
    await stored(file),
    bodies.map((body) => {
      const { id, name } = JSON.parse(body);
      return [["plants", BigInt(id)], { name }];
    }),
  );
});

Deno.test("the largest names and tags of every kind are stored whole", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file]);
  const plants = [
    { name: "x".repeat(BODY_BYTES_MAX - 20) },
    { name: "é".repeat((BODY_BYTES_MAX - 20) / 2) },
    { name: "Ω".repeat((BODY_BYTES_MAX - 20) / 2) },
    { name: "草".repeat((BODY_BYTES_MAX - 20) / 3) },
    { name: "🌱".repeat((BODY_BYTES_MAX - 20) / 4) },
    { name: "", tag: "x".repeat(BODY_BYTES_MAX - 31) + "Ω" },
    { name: "x".repeat(16_000) + "Ω", tag: "x".repeat(16_000) + "Ω" },
  ];
  for (const [i, plant] of plants.entries()) {
    const answer = await create(program, { id: 100 + i, ...plant });
    assert.deepEqual(answer, { status: 200, body: plant });
  }
  assert.deepEqual(
    await stored(file),
    plants.map((plant, i) => [["plants", 100n + BigInt(i)], plant]),
  );
});
