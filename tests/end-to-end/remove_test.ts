/** Plants that the operator removes while a service uses the store. */
import assert from "node:assert/strict";
import { KV_ENV, KvServer, withServer } from "../support/kv_server.ts";
import {
  assertOneLine,
  Program,
  type ProgramOptions,
  runProgram,
  statusOf,
} from "../support/program.ts";
import { test } from "../support/tests.ts";
import { exportLines } from "../support/transfer.ts";

/** Removes plants of a store, and creates one of their ids again. */
async function testRemovals(
  store: string,
  options: ProgramOptions = {},
): Promise<void> {
  await using program = await Program.start(["--kv", store], options);
  const create = async (id: number, name: string) =>
    await statusOf(program.create({ id, name }));
  const remove = (...ids: string[]) =>
    runProgram(["remove", ...ids, "--kv", store], options);
  for (const id of [1, 2, 3]) assert.equal(await create(id, "old"), 200);
  assertOneLine(await remove("3", "3.0"), 2, /^plant-store: expected an id /);
  const { status, stderr } = await remove("2", "77", "1", "2");
  assert.equal(stderr, "id 77: no such plant\n2 plants removed\n");
  assert.equal(status, 1);
  assert.equal(await create(1, "new"), 200);
  assert.equal(await create(3, "new"), 409);
  assert.deepEqual(
    await exportLines(store, options),
    ['{"id":1,"name":"new"}', '{"id":3,"name":"old"}'],
  );
}

test("remove removes plants of a file beside a service, which then creates their ids as new ones", async ({ store }) => {
  await testRemovals(store);
});

withServer.test("remove removes plants of a KV Connect server beside a service, which then creates their ids as new ones", async ({ directory }) => {
  await using server = await KvServer.start(directory.file("kv.db"));
  await testRemovals(server.url, { env: KV_ENV });
});
