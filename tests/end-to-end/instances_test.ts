/** Several instances on one store, behind nginx as src/deploy/ configures it. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { ConstantLoad, Instance } from "../support/instances.ts";
import { DENOKV, KV_ENV, KvServer } from "../support/kv_server.ts";
import {
  drawPlant,
  eventually,
  inParallel,
  isStored,
  Ledger,
  pause,
  type Tally,
} from "../support/load.ts";
import { NGINX, Nginx } from "../support/nginx.ts";
import type { Ended } from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { drawId, exportLines, toLine } from "../support/transfer.ts";

const CONNECTIONS = 40;
const CREATES_PER_SECOND = 1_000;

const ROLLING_RESTARTS = 3;
const KILLS = 2;

/** How long the KV Connect server is away. */
const AWAY_MS = 3_000;

/** Ids that every instance receives with a different plant. */
const CONFLICTING_IDS = 1_000;

/** Commits that an instance makes under load before it is ended. */
const COMMITS = 200;

/** Replies by which the instances count as recovered. */
const REPLIES = 2_000;

/** How much of the log of nginx a failure shows. */
const LOG_CHARS = 2_000;

const QUEUE_FULL = API_ERRORS.queueFull.error;
const STORE_FAILED = API_ERRORS.storeFailed.error;

Deno.test({
  name:
    "two instances on one file restart and are killed under load without a failed request, and lose nothing",
  ignore: NGINX === "",
  fn: async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await prove({ store, env: {}, count: 2 }, async (run) => {
      await restartInTurn(run);
      await killInstances(run);
      await sendConflicts(run);
    });
  },
});

Deno.test({
  name:
    "three instances on one KV Connect server restart and are killed under load without a failed request, recover when the server was killed, and lose nothing",
  ignore: NGINX === "" || DENOKV === undefined,
  fn: async () => {
    using directory = new TemporaryDirectory();
    await using server = await KvServer.start(directory.file("kv.db"));
    const store = server.url;
    const on = { store, env: KV_ENV, count: 3 };
    await prove(on, async (run) => {
      await restartInTurn(run);
      await killInstances(run);
      await killServer(server, run);
      await sendConflicts(run);
    });
  },
});

/** The store, and the number of instances on it. */
interface Setup {
  readonly store: string;
  readonly env: Readonly<Record<string, string>>;
  readonly count: number;
}

/** The state of a test. */
interface Run {
  readonly instances: readonly Instance[];
  readonly load: ConstantLoad;
  readonly ledger: Ledger;
  readonly random: Random;
}

/** Runs a test, and compares an export with what was sent. */
async function prove(
  { store, env, count }: Setup,
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
      new ConstantLoad({
        ...{ nginx, ledger, random, connections: CONNECTIONS },
        perSecond: CREATES_PER_SECOND,
      }),
    );
    await test({ instances, load, ledger, random });
    for (const instance of instances) await instance.stop();
    assertExported(await exportLines(store, { env }), ledger);
  } catch (cause) {
    const log = nginx.log.slice(-LOG_CHARS);
    throw new Error(`with SEED=${seed}; nginx logged: ${log}`, { cause });
  }
}

/** Restarts every instance in turn with SIGTERM, several times. */
async function restartInTurn({ instances, load }: Run): Promise<void> {
  const tally = await load.during(async () => {
    for (let restarts = 0; restarts < ROLLING_RESTARTS; restarts++) {
      for (const instance of instances) {
        const { status, stderr } = await restart(instance, load, "SIGTERM");
        assert.equal(status, 0, stderr);
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
  load: ConstantLoad,
  signal: "SIGTERM" | "SIGKILL",
): Promise<Ended> {
  await instance.commits(COMMITS);
  const ended = await instance.restart(signal);
  // A create that nginx has retried may wait at the next instance to stop.
  await load.settled();
  return ended;
}

/** Kills the KV Connect server under load, and starts it again. */
async function killServer(
  server: KvServer,
  { instances, load, ledger }: Run,
): Promise<void> {
  const away = await load.during(async (tally) => {
    await server.kill();
    await pause(AWAY_MS);
    // Creates that wait for the server are refused only after a while.
    await eventually(
      (refused) => refused > 0,
      () => Promise.resolve(tally.of(QUEUE_FULL) + tally.of(STORE_FAILED)),
    );
    await server.restart();
    for (const instance of instances) await instance.ready();
  });
  for (const name of Object.keys(away.counts)) {
    assert.ok(["200", `${QUEUE_FULL}`, `${STORE_FAILED}`].includes(name), name);
  }
  await inParallel(ledger.ambiguous, async ([id, plant]) => {
    await eventually(isStored, () => load.create({ id, plant }));
  });
  const after = await load.during((tally) =>
    eventually(
      (replies) => replies >= REPLIES,
      () => Promise.resolve(totalOf(tally)),
    )
  );
  assertAllStored(after);
}

/** Sends ids with different plants through all instances at the same time. */
async function sendConflicts(
  { instances, ledger, random }: Run,
): Promise<void> {
  const ids = Array.from({ length: CONFLICTING_IDS }, () => drawId(random));
  const wins = instances.map(() => 0);
  await inParallel(ids, async (id) => {
    const replies = await Promise.all(instances.map((instance, i) => {
      const { name } = drawPlant(random);
      const newPlant = { id, plant: { name: `${i} ${name}` } };
      return ledger.send(instance, newPlant);
    }));
    const winner = replies.findIndex(isStored);
    const expected = instances.map((_, i) => i === winner ? 200 : 409);
    assert.deepEqual(replies.map(({ status }) => status), expected, `${id}`);
    wins[winner] = (wins[winner] ?? 0) + 1;
  }, CONNECTIONS);
  assert.ok(wins.every((count) => count > 0), `not a race: ${wins}`);
}

/** Asserts that every create was answered 200. */
function assertAllStored({ counts }: Tally): void {
  assert.deepEqual(Object.keys(counts), ["200"]);
}

function totalOf({ counts }: Tally): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/**
 * Asserts that an export has every acknowledged plant once and unaltered, and
 * no plant that was never sent.
 */
function assertExported(lines: readonly string[], ledger: Ledger): void {
  const exported = new Map(lines.map((line) => [idOf(line), line]));
  assert.equal(exported.size, lines.length, "an id was exported twice");
  for (const [id, { name, tag }] of ledger.acknowledged) {
    assert.equal(exported.get(id), toLine(id, name, tag));
  }
  for (const [id, line] of exported) {
    const sent = ledger.sent.get(id) ?? [];
    const wasSent = sent.some(({ name, tag }) =>
      toLine(id, name, tag) === line
    );
    assert.ok(wasSent, `never sent: ${line.slice(0, 80)}`);
  }
}

function idOf(line: string): bigint {
  return BigInt(/^\{"id":(-?\d+),/.exec(line)?.[1] ?? "");
}
