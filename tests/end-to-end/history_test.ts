/**
 * Random creates through several instances, and removals, checked by the model
 * in history.ts.
 */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { ABSENT } from "../support/history.ts";
import { HISTORY_S, runHistory } from "../support/history_run.ts";
import { Instance } from "../support/instances.ts";
import { KV_ENV, KvServer } from "../support/kv_server.ts";
import { Ledger } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { seedOfRun } from "../support/random.ts";
import { fileAt, serverAt } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

for (
  const [count, instances] of [[1, "one instance"], [
    2,
    "two instances",
  ]] as const
) {
  Deno.test(`creates through ${instances} on one file, and removals, are exact when they are killed, stopped and restarted`, async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await assertExact(count, store);
  });
}

for (const count of [2, 3]) {
  Deno.test({
    name:
      `creates through ${count} instances on a KV Connect server, and removals, are exact when any of them is killed or stopped`,
    ignore: isMissing("DENOKV"),
    async fn() {
      using directory = new TemporaryDirectory();
      const file = directory.file("kv.db");
      await using server = await KvServer.start(file);
      await assertExact(count, file, server);
    },
  });
}

/**
 * Runs instances with clients and accidents, and checks the history.
 * @param file the store, or that of the KV Connect server
 */
async function assertExact(
  count: number,
  file: string,
  server?: KvServer,
): Promise<void> {
  const seed = seedOfRun();
  const ledger = new Ledger();
  ledger.repeatsCreates = server !== undefined;
  const instances: Instance[] = [];
  const accidents: string[] = [];
  const store = server === undefined ? fileAt(file) : serverAt(server.url);
  await using stack = new AsyncDisposableStack();
  try {
    for (let i = 0; i < count; i++) {
      const env = server === undefined ? {} : KV_ENV;
      instances.push(stack.use(await Instance.start(server?.url ?? file, env)));
    }
    const run = { instances, server, store, seed, ledger, accidents };
    await runHistory(run);
    for (const instance of instances) await instance.end("SIGTERM");
    await server?.kill();
    await ledger.assertFile(file);
    assert.notEqual(accidents.length, 0);
    const [creates, removals] = [ledger.sent, ledger.removals]
      .map((it) =>
        new Set([...it.values()].flat().map(({ answer }) => answer))
      );
    for (const answer of [200, API_ERRORS.idTaken.error]) {
      assert.ok(creates?.has(answer), `no create was answered ${answer}`);
    }
    for (const answer of [200, ABSENT]) {
      assert.ok(removals?.has(answer), `no removal was answered ${answer}`);
    }
  } catch (cause) {
    const message = `with SEED=${seed} HISTORY_S=${HISTORY_S}: ${accidents}`;
    throw new Error(message, { cause });
  }
}
