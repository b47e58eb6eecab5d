/**
 * The way back after each accident, literally: the commands of the messages and
 * of the README are run as they are printed, until the service has every
 * acknowledged plant.
 */
import assert from "node:assert/strict";
import {
  inParallel,
  newPlants,
  PLANT,
  range,
  settleAll,
  toBody,
} from "../support/load.ts";
import { makeLastNewer } from "../support/damage.ts";
import { Machine } from "../support/machine.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { traced, withStrace } from "../support/strace.ts";
import { withBash } from "../support/tools.ts";
import { assertSameLines } from "../support/transfer.ts";

const FAILS = /<3>the store fails: /;
const NOT_SAVED = /<3>cannot save the plants in /;
const SAVED = /<3>saved all plants /;
const SAVED_SOME =
  /<3>saved the plants before the damage .*: stop the service, restore a /;
const LOST = "### Deleted or replaced store";

/** The plant in a store that replaces another one. */
const OTHER = { id: 7_000_000n, plant: { name: "Other" } };

/** Before the script of an accident. */
const REAL = 'real=$(realpath "$store")\n';

/** An accident: the commands that cause it while the service runs. */
interface Accident {
  readonly name: string;
  /** A script, with the path of the database in `$real`. */
  readonly script: string;
  /**
   * A script that undoes it, empty if the messages suffice, of an accident after
   * which all plants are on disk, even if the service does not save them.
   */
  readonly undo?: string;
  /** Whether the path of the store is a link from the beginning. */
  readonly isLink?: boolean;
  /** Whether a store with another plant is in place of the lost one. */
  readonly isReplaced?: boolean;
}

const ACCIDENTS: readonly Accident[] = [
  { name: "a deleted database", script: 'rm "$real"' },
  {
    name: "a database that is deleted with its log and index",
    script: 'rm "$real" "$real"-wal "$real"-shm',
  },
  {
    name: "a moved database",
    script: 'mv "$real" "$real".away',
    undo: 'mv "$real".away "$real"',
  },
  {
    name: "a database that is moved behind a link",
    script: 'data=$(mktemp -d "$PWD"/data.XXX); ' +
      'mv "$real" "$data"/plants.db && ln -sf "$data"/plants.db "$store"',
    undo: "",
  },
  {
    name: "a link that is turned to another file",
    script: 'ln -sf $RANDOM.db "$store"',
    undo: 'ln -sf real.db "$store"',
    isLink: true,
  },
  {
    name: "a database that another store replaces",
    script: `echo '{"id":${OTHER.id},"name":"${OTHER.plant.name}"}' | ` +
      'plant-store import - --kv other.db && mv other.db "$real"',
    isReplaced: true,
  },
  {
    name: "a database that a backup replaces",
    script: 'plants backup copy.db && mv copy.db "$real"',
  },
  { name: "a deleted log", script: 'rm "$real"-wal' },
  { name: "a deleted index of the log", script: 'rm "$real"-shm', undo: "" },
];

/** Lets an accident happen under load, and waits until the plants are saved. */
async function loseStore(
  machine: Machine,
  { script, isReplaced }: Accident,
): Promise<void> {
  const { service, ledger } = machine;
  if (isReplaced) {
    await ledger.record(OTHER, () => Promise.resolve({ status: 200 }));
  }
  let isOver = false;
  const first = BigInt(ledger.events);
  const load = inParallel(range(1_000n + first, 5_000), async (id) => {
    if (!isOver) await ledger.send(service, { id, plant: PLANT });
  }, 4);
  await machine.succeed(REAL + script);
  await service.printed(FAILS);
  isOver = true;
  await load;
  await service.printed(SAVED);
}

/** By the messages after a stop, and for the next accident by the README. */
async function walkAfterStop(accident: Accident): Promise<void> {
  await using machine = await Machine.start(accident);
  await loseStore(machine, accident);
  await machine.stop();
  await machine.start();
  await machine.ledger.assertFile(machine.store);
  await loseStore(machine, accident);
  await machine.follow(LOST);
  await machine.assertHasAll();
}

/**
 * By the messages after a kill of a service that has saved the plants, and after
 * the accident is undone if it can be.
 */
async function walkAfterKill(accident: Accident): Promise<void> {
  await using machine = await Machine.start({ isLink: true });
  await loseStore(machine, accident);
  await machine.stop("SIGKILL");
  await machine.succeed(`real="\${store%/*}"/real.db\n${accident.undo ?? ""}`);
  await machine.start();
  await machine.assertHasAll();
}

