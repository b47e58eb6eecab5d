import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { Store } from "../../src/store/kv_store.ts";

Deno.test("isReady() asks a store that does not answer once, and lets nobody else wait for it", async () => {
  using kv = await Deno.openKv(":memory:");
  const reads: PromiseWithResolvers<unknown>[] = [];
  Object.assign(kv, {
    get: () => {
      const read = Promise.withResolvers<unknown>();
      reads.push(read);
      return read.promise;
    },
  });
  const store = new Store(kv, undefined);
  const first = Array.from({ length: 100 }, () => store.isReady());
  assert.ok((await Promise.all(first)).every((isReady) => !isReady));

  const later = Array.from({ length: 100 }, () => store.isReady());
  const answered = await Promise.race([Promise.all(later), turn([])]);
  assert.equal(answered.length, later.length);
  assert.ok(answered.every((isReady) => !isReady));
  assert.equal(reads.length, 1);

  // It is back.
  reads[0]?.resolve({ value: null, versionstamp: null });
  await turn();
  const ready = store.isReady();
  reads[1]?.resolve({ value: null, versionstamp: null });
  assert.equal(await ready, true);
  assert.equal(reads.length, 2);
});
