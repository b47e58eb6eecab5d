import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { FakeKvServer, KV_ENV } from "../support/kv_server.ts";
import { newPlants, range } from "../support/plants.ts";
import { eventually, inParallel } from "../support/waiting.ts";
import { assertOneLine, runProgram } from "../support/program.ts";
import { test } from "../support/tests.ts";
import { createStore, exportLines } from "../support/transfer.ts";

test("export changes nothing in the store but the counters in its header", async ({ store }) => {
  await createStore(store, 500);
  // SQLite file format, sections 1.3.7 and 1.3.12.
  const read = () =>
    Buffer.from(Deno.readFileSync(store)).fill(0, 24, 28).fill(0, 92, 100);
  const before = read();
  await exportLines(store);
  assert.ok(read().equals(before));
});

test("export ends without a message when its reader closes the pipe", async ({ store }) => {
  const lines = await createStore(store, 5_000);
  const { stdout, stderr, status } = await runProgram(
    ["export", "--kv", store],
    { shell: '{ "$0" "$@"; echo "ended with $?" >&2; } | head -n 2' },
  );
  assert.equal(stdout, `${lines.slice(0, 2).join("\n")}\n`);
  assert.equal(stderr, "ended with 141\n");
  assert.equal(status, 0);
});

test("export of all plants, or of an id, gives up on a KV Connect server that stops responding", async () => {
  await Promise.all([[], ["1"]].map(async (ids) => {
    await using server = new FakeKvServer();
    assertOneLine(
      await runProgram(["export", ...ids, "--kv", server.url], { env: KV_ENV }),
      1,
      `cannot read ${server.url}/: no answer within 10 s: check its address, and ` +
        "its token in DENO_KV_ACCESS_TOKEN",
    );
  }));
});

test("export while a service creates contains every earlier plant, in order", async ({ store, start, ledger }) => {
  const lines = new Set(await createStore(store, 5_000));
  await using program = await start();
  let isOver = false;
  // On both sides of the earlier plants.
  const ids = range(1n, 50_000).map((id) => id % 2n === 0n ? -id : id + 5_000n);
  const load = inParallel(newPlants(ids), async (newPlant) => {
    if (!isOver) await ledger.send(program, newPlant);
  }, 16);
  await eventually((count) => count > 100, () => ledger.acknowledged.size);
  const exported = await exportLines(store);
  isOver = true;
  await load;
  assert.ok(lines.isSubsetOf(new Set(exported)));
  const found = exported.map((line) => BigInt(/-?\d+/.exec(line)?.[0] ?? ""));
  assert.ok(found.every((id, i) => i === 0 || id > (found[i - 1] ?? 0n)));
});