/** By the messages after a kill of a service that has not saved the plants. */
async function walkUnsaved(accident: Accident): Promise<void> {
  if (accident.undo === undefined) return;
  await using machine = await Machine.start(accident);
  machine.service.process.kill("SIGSTOP");
  await machine.succeed(REAL + accident.script);
  await machine.stop("SIGKILL");
  await machine.succeed(`real="$store"\n${accident.undo}`);
  await machine.start();
  await machine.assertHasAll();
}

for (const accident of ACCIDENTS) {
  withBash.test(`${accident.name} loses no plant, by the messages and by the README, after a stop and a kill`, async () => {
    await settleAll([
      walkAfterStop(accident),
      walkAfterKill(accident),
      walkUnsaved(accident),
    ]);
  });
}

for (const files of ['"$store"', '"$store" "$store"-wal "$store"-shm']) {
  withBash.test(`a start after \`rm ${files}\`, and before another instance saves the plants, loses none of either`, async () => {
    await using machine = await Machine.start();
    const { service: first, ledger } = machine;
    first.process.kill("SIGSTOP");
    await machine.succeed(`rm ${files}`);
    const refusal = await machine.tryToStart();
    if (refusal !== undefined) {
      // Perhaps not at once: the other one still uses the index of the log.
      await machine.obey(refusal);
      await machine.tryToStart();
    }
    const [, second = first] = machine.services;
    if (second !== first) {
      await ledger.store(second, newPlants(range(101n, 100)));
    }
    first.process.kill("SIGCONT");
    await first.printed(SAVED);
    await machine.stop();
    await machine.start();
    await machine.assertHasAll();
  });
}

for (const way of ["messages", "README"]) {
  withBash.test(`two instances that save their plants lose none, by the ${way}`, async () => {
    await using machine = await Machine.start();
    assert.equal(await machine.tryToStart(), undefined);
    await machine.succeed('rm "$store"');
    for (const service of machine.services) await service.printed(SAVED);
    if (way === "README") await machine.follow(LOST);
    else {
      await machine.stop();
      await machine.start();
    }
    await machine.assertHasAll();
  });
}

/** By the README, which makes the directory again. */
async function walkWithoutDirectory(): Promise<void> {
  await using machine = await Machine.start();
  await machine.succeed('rm -r "${store%/*}"');
  await machine.service.printed(NOT_SAVED);
  await machine.follow(LOST);
  await machine.assertHasAll();
}

/** By the messages, also of a start while the plants cannot be saved. */
async function walkOnFullDisk(disk: SmallDisk): Promise<void> {
  await using machine = await Machine.start({ disk });
  disk.fill("ballast");
  await machine.succeed('rm "$store"');
  await machine.service.printed(NOT_SAVED);
  const refusal = await machine.tryToStart();
  assert.match(
    refusal ?? "",
    / are being saved, or were by a service that was killed, in /,
  );
  const stopped = machine.stop();
  await machine.succeed("rm ballast");
  await stopped;
  await machine.start();
  await machine.assertHasAll();
}

withBash.test("a service that cannot save its plants, without a directory or room, loses none, by the README and by the messages", async () => {
  // Each waits 10 s for the next attempt.
  await settleAll([
    walkWithoutDirectory(),
    ...(canMount() ? [walkOnFullDisk(new SmallDisk(4))] : []),
  ]);
});

withStrace.test("a service that is killed while it saves its plants leaves a file that the start names, and its command imports", async ({ directory }) => {
  // When the file is written, and before it has its name.
  const renames = "?rename,renameat,renameat2";
  const options = traced(
    directory.file("trace"),
    `trace=${renames}`,
    `inject=${renames}:signal=SIGKILL`,
  );
  await using machine = await Machine.start({ options });
  await machine.succeed('rm "$store"');
  assert.equal((await machine.service.ended()).signal, "SIGKILL");
  await machine.stop("SIGKILL");
  const refusal = await machine.tryToStart();
  assert.match(
    refusal ?? "",
    /: stop the service, .* import \S+\.partial --kv /,
  );
  await machine.start();
  await machine.assertHasAll();
});

/** The name of a backup in the README. */
const BACKUP = "plant-store-backups/plants-2026-11-21-033000.db";

