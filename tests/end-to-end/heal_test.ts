/**
 * Accidents to the files of a store under a running service: after a restart
 * alone, every acknowledged plant is stored.
 */
import assert from "node:assert/strict";
import { createDuring, Instance } from "../support/instances.ts";
import { Ledger } from "../support/ledger.ts";
import { newPlants, range } from "../support/plants.ts";
import { eventually } from "../support/waiting.ts";
import {
  assertOneLine,
  assertSucceeded,
  occurrences,
  Program,
  runProgram,
} from "../support/program.ts";
import { numberFromEnv } from "../support/random.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { test, type TestPlace, testsWith } from "../support/tests.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { backUp, createStore, exportLines } from "../support/transfer.ts";

/** Plants in the stores of the tests that need many. */
const PLANTS = numberFromEnv("HEAL_PLANTS", 10_000);

/** Acknowledged creates before an accident, and after the restart. */
const CREATES = 200;

const RESCUED =
  /error: rescued all plants \(\d+\) in \S+: restart the service\n/;

/** Waits until further creates are acknowledged. */
async function acknowledges({ acknowledged }: Ledger): Promise<void> {
  const expected = acknowledged.size + CREATES;
  await eventually((size) => size >= expected, () => acknowledged.size);
}

/** Asserts that the rescued files in a directory were imported, and are complete. */
function assertImported(
  directory: TemporaryDirectory,
  files: number,
  name = "",
): void {
  const names = directory.names(name).join("\n");
  assert.equal(occurrences(names, /\.imported-\S+\.jsonl$/gm), files, names);
  assert.doesNotMatch(names, /\.rescued-|\.partial/);
}

/** A store in a directory of its own, and another store. */
interface Accident {
  readonly place: TestPlace;
  readonly store: string;
  readonly other: string;
  readonly instance: Instance;
}

const SUFFIXES = ["", "-wal", "-shm"] as const;

function moveFiles(from: string, to: string): void {
  for (const suffix of SUFFIXES) Deno.renameSync(from + suffix, to + suffix);
}

/** Creates plants in another store, and ends its service. */
async function makeOther(
  { place: { ledger }, other }: Accident,
  signal: "SIGTERM" | "SIGKILL",
): Promise<void> {
  await using program = await Program.start(["--kv", other]);
  await ledger.store(program, newPlants(range(-500n, 500)));
  await program.stop(signal);
}

/** What happens to a store, which is lost then. */
const ACCIDENTS: Readonly<
  Record<string, (accident: Accident) => void | Promise<void>>
> = {
  "is deleted": ({ store }) => Deno.removeSync(store),
  "is deleted with its log"({ store }) {
    for (const suffix of SUFFIXES) Deno.removeSync(store + suffix);
  },
  async "is moved away and back"({ store, other, instance }) {
    moveFiles(store, other);
    await instance.printed(/error: the store fails: /);
    moveFiles(other, store);
  },
  "is moved behind a link"({ store, other }) {
    Deno.renameSync(store, other);
    Deno.symlinkSync(other, store);
  },
  async "is replaced by another store in WAL mode"(accident) {
    await makeOther(accident, "SIGTERM");
    Deno.renameSync(accident.other, accident.store);
  },
  async "is replaced by a killed store with its log"(accident) {
    await makeOther(accident, "SIGKILL");
    moveFiles(accident.other, accident.store);
  },
  async "is replaced by a backup of another store"(accident) {
    const { other, store } = accident;
    await makeOther(accident, "SIGTERM");
    assertSucceeded(await backUp(other, `${other}.backup`));
    Deno.renameSync(`${other}.backup`, store);
  },
  "loses its log": ({ store }) => Deno.removeSync(`${store}-wal`),
  "loses the index of its log": ({ store }) => Deno.removeSync(`${store}-shm`),
};

