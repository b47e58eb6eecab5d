/** Several instances on one store, behind nginx as src/deploy/ configures it. */
import assert from "node:assert/strict";
import { Instance, Load } from "../support/instances.ts";
import { KV_ENV, KvServer } from "../support/kv_server.ts";
import { Ledger, type Tally } from "../support/load.ts";
import { needs } from "../support/needs.ts";
import { Nginx } from "../support/nginx.ts";
import { Random, seedOfRun } from "../support/random.ts";

const CONNECTIONS = 40;

const ROLLING_RESTARTS = 3;
const KILLS = 2;

/** Commits that an instance makes under load before it is ended. */
const COMMITS = 200;

/** How much of the log of nginx a failure shows. */
const LOG_CHARS = 2_000;

needs("NGINX").test(
  "two instances on one file restart and are killed under load without a failed request, and lose nothing",
  async ({ store }) => {
    await prove({ store, count: 2 }, async (run) => {
      await restartInTurn(run);
      await killInstances(run);
      await stopInstances(run);
      await run.ledger.assertFile(store);
    });
  },
);

needs("NGINX", "DENOKV").test(
  "three instances on a KV Connect server restart and are killed under load without a failed request, and lose nothing",
  async ({ directory }) => {
    const file = directory.file("kv.db");
    await using server = await KvServer.start(file);
    const on = { store: server.url, env: KV_ENV, count: 3 };
    await prove(on, async (run) => {
      await restartInTurn(run);
      await killInstances(run);
      await stopInstances(run);
      await server.kill();
      await run.ledger.assertFile(file);
    });
  },
);

/** The state of a test. */
interface Run {
  readonly instances: readonly Instance[];
  readonly load: Load;
  readonly ledger: Ledger;
}

/** Runs a test with instances behind nginx. */
async function prove(
  { store, env = {}, count }: {
    readonly store: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly count: number;
  },
  test: (run: Run) => Promise<void>,
): Promise<void> {
  const seed = seedOfRun();
  const random = new Random(seed);
  const ledger = new Ledger();
  await using stack = new AsyncDisposableStack();
  const instances: Instance[] = [];
  for (let i = 0; i < count; i++) {
    instances.push(stack.use(await Instance.start(store, env)));
  }
  const nginx = stack.use(await Nginx.start(instances.map(({ port }) => port)));
  try {
    const load = stack.use(
      new Load(nginx, { connections: CONNECTIONS, ledger, random }),
    );
    await test({ instances, load, ledger });
  } catch (cause) {
    const log = nginx.stderr.slice(-LOG_CHARS);
    throw new Error(`with SEED=${seed}; nginx logged: ${log}`, { cause });
  }
}

/** Stops every instance, which answers everything. */
async function stopInstances({ instances }: Run): Promise<void> {
  for (const instance of instances) await instance.end("SIGTERM");
}

/** Restarts every instance in turn with SIGTERM, several times. */
async function restartInTurn({ instances, load }: Run): Promise<void> {
  const tally = await load.during(async () => {
    for (let restarts = 0; restarts < ROLLING_RESTARTS; restarts++) {
      for (const instance of instances) {
        await restart(instance, load, "SIGTERM");
      }
    }
  });
  assertAllStored(tally);
}

/** Kills one instance after another under load, and starts it again. */
async function killInstances({ instances, load }: Run): Promise<void> {
  const tally = await load.during(async () => {
    for (const instance of instances.slice(0, KILLS)) {
      await restart(instance, load, "SIGKILL");
    }
    for (const instance of instances) await instance.commits(COMMITS);
  });
  assertAllStored(tally);
}

/** Restarts an instance that is under load. */
async function restart(
  instance: Instance,
  load: Load,
  signal: "SIGTERM" | "SIGKILL",
): Promise<void> {
  await instance.commits(COMMITS);
  await instance.end(signal);
  await instance.start();
  // A create that nginx has retried may wait at the next instance to stop.
  await load.settled();
}

/** Asserts that every create was answered 200. */
function assertAllStored({ counts }: Tally): void {
  assert.deepEqual(Object.keys(counts), ["200"]);
}