/** Damage to a database of 47 pages, in the order of the ids but for the first. */
const DAMAGES: readonly [name: string, script: string, isReadable: boolean][] =
  [
    ["the first page is overwritten", overwrite(0, 1), false],
    ["the empty tables of Deno are overwritten", overwrite(4, 4), false],
    ["8 pages in the middle are overwritten", overwrite(20, 8), true],
    ["all but two pages are cut off", 'truncate -s 8192 "$store"', false],
  ];

/** Returns a script that overwrites pages with random bytes. */
function overwrite(page: number, count: number): string {
  return 'dd if=/dev/urandom of="$store" conv=notrunc status=none bs=4096 ' +
    `seek=${page} count=${count}`;
}

/** Returns the plants of a store as lines, those before the damage if it has any. */
async function exported(machine: Machine, store: string): Promise<string[]> {
  const { stdout } = await machine.bash(`plant-store export --kv ${store}`);
  return stdout.split("\n").slice(0, -1);
}

/**
 * By the README, after a message about the damage: of a start, or if the service
 * runs, of the nightly backup.
 * @param signal how the service ends before the damage, if it does
 */
async function walkDamage(
  script: string,
  isReadable: boolean,
  signal: "SIGTERM" | "SIGKILL" | undefined,
): Promise<void> {
  await using machine = new Machine();
  const { ledger } = machine;
  const plants = newPlants(range(-100n, 2_000));
  await machine.start();
  await ledger.store(machine.service, plants.slice(100));
  // This writes the log to the database.
  await machine.stop();
  await machine.start();
  const { stderr, status } = await machine.backUp();
  assert.equal(status, 0, stderr);
  await machine.succeed(`mv plant-store-backups/plants-* ${BACKUP}`);
  await ledger.store(machine.service, plants.slice(0, 100));

  if (signal !== undefined) await machine.stop(signal);
  await machine.succeed(script);
  // The service notices only this, and saves what it can.
  const isNoticed = signal === undefined && script.startsWith("truncate");
  if (isNoticed) {
    await machine.service.printed(SAVED_SOME);
  } else {
    const refusal = signal && await machine.tryToStart();
    const message = refusal ?? (await machine.backUp()).stderr;
    assert.match(message, /^<3>cannot .*restore a backup/);
  }
  await machine.follow("### Restore", { isSetAside: isNoticed });
  await machine.stop();

  const stored = await exported(machine, '"$store"');
  const kept = new Set([
    ...plants.slice(100).map(toBody),
    ...await exported(machine, '"$store".replaced-*Z'),
    // A service may still have other plants in memory.
    ...(isNoticed ? stored : []),
  ]);
  assertSameLines(stored, plants.map(toBody).filter((line) => kept.has(line)));
  if (isReadable) assert.equal(stored.length, plants.length);
}

withBash.test("a database of which half is cut off, and whose plants can be read, loses none without a backup, by the messages of two instances", async () => {
  await using machine = await Machine.start();
  assert.equal(await machine.tryToStart(), undefined);
  // So many that SQLite writes its log to the database.
  await machine.ledger.store(machine.service, newPlants(range(101n, 5_000)));
  await machine.succeed('truncate -s $(($(stat -c %s "$store") / 2)) "$store"');
  for (const service of machine.services) await service.printed(SAVED_SOME);
  await machine.stop();
  await machine.start();
  await machine.assertHasAll();
});

for (const damaged of ["damaged pages", "a damaged value"]) {
  withBash.test(`saved plants beside a store with ${damaged}, that only their import finds, are imported alone by its message`, async () => {
    await using machine = await Machine.start();
    await machine.ledger.store(machine.service, newPlants(range(101n, 5_000)));
    await machine.succeed('rm "$store"-wal');
    await machine.service.printed(SAVED);
    await machine.stop("SIGKILL");
    if (damaged === "damaged pages") await machine.succeed(overwrite(20, 8));
    else makeLastNewer(machine.store);
    await machine.start();
    await machine.assertHasAll();
  });
}

for (const [damage, script, isReadable] of DAMAGES) {
  withBash.test(`a database of which ${damage} loses no plant of the last backup, and none that can be read, if the README is followed`, async () => {
    await settleAll([
      walkDamage(script, isReadable, undefined),
      walkDamage(script, isReadable, "SIGTERM"),
      walkDamage(script, isReadable, "SIGKILL"),
    ]);
  });
}
