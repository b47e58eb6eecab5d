/**
 * The way back after each accident, literally: the commands of the messages and
 * of the README are run as they are printed, until the service has every
 * acknowledged plant.
 */
import assert from "node:assert/strict";
import {
  eventually,
  inParallel,
  Ledger,
  newPlants,
  PLANT,
  range,
  toBody,
} from "../support/load.ts";
import { assertSameLines } from "../support/transfer.ts";
import { Machine } from "../support/machine.ts";
import type { ProgramOptions } from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { traced, withStrace } from "../support/strace.ts";

const FAILS = /<3>the store fails: /;
const NOT_SAVED = /<3>cannot save the plants in /;
const SAVED = /<3>saved all plants /;
const LOST = "### Deleted or replaced store";

/** The plant in a store that replaces another one. */
const OTHER = { id: 7_000_000n, plant: { name: "Other" } };

/** An accident: what somebody types while the service runs. */
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

/** Starts the service, and creates plants. */
async function begin(
  machine: Machine,
  ledger: Ledger,
  { isLink = false, options }: { isLink?: boolean; options?: ProgramOptions } =
    {},
): Promise<void> {
  if (isLink) Deno.symlinkSync("real.db", machine.store);
  assert.equal(await machine.tryToStart(options), undefined);
  await ledger.store(machine.service, newPlants(range(1n, 100)));
}

/** Lets an accident happen under load, and waits until the plants are saved. */
async function loseStore(
  machine: Machine,
  ledger: Ledger,
  { script, isReplaced = false }: Accident,
): Promise<void> {
  const { service } = machine;
  let isOver = false;
  if (isReplaced) {
    await ledger.record(OTHER, () => Promise.resolve({ status: 200 }));
  }
  const first = BigInt(ledger.events);
  const load = inParallel(range(1_000n + first, 5_000), async (id) => {
    if (!isOver) await ledger.send(service, { id, plant: PLANT });
  }, 4);
  await machine.succeed(`real=$(realpath "$store")\n${script}`);
  await service.printed(FAILS);
  isOver = true;
  await load;
  await service.printed(SAVED);
}

/** By the messages after a stop, and then by the README. */
async function walkAfterStop(accident: Accident): Promise<void> {
  await using machine = new Machine();
  const ledger = new Ledger();
  await begin(machine, ledger, accident);
  await loseStore(machine, ledger, accident);
  await machine.stop();
  await machine.start();
  await ledger.assertFile(machine.store);
  await loseStore(machine, ledger, accident);
  await machine.follow(LOST);
  await machine.assertHasAll(ledger);
}

/** By the messages after a kill of a service that has saved the plants. */
async function walkAfterKill(accident: Accident): Promise<void> {
  await using machine = new Machine();
  const ledger = new Ledger();
  await begin(machine, ledger, { isLink: true });
  await loseStore(machine, ledger, accident);
  await machine.stop("SIGKILL");
  await machine.start();
  await machine.assertHasAll(ledger);
}

/** By the messages after a kill of a service that has not saved the plants. */
async function walkUnsaved(
  accident: Accident,
): Promise<void> {
  await using machine = new Machine();
  const ledger = new Ledger();
  await begin(machine, ledger, accident);
  machine.service.process.kill("SIGSTOP");
  await machine.succeed(`real=$(realpath "$store")\n${accident.script}`);
  await machine.stop("SIGKILL");
  await machine.succeed(`real="$store"\n${accident.undo}`);
  await machine.start();
  await machine.assertHasAll(ledger);
}

for (const accident of ACCIDENTS) {
  Deno.test(`${accident.name} loses no plant if every message or the README is followed, after a stop or a kill`, async () => {
    await Promise.all([
      walkAfterStop(accident),
      walkAfterKill(accident),
      ...(accident.undo === undefined ? [] : [walkUnsaved(accident)]),
    ]);
  });
}

for (const files of ['"$store"', '"$store" "$store"-wal "$store"-shm']) {
  Deno.test(`a start after \`rm ${files}\`, and before another instance saves the plants, loses none of either`, async () => {
    await using machine = new Machine();
    const ledger = new Ledger();
    await begin(machine, ledger);
    const { service: first } = machine;
    first.process.kill("SIGSTOP");
    await machine.succeed(`rm ${files}`);
    const refusal = await machine.tryToStart();
    if (refusal !== undefined) {
      // Perhaps not at once: the other one still uses the index of the log.
      await machine.obey(refusal);
      await machine.tryToStart();
    }
    const [, second] = machine.services;
    if (second !== undefined) {
      await ledger.store(second, newPlants(range(101n, 100)));
    }
    first.process.kill("SIGCONT");
    await first.printed(SAVED);
    await machine.stop();
    await machine.start();
    await machine.assertHasAll(ledger);
  });
}

