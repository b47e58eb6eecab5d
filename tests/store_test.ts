import assert from "node:assert/strict";
import { Store } from "../src/store.ts";

Deno.test("isReady() asks a store that does not answer once, and keeps nothing of those who ask", async () => {
  using kv = await Deno.openKv(":memory:");
  const reads: PromiseWithResolvers<unknown>[] = [];
  let waiting = 0;
  Object.assign(kv, {
    get: () => {
      const read = Promise.withResolvers<unknown>();
      const then = read.promise.then.bind(read.promise);
      Object.assign(read.promise, {
        then: (...reactions: Parameters<typeof then>) => {
          waiting++;
          return then(...reactions);
        },
      });
      reads.push(read);
      return read.promise;
    },
  });
  const store = new Store(kv, undefined);
  for (let i = 0; i < 3; i++) {
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => store.isReady()),
    );
    assert.ok(answers.every((isReady) => !isReady));
    assert.equal(reads.length, 1);
    assert.ok(waiting < 5, `${waiting} wait for the read`);
  }

  // It is back.
  reads[0]?.resolve({ value: null, versionstamp: null });
  await reads[0]?.promise;
  const ready = store.isReady();
  assert.equal(reads.length, 2);
  reads[1]?.resolve({ value: null, versionstamp: null });
  assert.equal(await ready, true);
});
