import assert from "node:assert/strict";
import { ID_MAX } from "../../src/limits.ts";
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
  const service = new TestService();
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
    service.stored(),
    [[["plants", 7n], { name: "Monstera", tag: "climber" }]],
  );
  assert.deepEqual(await outcomes(service), { stored: 1, replayed: 3 });
});

Deno.test("handle() replies with 40901 to another plant of the id, and keeps what is stored", async () => {
  const service = new TestService();
  const body = '{"id":7,"name":"a"}';
  assert.equal((await service.create(body)).status, 200);
  for (let i = 0; i < 2; i++) {
    const conflict = await service.create('{"id":7,"name":"a","tag":""}');
    assertRefusal(conflict, TAKEN);
    assert.equal((await service.create(body)).text, '{"name":"a"}');
  }
  assert.deepEqual(service.stored(), [[["plants", 7n], { name: "a" }]]);
  assert.deepEqual(
    await outcomes(service),
    { stored: 1, conflict: 2, replayed: 2 },
  );
});

Deno.test("handle() replies with 40901 to an id whose value is not a plant of this service, and keeps it", async () => {
  const service = new TestService();
  service.store.plants.set(7n, null);
  const reply = await service.create('{"id":7,"name":"a"}');
  assertRefusal(reply, TAKEN);
  assert.deepEqual(service.stored(), [[["plants", 7n], null]]);
});

Deno.test("handle() stores the id exactly, and names it in a conflict", async () => {
  const service = new TestService();
  for (const id of [2n ** 53n, 2n ** 53n + 1n, ID_MAX]) {
    const body = `{"id":${id},"name":"plant ${id}"}`;
    assert.equal((await service.create(body)).status, 200);
    assertRefusal(await service.create(`{"id":${id},"name":"other"}`), {
      error: 40901,
      message: `id: ${id} is already taken by a different plant`,
    });
  }
});

Deno.test("handle() replies to creates of stored and of new ids at once, each by its own id", async () => {
  const service = new TestService();
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
    service.stored(),
    ids.map((id) => [["plants", BigInt(id)], {
      name: isStored(id) ? "old" : nameOf(id),
    }]),
  );
});
