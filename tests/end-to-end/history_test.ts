/**
 * Random creates through several instances, which fail meanwhile, removals and
 * replacements, checked by the model in support/history.ts.
 */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { ID_MAX, ID_MIN, WRITE_MS_MAX } from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import { openExistingStore, type StoreLocation } from "../../src/store/open.ts";
import { changePlant } from "../../src/store/plants.ts";
import { ABSENT, isUnsettled, type Operation } from "../support/history.ts";
import { Instance } from "../support/instances.ts";
import { KV_ENV, KvServer } from "../support/kv_server.ts";
import { Ledger } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { LONGEST_PLANTS, SIMILAR_PLANTS } from "../support/plants.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { closing, fileAt, serverAt } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { pause, settleAll } from "../support/waiting.ts";

/** Duration of a run, without the creates after the last accident. */
const HISTORY_S = numberFromEnv("HISTORY_S", 4);

/** Clients, each with one request at a time on a connection of its own. */
const CLIENTS = 24;

/** Sends and replies in a step, and the steps until an id goes stale. */
const EVENTS_PER_STEP = 100;
const STEPS_IN_USE = 4;

/** Creates of each client, and changes, after the last accident. */
const LAST_CREATES = 20;
const LAST_CHANGES = 20;

/** How long a client waits for a reply. */
const PATIENCE_MS = [50, 500, 30_000, 30_000, 30_000] as const;

/** How long a client pauses before it sends to the next instance. */
const RETRY_MS = [1, 20] as const;

/** How long the operator pauses between two changes. */
const CHANGE_PAUSE_MS = [0, 50] as const;

const SIGNALS = ["SIGKILL", "SIGTERM", "SIGSTOP"] as const;

/** How long all processes run between two accidents. */
const CALM_MS = [50, 500] as const;

/** How long SIGSTOP stops a process. */
const FREEZE_MS = [100, 1_500] as const;

/** How long the KV Connect server is away; seldom longer than commits wait. */
const AWAY_MS = [0, 500] as const;
const LONG_AWAY_MS = WRITE_MS_MAX + 500;

/** What clients, the operator and accidents need. */
interface Run {
  readonly store: StoreLocation;
  readonly instances: readonly Instance[];
  /** The KV Connect server, unless the store is a file. */
  readonly server: KvServer | undefined;
  readonly seed: number;
  readonly ledger: Ledger;
  /** Gets a name for each accident. */
  readonly accidents: string[];
}

for (
  const { count, instances } of [
    { count: 1, instances: "one instance" },
    { count: 2, instances: "two instances" },
  ]
) {
  Deno.test(`creates through ${instances} on one file, and changes, are exact when they are killed, stopped and restarted`, async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await assertExact(count, store);
  });
}

