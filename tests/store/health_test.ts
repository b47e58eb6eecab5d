import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import {
  PROBE_MS,
  RECOVERY_MS_MIN,
  StoreHealth,
} from "../../src/store/health.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { FakeStore } from "../support/fake_store.ts";
import { LOCKED } from "../support/stores.ts";

const FULL = new StoreError("disk", "database or disk is full");
const NO_ANSWER = new StoreError("no answer", "no answer within 1 s");
const IO_ERROR = new StoreError("disk", "disk I/O error");

/** A store whose probe writes have the results that the test gives them. */
class ProbedStore extends FakeStore {
  error: StoreError | undefined;
  readonly probes: PromiseWithResolvers<void>[] = [];

  override verifyFiles(): void {
    if (this.error !== undefined) throw this.error;
  }

  override probe(): Promise<void> {
    const probe = Promise.withResolvers<void>();
    this.probes.push(probe);
    return probe.promise;
  }

  /** Ends the last probe write; with an error, it has failed. */
  async endProbe(error?: unknown): Promise<void> {
    const probe = this.probes.at(-1);
    assert.ok(probe !== undefined, "expected a probe write, got none");
    if (error === undefined) probe.resolve();
    else probe.reject(error);
    await turn();
  }
}

/** The health of a store, and what a test does to it. */
interface HealthParts {
  readonly store: ProbedStore;
  readonly clock: FakeClock;
  /** The reports that no assertion has removed yet. */
  readonly reports: (StoreError | undefined)[];
  readonly health: StoreHealth;
  /** Starts a probe that ends after a time; with an error, it fails. */
  readonly probe: (
    error?: StoreError,
    ms?: number,
  ) => Promise<StoreError | undefined>;
}

function setUpHealth(): HealthParts {
  const store = new ProbedStore();
  const clock = new FakeClock();
  clock.now = 10_000;
  const reports: (StoreError | undefined)[] = [];
  const health = new StoreHealth({
    store,
    onChange: (error) => reports.push(error),
    clock: clock.read,
  });
  async function probe(error?: StoreError, ms = 0) {
    const probed = health.probe();
    clock.now += ms;
    await store.endProbe(error);
    return await probed;
  }
  return { store, clock, reports, health, probe };
}

Deno.test("a store that fails is reported once, with its first error, and once when it has recovered", () => {
  const { clock, reports, health } = setUpHealth();
  for (let i = 0; i < 5; i++) health.commitFailed(FULL);
  health.commitFailed(NO_ANSWER);
  assert.equal(health.error, FULL);
  assert.deepEqual(reports.splice(0), [FULL]);
  clock.now += RECOVERY_MS_MIN;
  for (let i = 0; i < 5; i++) health.committed(clock.now);
  assert.equal(health.error, undefined);
  assert.deepEqual(reports.splice(0), [undefined]);
  health.commitFailed(IO_ERROR);
  assert.deepEqual(reports, [IO_ERROR]);
});

Deno.test("an error of the files is reported once, without a probe write, even while creates fail for another reason", () => {
  const lost = new StoreError("lost", "it was deleted or moved");
  for (const earlier of [[], [FULL]]) {
    const { store, reports, health } = setUpHealth();
    for (const error of earlier) health.commitFailed(error);
    store.error = lost;
    for (let i = 0; i < 3; i++) health.refresh();
    health.commitFailed(lost);
    assert.deepEqual(reports, [...earlier, lost]);
    assert.equal(health.error, lost);
    assert.equal(store.probes.length, 0);
  }
});

Deno.test("a probe that fails is reported if it is of another kind than the last error", async () => {
  const { clock, reports, probe } = setUpHealth();
  const denied = ["wal", "shm"].map((it) => new StoreError("denied", it));
  for (const error of [IO_ERROR, FULL, ...denied]) {
    clock.now += PROBE_MS;
    await probe(error);
  }
  assert.deepEqual(reports, [IO_ERROR, denied[0]]);
});

Deno.test("a store that is lost or corrupt stays so", async () => {
  for (const kind of ["lost", "corrupt"] as const) {
    const { store, clock, reports, health, probe } = setUpHealth();
    const final = new StoreError(kind, "it has ended");
    store.error = final;
    health.refresh();
    store.error = undefined;
    clock.now += RECOVERY_MS_MIN;
    health.committed(clock.now);
    assert.equal(await probe(FULL), final);
    assert.deepEqual(reports, [final]);
  }
});

Deno.test("a corrupt store that is then lost is reported as lost, too, once, and stays lost", () => {
  const { store, reports, health } = setUpHealth();
  const [corrupt, lost] = (["corrupt", "lost"] as const)
    .map((kind) => new StoreError(kind, "it has ended"));
  for (const error of [corrupt, lost, lost, corrupt]) {
    store.error = error;
    health.refresh();
  }
  assert.deepEqual(reports, [corrupt, lost]);
  assert.equal(health.error, lost);
});

