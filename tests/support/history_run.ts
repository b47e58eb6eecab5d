/**
 * Clients that create plants through several instances while these fail, and an
 * operator that removes plants.
 */
import assert from "node:assert/strict";
import { COMMIT_MS_MAX, ID_MAX, ID_MIN } from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import { openExistingStore, type StoreLocation } from "../../src/store/open.ts";
import { ABSENT, isUnsettled } from "./history.ts";
import type { KvServer } from "./kv_server.ts";
import type { Instance } from "./instances.ts";
import type { Ledger } from "./ledger.ts";
import { pause, settleAll } from "./waiting.ts";
import { LONGEST_PLANTS, SIMILAR_PLANTS } from "./plants.ts";
import { numberFromEnv, Random } from "./random.ts";

/** Duration of a run, without the creates after the last accident. */
export const HISTORY_S = numberFromEnv("HISTORY_S", 4);

/** Clients, each with one request at a time on a connection of its own. */
const CLIENTS = 24;

/** Sends and replies in a step, and the steps until an id goes stale. */
const EVENTS_PER_STEP = 100;
const STEPS_IN_USE = 4;

/** Creates of each client after the last accident. */
const LAST_CREATES = 20;

/** How long a client waits for a reply. */
const PATIENCE_MS = [50, 500, 30_000, 30_000, 30_000] as const;

/** How long a client pauses before it sends to the next instance. */
const RETRY_MS = [1, 20] as const;

/** How long the operator pauses between two removals. */
const REMOVAL_PAUSE_MS = [0, 50] as const;

const ACCIDENTS = ["SIGKILL", "SIGTERM", "SIGSTOP"] as const;

/** How long all processes run between two accidents. */
const CALM_MS = [50, 500] as const;

/** How long SIGSTOP stops a process. */
const FREEZE_MS = [100, 1_500] as const;

/** How long the KV Connect server is away; seldom longer than commits wait. */
const AWAY_MS = [0, 500] as const;
const LONG_AWAY_MS = COMMIT_MS_MAX + 500;

/** What clients, the operator and accidents need. */
export interface Run {
  readonly store: StoreLocation;
  readonly instances: readonly Instance[];
  /** The KV Connect server, unless the store is a file. */
  readonly server: KvServer | undefined;
  readonly seed: number;
  readonly ledger: Ledger;
  /** Gets a name for each accident. */
  readonly accidents: string[];
}

/**
 * Lets clients create plants, which an operator removes, while accidents happen,
 * and for a moment after the last one. The seed determines what each client draws
 * and which accidents happen, but not the timing.
 */
export async function runHistory(run: Run): Promise<void> {
  const over = new AbortController();
  const clients = Array(CLIENTS).keys()
    .map((client) => sendCreates(run, client, over.signal)).toArray();
  // The first part to end or to fail ends the others.
  await settleAll(
    [
      causeAccidents(run, over.signal),
      removePlants(run, over.signal),
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
      const accident = random.pick(ACCIDENTS);
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
    newPlant = drawNewPlant(random, ledger.events);
  }
}

/**
 * Removes one plant after another, as the command does, with a connection of its
 * own. A removal that fails may have taken effect.
 */
async function removePlants(
  { store, seed, ledger }: Run,
  over: AbortSignal,
): Promise<void> {
  const random = new Random(seed + 1 + CLIENTS);
  const open = await openExistingStore(store);
  try {
    while (!over.aborted) {
      const id = drawId(random, ledger.events);
      const removal = ledger.removes(id);
      const answer = await open.remove(id)
        .then((wasThere) => wasThere ? 200 : ABSENT, () => 0);
      ledger.removed(removal, answer);
      await pause(random.int(...REMOVAL_PAUSE_MS));
    }
  } finally {
    open.close();
  }
}

function drawNewPlant(random: Random, events: number): NewPlant {
  const id = drawId(random, events);
  const plants = random.chance(0.03) ? LONGEST_PLANTS : SIMILAR_PLANTS;
  return { id, plant: random.pick(plants) };
}

/** Draws an id, mostly one of the few that are in use. */
function drawId(random: Random, events: number): bigint {
  const last = Math.floor(events / EVENTS_PER_STEP);
  const first = random.chance(0.9) ? Math.max(0, last - STEPS_IN_USE + 1) : 0;
  const step = BigInt(random.int(first, last));
  return random.pick(
    [step, -step, ID_MIN + step, ID_MAX - step, 2n ** 53n + step],
  );
}