for (const count of [2, 3]) {
  Deno.test({
    name:
      `creates through ${count} instances on a KV Connect server, and changes, are exact when any of them is killed or stopped`,
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
    const answersOf = (of: ReadonlyMap<bigint, readonly Operation[]>) =>
      new Set([...of.values()].flat().map(({ answer }) => answer));
    const creates = answersOf(ledger.sent);
    for (const answer of [200, API_ERRORS.idTaken.error]) {
      assert.ok(creates.has(answer), `no create was answered ${answer}`);
    }
    const changes = answersOf(ledger.changes);
    for (const answer of [200, ABSENT]) {
      assert.ok(changes.has(answer), `no change was answered ${answer}`);
    }
  } catch (cause) {
    const message = `with SEED=${seed} HISTORY_S=${HISTORY_S}: ${accidents}`;
    throw new Error(message, { cause });
  }
}

/**
 * Lets clients create plants, which an operator changes, while accidents happen,
 * and for a moment after the last one. The seed determines what each client draws
 * and which accidents happen, but not the timing.
 */
async function runHistory(run: Run): Promise<void> {
  const over = new AbortController();
  const clients = Array(CLIENTS).keys()
    .map((client) => sendCreates(run, client, over.signal)).toArray();
  // The first part to end or to fail ends the others.
  await settleAll(
    [
      causeAccidents(run, over.signal),
      changePlants(run, over.signal),
      ...clients,
    ].map((part) => part.finally(() => over.abort())),
  );
}

/** Causes one accident after another, some to several instances at once. */
async function causeAccidents(
  { instances, server, seed, accidents }: Run,
  over: AbortSignal,
): Promise<void> {
  const random = new Random(seed);
  const untilMs = performance.now() + 1_000 * HISTORY_S;
  while (performance.now() < untilMs && !over.aborted) {
    await pause(random.int(...CALM_MS));
    if (server !== undefined && random.chance(0.3)) {
      accidents.push("server");
      await disturbServer(server, random);
      continue;
    }
    const affected = instances.filter(() => random.chance(0.6));
    await settleAll(affected.map(async (instance) => {
      const accident = random.pick(SIGNALS);
      accidents.push(accident);
      if (accident === "SIGSTOP") {
        await instance.freeze(random.int(...FREEZE_MS));
      } else {
        await instance.end(accident);
        await instance.start();
      }
    }));
  }
}

/** Stops the KV Connect server for a while, or kills and restarts it. */
async function disturbServer(server: KvServer, random: Random): Promise<void> {
  if (random.chance(0.5)) {
    server.freeze();
    await pause(random.int(...FREEZE_MS));
    server.thaw();
  } else {
    await server.kill();
    const isLong = random.chance(0.1);
    await pause(isLong ? LONG_AWAY_MS : random.int(...AWAY_MS));
    await server.restart();
  }
}

/** Sends creates, most of them again until they have an outcome. */
async function sendCreates(
  { instances, seed, ledger }: Run,
  client: number,
  over: AbortSignal,
): Promise<void> {
  const random = new Random(seed + 1 + client);
  let newPlant = drawNewPlant(random, 0);
  let turn = client;
  for (let last = 0; last < LAST_CREATES; last += over.aborted ? 1 : 0) {
    const instance = instances[turn % instances.length];
    assert.ok(instance !== undefined);
    const signal = AbortSignal.timeout(random.pick(PATIENCE_MS));
    const reply = await ledger.send(instance, newPlant, signal);
    const { status, error = status } = reply;
    if (isUnsettled(error)) {
      turn++;
      await pause(random.int(...RETRY_MS));
      if (random.chance(0.7)) continue;
    }
    newPlant = drawNewPlant(random, ledger.now);
  }
}

/**
 * Removes or replaces one plant after another, as the commands do, with a connection
 * of its own. A change that fails may have taken effect.
 */
async function changePlants(
  { store, seed, ledger }: Run,
  over: AbortSignal,
): Promise<void> {
  const random = new Random(seed + 1 + CLIENTS);
  using open = closing(await openExistingStore(store));
  for (let last = 0; last < LAST_CHANGES; last += over.aborted ? 1 : 0) {
    const newPlant = drawNewPlant(random, ledger.now);
    const { id } = newPlant;
    const [operation, changing] = random.chance(0.5)
      ? [ledger.mayRemove(id), changePlant(open, id, undefined)]
      : [ledger.mayReplace(newPlant), changePlant(open, id, newPlant.plant)];
    const answer = await changing
      .then((it) => it === "absent" ? ABSENT : 200, () => 0);
    ledger.answered(operation, answer);
    await pause(random.int(...CHANGE_PAUSE_MS));
  }
}

function drawNewPlant(random: Random, now: number): NewPlant {
  const id = drawUsedId(random, now);
  const plants = random.chance(0.03) ? LONGEST_PLANTS : SIMILAR_PLANTS;
  return { id, plant: random.pick(plants) };
}

/** Draws an id, mostly one of the few that are in use. */
function drawUsedId(random: Random, now: number): bigint {
  const last = Math.floor(now / EVENTS_PER_STEP);
  const first = random.chance(0.9) ? Math.max(0, last - STEPS_IN_USE + 1) : 0;
  const step = BigInt(random.int(first, last));
  return random.pick(
    [step, -step, ID_MIN + step, ID_MAX - step, 2n ** 53n + step],
  );
}
