import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import {
  FILE_CHECK_MS_MAX,
  PROBE_MS,
  RECOVERY_MS_MIN,
} from "../../src/limits.ts";
import { type ObservedStore, StoreHealth } from "../../src/store/health.ts";

/** A store whose probe writes have the results that the test gives them. */
class ProbedStore implements ObservedStore {
  problem: string | undefined;
  /** A problem that only a check of the companions finds. */
  companionProblem: string | undefined;
  readonly probes: PromiseWithResolvers<void>[] = [];
  fileChecks = 0;
  #foundProblem: string | undefined;

  fileProblem(): string | undefined {
    this.fileChecks++;
    return this.problem ?? this.#foundProblem;
  }

  checkCompanions(): void {
    this.#foundProblem = this.companionProblem;
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

  /** Ends all probe writes, so that no timer is left of them. */
  async endProbes(): Promise<void> {
    for (const { reject } of this.probes) reject(new TypeError("ended"));
    await turn();
  }
}

function setUpHealth() {
  const store = new ProbedStore();
  const clock = { now: 10_000 };
  /** The reports that no assertion has removed yet. */
  const reports: (string | undefined)[] = [];
  const health = new StoreHealth(
    store,
    (problem) => reports.push(problem),
    () => clock.now,
  );
  return { store, clock, reports, health };
}

Deno.test("the store is healthy, and nothing reported, until a failure is known", () => {
  const { reports, health } = setUpHealth();
  health.check();
  health.succeeded();
  assert.equal(health.isHealthy(), true);
  assert.equal(health.problem, undefined);
  assert.deepEqual(reports, []);
});

Deno.test("a store that fails is reported once, with its first problem, and once when it has recovered", () => {
  const { reports, health } = setUpHealth();
  for (let i = 0; i < 5; i++) health.failed("database or disk is full");
  health.failed("disk I/O error");
  assert.equal(health.isHealthy(), false);
  assert.equal(health.problem, "database or disk is full");
  assert.deepEqual(reports.splice(0), ["database or disk is full"]);
  for (let i = 0; i < 5; i++) health.succeeded();
  assert.equal(health.isHealthy(), true);
  assert.equal(health.problem, undefined);
  assert.deepEqual(reports.splice(0), [undefined]);
  health.failed("disk I/O error");
  assert.deepEqual(reports, ["disk I/O error"]);
});

Deno.test("each file problem is reported once, and its end once, without a create", async () => {
  const { store, reports, health } = setUpHealth();
  const check = (problem: string | undefined) => {
    store.problem = problem;
    for (let i = 0; i < 3; i++) health.check();
  };
  check("deleted");
  assert.equal(health.isHealthy(), false);
  assert.deepEqual(reports.splice(0), ["deleted"]);
  check("replaced");
  assert.deepEqual(reports.splice(0), ["replaced"]);
  check(undefined);
  assert.equal(health.isHealthy(), true);
  assert.deepEqual(reports.splice(0), [undefined]);
  await store.endProbes();
});

Deno.test("a file problem that a failed create has reported is not reported again", async () => {
  const { store, reports, health } = setUpHealth();
  store.problem = "deleted";
  health.failed("deleted");
  health.check();
  health.failed("deleted");
  assert.deepEqual(reports.splice(0), ["deleted"]);
  store.problem = undefined;
  health.check();
  assert.deepEqual(reports, [undefined]);
  await store.endProbes();
});

Deno.test("a file problem is reported even while creates fail for another reason", async () => {
  const { store, reports, health } = setUpHealth();
  health.failed("database or disk is full");
  store.problem = "deleted";
  health.check();
  assert.deepEqual(reports, ["database or disk is full", "deleted"]);
  await store.endProbes();
});

Deno.test("a failing store is reported again when its missing file is back", async () => {
  const { store, reports, health } = setUpHealth();
  health.failed("database or disk is full");
  store.problem = "deleted";
  health.check();
  store.problem = undefined;
  health.check();
  assert.equal(health.isHealthy(), false);
  assert.deepEqual(reports, [
    "database or disk is full",
    "deleted",
    "database or disk is full",
  ]);
  await store.endProbes();
});

Deno.test("check() includes the companions of the file, which isHealthy() does not", async () => {
  const { store, clock, reports, health } = setUpHealth();
  store.companionProblem = "plants.db-wal was deleted";
  clock.now += 2 * FILE_CHECK_MS_MAX;
  assert.equal(health.isHealthy(), true);
  health.check();
  assert.equal(health.isHealthy(), false);
  assert.deepEqual(reports, ["plants.db-wal was deleted"]);
  await store.endProbes();
});

Deno.test("isHealthy() checks the file if the last check is older than FILE_CHECK_MS_MAX", () => {
  const { store, clock, reports, health } = setUpHealth();
  assert.equal(health.isHealthy(), true);
  assert.equal(store.fileChecks, 1);
  store.problem = "deleted";
  clock.now += FILE_CHECK_MS_MAX;
  assert.equal(health.isHealthy(), true);
  assert.equal(store.fileChecks, 1);
  clock.now += 0.001;
  assert.equal(health.isHealthy(), false);
  assert.equal(store.fileChecks, 2);
  assert.deepEqual(reports, ["deleted"]);
});

Deno.test("a file that is lost again after a commit has succeeded is reported again", async () => {
  const { store, clock, reports, health } = setUpHealth();
  store.problem = "deleted";
  health.check();
  // The file is put back, and a commit succeeds before the next check.
  health.succeeded();
  clock.now += 1_000;
  assert.deepEqual(reports.splice(0), ["deleted", undefined]);
  assert.equal(health.isHealthy(), false);
  assert.deepEqual(reports, ["deleted"]);
  await store.endProbes();
});

Deno.test("check() probes a store that fails, and no other", async () => {
  const { store, clock, reports, health } = setUpHealth();
  health.check();
  assert.equal(store.probes.length, 0);
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

Deno.test("probe() returns the problem of a failed write, and the next one recovers", async () => {
  const { store, clock, reports, health } = setUpHealth();
  const probed = [health.probe(), health.probe()];
  await store.endProbe("database or disk is full");
  probed.push(health.probe());
  for (const problem of await Promise.all(probed)) {
    assert.equal(problem, "database or disk is full");
  }
  assert.equal(health.isHealthy(), false);

  clock.now += PROBE_MS;
  const again = health.probe();
  await store.endProbe();
  assert.equal(await again, undefined);
  assert.equal(health.isHealthy(), true);
  assert.deepEqual(reports, ["database or disk is full", undefined]);
});

Deno.test("probe() answers within PROBE_MS if its write never settles, and later calls do not wait", async () => {
  const { store, clock, reports, health } = setUpHealth();
  const problem = "no answer within 1 s";
  const first = Array.from({ length: 100 }, () => health.probe());
  const answers = await Promise.all(first);
  assert.ok(answers.every((it) => it === problem));

  clock.now += 5 * PROBE_MS;
  health.check();
  const later = Array.from({ length: 100 }, () => health.probe());
  const laterAnswers = await Promise.race([Promise.all(later), turn([])]);
  assert.equal(laterAnswers.length, later.length);
  assert.ok(laterAnswers.every((it) => it === problem));
  assert.equal(store.probes.length, 1);
  assert.deepEqual(reports.splice(0), [problem]);

  // The write settles in the end: the store responds again.
  await store.endProbe();
  assert.equal(health.isHealthy(), true);
  assert.deepEqual(reports, [undefined]);
  const next = health.probe();
  assert.equal(store.probes.length, 2);
  await store.endProbe();
  assert.equal(await next, undefined);
});

for (
  const [relation, ms, recovers] of [
    ["below", -1, false],
    ["at", 0, true],
    ["above", 1, true],
  ] as const
) {
  Deno.test(`a probe ${recovers ? "recovers" : "does not recover"} a store whose last create failed ${relation} RECOVERY_MS_MIN before`, async () => {
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
    assert.equal(health.isHealthy(), recovers);
    assert.equal(reports.length, recovers ? 2 : 1);
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

Deno.test("a commit recovers a store at once", () => {
  const { reports, health } = setUpHealth();
  health.failed("database or disk is full");
  health.succeeded();
  assert.equal(health.isHealthy(), true);
  assert.deepEqual(reports, ["database or disk is full", undefined]);
});

Deno.test("a probe does not recover a store whose file is lost, though its write succeeds", async () => {
  const { store, clock, reports, health } = setUpHealth();
  store.problem = "deleted";
  health.check();
  await store.endProbe();
  clock.now += 10 * RECOVERY_MS_MIN;
  const probed = health.probe();
  await store.endProbe();
  assert.equal(await probed, "deleted");
  assert.deepEqual(reports, ["deleted"]);
});

Deno.test("probe() returns a new problem of the file or its companions", async () => {
  for (const kind of ["problem", "companionProblem"] as const) {
    const { store, reports, health } = setUpHealth();
    const probed = health.probe();
    store[kind] = "deleted";
    await store.endProbe();
    assert.equal(await probed, "deleted");
    assert.deepEqual(reports, ["deleted"]);
  }
});