Deno.test("two instances that save their plants lose none if every message or the README is followed", async () => {
  await Promise.all([true, false].map(async (isByReadme) => {
    await using machine = new Machine();
    const ledger = new Ledger();
    await begin(machine, ledger);
    assert.equal(await machine.tryToStart(), undefined);
    await machine.succeed('rm "$store"');
    for (const service of machine.services) await service.printed(SAVED);
    if (isByReadme) await machine.follow(LOST);
    else {
      await machine.stop();
      await machine.start();
    }
    await machine.assertHasAll(ledger);
  }));
});

/** By the README, which makes the directory again. */
async function walkWithoutDirectory(): Promise<void> {
  await using machine = new Machine();
  const ledger = new Ledger();
  await begin(machine, ledger);
  await machine.succeed('rm -r "${store%/*}"');
  await machine.service.printed(NOT_SAVED);
  await machine.follow(LOST);
  await machine.assertHasAll(ledger);
}

/** By the messages, also of a start while the plants cannot be saved. */
async function walkOnFullDisk(): Promise<void> {
  const disk = new SmallDisk(4);
  await using machine = new Machine(disk);
  const ledger = new Ledger();
  await begin(machine, ledger);
  disk.fill("ballast");
  await machine.succeed('rm "$store"');
  await machine.service.printed(NOT_SAVED);
  const refusal = await machine.tryToStart();
  assert.match(refusal ?? "", /: wait until the service that saves them has /);
  const stopped = machine.stop();
  await machine.succeed("rm ballast");
  await stopped;
  await machine.start();
  await machine.assertHasAll(ledger);
}

Deno.test("a service that cannot save its plants, without a directory or room, loses none when the message or the README is followed", async () => {
  // Each waits 10 s for the next attempt.
  await Promise.all([
    walkWithoutDirectory(),
    ...(canMount() ? [walkOnFullDisk()] : []),
  ]);
});

withStrace.test("a service that is killed while it saves its plants leaves a file that the start names, and its command imports", async ({ directory }) => {
  await using machine = new Machine();
  const ledger = new Ledger();
  // When the file is written, and before it has its name.
  const links = "?link,linkat";
  const options = traced(
    directory.file("trace"),
    `trace=${links}`,
    `inject=${links}:signal=SIGKILL`,
  );
  await begin(machine, ledger, { options });
  await machine.succeed('rm "$store"');
  const { signal } = await machine.service.ended();
  assert.equal(signal, "SIGKILL");
  await machine.stop("SIGKILL");
  const refusal = await machine.tryToStart();
  assert.match(refusal ?? "", /; if it was killed: .* import \S+\.partial\//);
  await machine.start();
  await machine.assertHasAll(ledger);
});

/** The name of a backup in the README. */
const BACKUP = "plant-store-backups/plants-2026-11-21-033000.db";

/** Damage to a database of 47 pages, in the order of the ids but for the first. */
const DAMAGES: readonly [name: string, script: string, isReadable: boolean][] =
  [
    ["the first page is overwritten", overwrite(0, 1), false],
    ["the pages 2 to 9 are overwritten", overwrite(1, 8), false],
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
  const ledger = new Ledger();
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
  const refusal = signal && await machine.tryToStart();
  const message = refusal ?? (await machine.backUp()).stderr;
  assert.match(message, /^<3>cannot .*restore a backup/);
  await machine.follow("### Restore");
  await machine.stop();

  const stored = await exported(machine, '"$store"');
  const kept = new Set([
    ...plants.slice(100).map(toBody),
    ...await exported(machine, '"$store".replaced-*Z'),
  ]);
  assertSameLines(stored, plants.map(toBody).filter((line) => kept.has(line)));
  if (isReadable) assert.equal(stored.length, plants.length);
}

for (const [damage, script, isReadable] of DAMAGES) {
  Deno.test(`a database of which ${damage} loses no plant of the last backup, and none that can be read, if the README is followed`, async () => {
    await Promise.all([
      walkDamage(script, isReadable, undefined),
      walkDamage(script, isReadable, "SIGTERM"),
      walkDamage(script, isReadable, "SIGKILL"),
    ]);
  });
}