Deno.test("refresh() throws a programmer error, and does not report it", () => {
  const { store, reports, health } = setUpHealth();
  const bug = new TypeError("a bug of this test");
  store.verifyFiles = () => {
    throw bug;
  };
  assert.throws(() => health.refresh(), bug);
  assert.deepEqual(reports, []);
});

Deno.test("refresh() probes a store that fails, and no other", async () => {
  const { store, clock, reports, health } = setUpHealth();
  health.refresh();
  health.committed(clock.now);
  assert.equal(store.probes.length, 0);
  assert.equal(health.error, undefined);
  assert.deepEqual(reports, []);
  health.commitFailed(IO_ERROR);
  clock.now += RECOVERY_MS_MIN;
  health.refresh();
  health.refresh();
  assert.equal(store.probes.length, 1);
  await store.endProbe();
  assert.deepEqual(reports, [IO_ERROR, undefined]);
  clock.now += PROBE_MS;
  health.refresh();
  assert.equal(store.probes.length, 1);
});

Deno.test("probe() writes once for all calls within PROBE_MS", async () => {
  const { store, clock, reports, health, probe } = setUpHealth();
  const probed = Array.from({ length: 100 }, () => health.probe());
  assert.equal(store.probes.length, 1);
  await store.endProbe();
  clock.now += PROBE_MS - 1;
  probed.push(health.probe());
  assert.deepEqual(new Set(await Promise.all(probed)), new Set([undefined]));
  assert.equal(store.probes.length, 1);

  clock.now++;
  assert.equal(await probe(), undefined);
  assert.equal(store.probes.length, 2);
  assert.deepEqual(reports, []);
});

Deno.test("probe() keeps the store failing without a further write while one has no result", async () => {
  const { store, clock, reports, health } = setUpHealth();
  for (let i = 0; i < 3; i++) {
    assert.deepEqual(await health.probe(), NO_ANSWER);
    clock.now += RECOVERY_MS_MIN;
  }
  assert.equal(store.probes.length, 1);
  health.committed(clock.now);
  assert.deepEqual(reports.splice(0), [NO_ANSWER, undefined]);
  // The commit does not replace a probe.
  assert.deepEqual(await health.probe(), NO_ANSWER);
  assert.deepEqual(reports.splice(0), [NO_ANSWER]);

  await store.endProbe();
  clock.now += RECOVERY_MS_MIN;
  health.refresh();
  assert.equal(store.probes.length, 2);
  await store.endProbe();
  assert.equal(health.error, undefined);
});

Deno.test("probe() repeats a write that meets a lock", async () => {
  const { store, reports, health } = setUpHealth();
  const results = [Promise.reject(LOCKED), Promise.resolve()];
  store.probe = () => results.shift() ?? assert.fail("a third write");
  assert.equal(await health.probe(), undefined);
  assert.deepEqual(results, []);
  assert.deepEqual(reports, []);
});

Deno.test("probe() reports a lock that stays for PROBE_MS", async () => {
  const { store, reports, health } = setUpHealth();
  store.probe = () => Promise.reject(LOCKED);
  assert.equal(await health.probe(), LOCKED);
  assert.deepEqual(reports, [LOCKED]);
});

/** Something that happens to a store. */
type Step = (parts: HealthParts) => unknown;

/** Each way to find that a store fails, and each that shows that it works. */
const FAILURES: readonly Step[] = [
  ({ health }) => health.commitFailed(FULL),
  ({ probe }) => probe(FULL),
  ({ store, health }) => {
    store.error = FULL;
    health.refresh();
    store.error = undefined;
  },
];
const WRITES: readonly Step[] = [
  ({ clock, health }) => {
    clock.now += 500;
    health.committed(clock.now - 500);
  },
  ({ probe }) => probe(undefined, 500),
];

Deno.test("a store recovers with a write that starts RECOVERY_MS_MIN after its last failure, whatever failed, and not before", async () => {
  for (const fail of FAILURES) {
    for (const write of WRITES) {
      for (const ms of [RECOVERY_MS_MIN - 1, RECOVERY_MS_MIN]) {
        const parts = setUpHealth();
        parts.health.commitFailed(FULL);
        parts.clock.now += PROBE_MS;
        await fail(parts);
        parts.clock.now += ms;
        await write(parts);
        const recovery = ms === RECOVERY_MS_MIN ? [undefined] : [];
        assert.deepEqual(parts.reports, [FULL, ...recovery]);
      }
    }
  }
});
