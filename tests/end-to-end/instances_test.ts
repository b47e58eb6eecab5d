/** Several instances on one store, behind nginx as src/deploy/ configures it. */
import assert from "node:assert/strict";
import { createDuring, Instance, settled } from "../support/instances.ts";
import { KV_ENV, KvServer } from "../support/kv_server.ts";
import type { Ledger } from "../support/load.ts";
import { needs } from "../support/needs.ts";
import { Nginx } from "../support/nginx.ts";

const CONNECTIONS = 16;

/** Commits that an instance makes under load before it is ended. */
const COMMITS = 100;

/** How much of the log of nginx a failure shows. */
const LOG_CHARS = 2_000;

needs("NGINX").test(
  "two instances on one file restart and are killed under load without a failed request, and lose nothing",
  async ({ store, ledger }) => {
    await restartUnderLoad({ store, count: 2, ledger });
    await ledger.assertFile(store);
  },
);

needs("NGINX", "DENOKV").test(
  "three instances on a KV Connect server restart and are killed under load without a failed request, and lose nothing",
  async ({ directory, ledger }) => {
    const file = directory.file("kv.db");
    await using server = await KvServer.start(file);
    await restartUnderLoad({
      store: server.url,
      env: KV_ENV,
      count: 3,
      ledger,
    });
    await server.kill();
    await ledger.assertFile(file);
  },
);

/** Restarts every instance in turn, and asserts that every create is stored. */
async function restartUnderLoad(
  { store, env = {}, count, ledger }: {
    readonly store: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly count: number;
    readonly ledger: Ledger;
  },
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const instances: Instance[] = [];
  for (let i = 0; i < count; i++) {
    instances.push(stack.use(await Instance.start(store, env)));
  }
  const nginx = stack.use(await Nginx.start(instances.map(({ port }) => port)));
  const { origin } = nginx;
  const targets = Array.from(
    { length: CONNECTIONS },
    () => ({ origin, client: stack.use(nginx.client()) }),
  );
  try {
    await createDuring(targets, ledger, async () => {
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        for (const instance of instances) {
          await instance.commits(COMMITS);
          await instance.end(signal);
          await instance.start();
          // A create that nginx has retried may wait at the next instance to stop.
          await settled(ledger);
        }
      }
      for (const instance of instances) await instance.commits(COMMITS);
    });
    const creates = [...ledger.sent.values()].flat();
    const failed = creates.filter(({ answer }) => answer !== 200);
    assert.deepEqual(failed.map(({ answer }) => answer), []);
    for (const instance of instances) await instance.end("SIGTERM");
  } catch (cause) {
    const log = nginx.stderr.slice(-LOG_CHARS);
    throw new Error(`nginx logged: ${log}`, { cause });
  }
}
