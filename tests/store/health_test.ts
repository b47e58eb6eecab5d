import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import {
  PROBE_MS,
  PROBES_UNSETTLED_MAX,
  RECOVERY_MS_MIN,
} from "../../src/limits.ts";
import { type ObservedStore, StoreHealth } from "../../src/store/health.ts";
import { FakeClock } from "../support/fake_store.ts";
import { eventually } from "../support/load.ts";

/** A store whose probe writes have the results that the test gives them. */
class ProbedStore implements ObservedStore {
  problem: string | undefined;
  readonly probes: PromiseWithResolvers<void>[] = [];

  checkFiles(): string | undefined {
    return this.problem;
  }

  probe(): Promise<void> {
    const probe = Promise.withResolvers<void>();
    this.probes.push(probe);
    return probe.promise;
  }

  /** Ends the last probe write; with a problem, it has failed. */
  async endProbe(problem?: string): Promise<void> {
    const probe = this.probes.at(-1);
    assert.ok(probe !== undefined, "expected a probe write, got none");
    if (problem === undefined) probe.resolve();
    else probe.reject(new TypeError(problem));
    await turn();
  }
}

function setUpHealth() {
  const store = new ProbedStore();
  const clock = new FakeClock();
  clock.now = 10_000;
  /** The reports that no assertion has removed yet. */
  const reports: (string | undefined)[] = [];
  const health = new StoreHealth(store, {
    storeFailing: (problem) => reports.push(problem),
    storeRecovered: () => reports.push(undefined),
  }, clock);
  return { store, clock, reports, health };
}

Deno.test("a store that fails is reported once, with its first problem, and once when it has recovered", () => {
  const { clock, reports, health } = setUpHealth();
  for (let i = 0; i < 5; i++) health.failed("database or disk is full");
  health.failed("disk I/O error");
  assert.equal(health.problem, "database or disk is full");
  assert.deepEqual(reports.splice(0), ["database or disk is full"]);
  clock.now += RECOVERY_MS_MIN;
  for (let i = 0; i < 5; i++) health.committed(0);
  assert.equal(health.problem, undefined);
  assert.deepEqual(reports.splice(0), [undefined]);
  health.failed("disk I/O error");
  assert.deepEqual(reports, ["disk I/O error"]);
});

Deno.test("a problem of the files is reported once, without a probe write, even while creates fail for another reason", () => {
  for (const earlier of [[], ["database or disk is full"]]) {
    const { store, reports, health } = setUpHealth();
    for (const problem of earlier) health.failed(problem);
    store.problem = "deleted";
    for (let i = 0; i < 3; i++) health.check();
    health.failed("deleted");
    assert.deepEqual(reports, [...earlier, "deleted"]);
    assert.equal(store.probes.length, 0);
  }
});

Deno.test("check() probes a store that fails, and no other", async () => {
  const { store, clock, reports, health } = setUpHealth();
  health.check();
  health.committed(0);
  assert.equal(store.probes.length, 0);
  assert.equal(health.problem, undefined);
  assert.deepEqual(reports, []);
  health.failed("disk I/O error");
  clock.now += RECOVERY_MS_MIN;
  health.check();
  health.check();
  assert.equal(store.probes.length, 1);
  await store.endProbe();
  assert.deepEqual(reports, ["disk I/O error", undefined]);
  clock.now += PROBE_MS;
  health.check();
  assert.equal(store.probes.length, 1);
});

Deno.test("probe() writes once for all calls within PROBE_MS", async () => {
  const { store, clock, reports, health } = setUpHealth();
  const probed = Array.from({ length: 100 }, () => health.probe());
  assert.equal(store.probes.length, 1);
  await store.endProbe();
  clock.now += PROBE_MS - 1;
  probed.push(health.probe());
  assert.deepEqual(new Set(await Promise.all(probed)), new Set([undefined]));
  assert.equal(store.probes.length, 1);

  clock.now++;
  const again = health.probe();
  assert.equal(store.probes.length, 2);
  await store.endProbe();
  assert.equal(await again, undefined);
  assert.deepEqual(reports, []);
});

Deno.test("probe() returns the problem of a failed write, and a write RECOVERY_MS_MIN later recovers", async () => {
  const { store, clock, reports, health } = setUpHealth();
  const probed = [health.probe(), health.probe()];
  await store.endProbe("database or disk is full");
  probed.push(health.probe());
  for (const problem of await Promise.all(probed)) {
    assert.equal(problem, "database or disk is full");
  }

  clock.now += RECOVERY_MS_MIN;
  const again = health.probe();
  await store.endProbe();
  assert.equal(await again, undefined);
  assert.equal(health.problem, undefined);
  assert.deepEqual(reports, ["database or disk is full", undefined]);
});