for (const [what, cause] of Object.entries(ACCIDENTS)) {
  test(`a restart heals a store that ${what}`, async (place) => {
    const { directory, ledger } = place;
    Deno.mkdirSync(directory.file("data"));
    const store = directory.file("data/plants.db");
    const other = directory.file("other.db");
    await using instance = await Instance.start(store);
    await createDuring([instance], ledger, async () => {
      await acknowledges(ledger);
      await cause({ place, store, other, instance });
      await instance.printed(RESCUED);
      await instance.end("SIGTERM");
      await instance.start();
      assert.match(instance.logged, /warning: imported \d+ plants /);
      assert.doesNotMatch(instance.logged, /error:/);
      await acknowledges(ledger);
    });
    await instance.end("SIGTERM");
    await ledger.assertFile(store);
    assertImported(directory, 1, "data");
  });
}

test("restarts of two instances on one file heal a store that is deleted", async ({ directory, store, ledger }) => {
  await using first = await Instance.start(store);
  await using second = await Instance.start(store);
  const instances = [first, second];
  await createDuring(instances, ledger, async () => {
    await acknowledges(ledger);
    Deno.removeSync(store);
    for (const instance of instances) await instance.printed(RESCUED);
    for (const instance of instances) await instance.end("SIGTERM");
    await Promise.all(instances.map((instance) => instance.start()));
    for (const instance of instances) {
      assert.doesNotMatch(instance.logged, /error:/);
    }
    await acknowledges(ledger);
  });
  for (const instance of instances) await instance.end("SIGTERM");
  await ledger.assertFile(store);
  assertImported(directory, 2);
});

test("a stop waits for a rescue, a start imports what a stopped one, one that lost its store and a killed one have left, and none imports it twice", async ({ directory, store, start }) => {
  const lines = await createStore(store, PLANTS);
  const startAndStop = async () => {
    await using program = await start();
    assertSucceeded(await program.stop());
  };
  {
    await using program = await start();
    Deno.removeSync(store);
    const ended = await program.stop();
    assertSucceeded(ended);
    assert.match(ended.stderr, RESCUED);
  }
  const logBytes = () =>
    directory.names().includes("plants.db-wal")
      ? Deno.statSync(`${store}-wal`).size
      : 0;
  for (const how of ["SIGTERM", "lost", "SIGKILL"] as const) {
    await using importing = Program.spawn(["--port", "0", "--kv", store]);
    await eventually((bytes) => bytes > 400_000, logBytes, { everyMs: 5 });
    if (how === "lost") {
      Deno.removeSync(store);
      const { status, stderr } = await importing.ended();
      assert.equal(status, 1, stderr);
      assert.match(stderr, RESCUED);
    } else {
      // It has not listened.
      assert.equal((await importing.stop(how)).stderr, "");
    }
    assert.match(directory.names().join(), /\.rescued-\S+\.jsonl/);
  }
  await startAndStop();
  assert.deepEqual(await exportLines(store), lines);
  assertImported(directory, 2);
  assertSucceeded(await runProgram(["remove", "1", "--kv", store]));
  await startAndStop();
  assert.deepEqual(await exportLines(store), lines.slice(1));
});

const onSmallDisk = testsWith(() => new SmallDisk(24), canMount());

onSmallDisk.test("on a full disk, a stop waits until the plants can be rescued, and a start without room for them fails and keeps their file", async (disk) => {
  const store = disk.file("plants.db");
  const ledger = new Ledger();
  {
    await using program = await Program.start(["--kv", store]);
    const plant = { name: "Monstera ".repeat(1_000) };
    await ledger.store(program, range(1n, 300).map((id) => ({ id, plant })));
    const ballast = disk.fill("ballast");
    Deno.removeSync(store);
    await program.printed(/error: cannot rescue the plants .*(full|space)/);
    program.process.kill("SIGTERM");
    await program.printed(/draining/);
    Deno.removeSync(ballast);
    const ended = await program.ended();
    assertSucceeded(ended);
    assert.match(ended.stderr, RESCUED);
  }
  const ballast = disk.fill("ballast");
  Deno.truncateSync(ballast, Deno.statSync(ballast).size - 1_000_000);
  const start = ["--port", "0", "--kv", store];
  assertOneLine(await runProgram(start), 1, /disk is full/);
  assert.match(disk.names().join(), /\.rescued-\S+\.jsonl/);
  Deno.removeSync(ballast);
  await using program = await Program.start(["--kv", store]);
  await ledger.assertFile(store);
  assertSucceeded(await program.stop());
  assertImported(disk, 1);
});
