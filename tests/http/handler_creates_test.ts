import assert from "node:assert/strict";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";
import { toBody } from "../support/load.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";

const TAKEN = {
  error: 40901,
  message: "id: 7 is already taken by a different plant",
};

/** Returns the number of creates of each outcome that occurred. */
async function outcomes(service: TestService): Promise<Record<string, number>> {
  const { text } = await service.get("/metrics");
  const samples = text.matchAll(
    /_creates_total\{outcome="(\w+)"\} ([1-9]\d*)/g,
  );
  return Object.fromEntries(
    samples.map(([, outcome = "", count]) => [outcome, Number(count)]),
  );
}

Deno.test("handle() replies with 200 to the same create again, however it is spelled", async () => {
  using service = await TestService.start();
  for (
    const body of [
      '{"id":7,"name":"Monstera","tag":"climber"}',
      '{"id":7,"name":"Monstera","tag":"climber"}',
      '{"tag":"climber", "more":[], "name":"\\u004donstera", "id":0.7e1}',
      '{"id":7.0,"name":"Monstera","tag":"climber"}',
    ]
  ) {
    const reply = await service.create(body);
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.text, '{"name":"Monstera","tag":"climber"}');
  }
  assert.deepEqual(
    await service.stored(),
    [[["plants", 7n], { name: "Monstera", tag: "climber" }]],
  );
  assert.deepEqual(await outcomes(service), { stored: 1, replayed: 3 });
});

/** Plants that differ from each other, and how. */
const CONFLICTS: readonly (readonly [string, Plant, Plant])[] = [
  ["another name", { name: "a" }, { name: "A" }],
  ["another tag", { name: "a", tag: "t" }, { name: "a", tag: "T" }],
  ["an empty tag instead of none", { name: "a" }, { name: "a", tag: "" }],
  ["a tag split otherwise", { name: "ab", tag: "c" }, { name: "a", tag: "bc" }],
];

for (const [name, plant, other] of CONFLICTS) {
  Deno.test(`handle() replies with 40901 to a create with ${name}, and keeps what is stored`, async () => {
    using service = await TestService.start();
    const body = toBody({ id: 7n, plant });
    assert.equal((await service.create(body)).status, 200);
    for (let i = 0; i < 2; i++) {
      const conflict = await service.create(toBody({ id: 7n, plant: other }));
      assertRefusal(conflict, TAKEN);
      const again = await service.create(body);
      assert.equal(again.text, JSON.stringify(plant));
    }
    assert.deepEqual(await service.stored(), [[["plants", 7n], plant]]);
    assert.deepEqual(
      await outcomes(service),
      { stored: 1, conflict: 2, replayed: 2 },
    );
  });
}

Deno.test("handle() replies with 40901 to an id whose value is not a plant of this service, and keeps it", async () => {
  using service = await TestService.start();
  await service.kv.set(["plants", 7n], "foreign");
  const reply = await service.create('{"id":7,"name":"a"}');
  assertRefusal(reply, TAKEN);
  assert.deepEqual(await service.stored(), [[["plants", 7n], "foreign"]]);
});

Deno.test("handle() distinguishes ids that a double would round to one number, up to both ends of int64", async () => {
  using service = await TestService.start();
  const ids = [
    ...[ID_MIN, ID_MIN + 1n, -(2n ** 53n) - 1n, -(2n ** 53n), -1n, 0n, 1n],
    ...[2n ** 53n, 2n ** 53n + 1n, ID_MAX - 1n, ID_MAX],
  ];
  for (const id of ids) {
    const body = `{"id":${id},"name":"plant ${id}"}`;
    assert.equal((await service.create(body)).status, 200);
    const other = await service.create(`{"id":${id},"name":"other"}`);
    assertRefusal(other, {
      error: 40901,
      message: `id: ${id} is already taken by a different plant`,
    });
  }
  assert.deepEqual(
    await service.stored(),
    ids.map((id) => [["plants", id], { name: `plant ${id}` }]),
  );
});

Deno.test("handle() stores one of 50 different creates of one id at once, and refuses the others", async () => {
  using service = await TestService.start();
  const replies = await Promise.all(
    Array.from(
      { length: 50 },
      (_, i) => service.create(`{"id":7,"name":"plant ${i}"}`),
    ),
  );
  const created = replies.filter(({ status }) => status === 200);
  assert.equal(created.length, 1);
  for (const reply of replies) {
    if (reply !== created[0]) assertRefusal(reply, TAKEN);
  }
  const [[, plant] = []] = await service.stored();
  assert.equal(JSON.stringify(plant), created[0]?.text);
  assert.equal((await service.stored()).length, 1);
});

Deno.test("handle() replies to creates of stored and of new ids at once, each by its own id", async () => {
  using service = await TestService.start();
  const ids = Array.from({ length: 150 }, (_, id) => id);
  const create = (id: number, name: string) =>
    service.create(`{"id":${id},"name":"${name}"}`);
  const isStored = (id: number) => id % 3 === 0;
  const nameOf = (id: number) => id % 2 === 0 ? "old" : "new";
  await Promise.all(ids.filter(isStored).map((id) => create(id, "old")));
  const replies = await Promise.all(ids.map((id) => create(id, nameOf(id))));
  replies.forEach(({ status }, id) => {
    const isTaken = isStored(id) && nameOf(id) !== "old";
    assert.equal(status, isTaken ? 409 : 200, `id ${id}`);
  });
  assert.deepEqual(
    await service.stored(),
    ids.map((id) => [["plants", BigInt(id)], {
      name: isStored(id) ? "old" : nameOf(id),
    }]),
  );
});