Deno.test("probe() retries while another process holds the lock", async () => {
  const { store, reports, health } = setUpHealth();
  const probed = health.probe();
  await store.endProbe("database is locked");
  await eventually(
    (count) => count === 2,
    () => Promise.resolve(store.probes.length),
  );
  await store.endProbe();
  assert.equal(await probed, undefined);
  assert.deepEqual(reports, []);
});

Deno.test("probe() reports the lock if another process holds it for PROBE_MS, even if the last write does not settle", async () => {
  const { store, health } = setUpHealth();
  const probed = health.probe();
  await store.endProbe("database is locked");
  assert.equal(await probed, "database is locked");
  assert.equal(store.probes.length, 2);
});

Deno.test("probe() answers within PROBE_MS if its write never settles, and probes again after a commit has succeeded", async () => {
  const { store, clock, reports, health } = setUpHealth();
  const problem = "no answer within 1 s";
  for (let outage = 1; outage <= 2; outage++) {
    const probed = await Promise.all([health.probe(), health.probe()]);
    assert.deepEqual(probed, [problem, problem]);
    assert.equal(store.probes.length, outage);
    clock.now += RECOVERY_MS_MIN;
    health.committed(0);
    assert.equal(health.problem, undefined);
    assert.deepEqual(reports.splice(0), [problem, undefined]);
  }
});

Deno.test("probe() keeps the store failing without a further write while PROBES_UNSETTLED_MAX have no result", async () => {
  const { store, clock, reports, health } = setUpHealth();
  const probed = Array.from({ length: PROBES_UNSETTLED_MAX }, () => {
    const answer = health.probe();
    clock.now += PROBE_MS;
    return answer;
  });
  await Promise.all(probed);
  for (let i = 0; i < 3; i++) {
    assert.equal(await health.probe(), "no answer within 1 s");
    clock.now += RECOVERY_MS_MIN;
  }
  assert.equal(store.probes.length, PROBES_UNSETTLED_MAX);
  health.committed(0);
  assert.deepEqual(reports.splice(0), ["no answer within 1 s", undefined]);
  // The commit does not replace a probe.
  const stillUnanswered = `no answer to ${PROBES_UNSETTLED_MAX} probes`;
  assert.equal(await health.probe(), stillUnanswered);
  assert.deepEqual(reports.splice(0), [stillUnanswered]);

  await store.endProbe();
  clock.now += RECOVERY_MS_MIN;
  health.check();
  assert.equal(store.probes.length, PROBES_UNSETTLED_MAX + 1);
  await store.endProbe();
  assert.equal(health.problem, undefined);
});

for (
  const [relation, ms, recovers] of [
    ["below", -1, false],
    ["at", 0, true],
  ] as const
) {
  const what = recovers ? "recovers" : "does not recover";
  Deno.test(`a probe ${what} a store on which a write last failed ${relation} RECOVERY_MS_MIN before`, async () => {
    const { store, clock, reports, health } = setUpHealth();
    health.failed("database or disk is full");
    clock.now += 700;
    health.failed("database or disk is full");
    clock.now += RECOVERY_MS_MIN + ms;
    const probed = health.probe();
    // The probe counts from its start.
    clock.now += 500;
    await store.endProbe();
    assert.equal(
      await probed,
      recovers ? undefined : "database or disk is full",
    );
    assert.equal(health.problem === undefined, recovers);
    assert.equal(reports.length, recovers ? 2 : 1);
  });

  Deno.test(`a commit ${what} a store whose probe failed ${relation} RECOVERY_MS_MIN before, during the next probe`, async () => {
    const { store, clock, health } = setUpHealth();
    const probed = health.probe();
    await store.endProbe("disk I/O error");
    await probed;
    clock.now += PROBE_MS;
    health.check();
    assert.equal(store.probes.length, 2);
    // The commit counts from its start.
    clock.now += RECOVERY_MS_MIN - PROBE_MS + ms + 500;
    health.committed(0.5);
    assert.equal(health.problem === undefined, recovers);
    await store.endProbe();
  });
}

Deno.test("a probe does not recover a store if a create fails meanwhile", async () => {
  const { store, clock, health } = setUpHealth();
  health.failed("database or disk is full");
  clock.now += 10 * RECOVERY_MS_MIN;
  const probed = health.probe();
  health.failed("database or disk is full");
  await store.endProbe();
  assert.equal(await probed, "database or disk is full");
});
