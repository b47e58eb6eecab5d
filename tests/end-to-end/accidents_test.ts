/**
 * The way back after each accident, literally: the blocks of the handbook and the
 * commands of the messages are run as they are printed, until the service has
 * every acknowledged plant.
 */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import {
  eventually,
  inParallel,
  newPlants,
  PLANT,
  range,
  settleAll,
} from "../support/load.ts";
import { Machine, onMachine, SERVER_TOOLS } from "../support/machine.ts";
import { needs } from "../support/needs.ts";
import type { ProgramOptions } from "../support/program.ts";
import { blockOf } from "../support/readme.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { exportLines } from "../support/transfer.ts";

const withStrace = needs(...SERVER_TOOLS, "strace");

/** Returns a block of the section "Lost store". */
const lost = (index: number) => blockOf("## Lost store", index);

const SAVED = /<3>saved all plants /;

/** A plant in a store that replaces another one. */
const OTHER = { id: 7_000_000n, plant: { name: "Other" } };

/** What happens to a store while the service runs. */
interface Accident {
  /** A script, in the directory of the store. */
  readonly script: string;
  /** Undoes it. */
  readonly undo?: string;
  /** Whether the path of the store is a link to `real.db`. */
  readonly isLink?: boolean;
}

const ACCIDENTS: Readonly<Record<string, Accident>> = {
  "is deleted": { script: "rm plants.db" },
  "is deleted with its log and index": {
    script: "rm plants.db plants.db-wal plants.db-shm",
  },
  "is moved": {
    script: "mv plants.db away.db",
    undo: "mv away.db plants.db",
  },
  "is moved behind a link": {
    script: "mkdir data; mv plants.db data; ln -s data/plants.db .",
  },
  "is moved, seconds before its link leads to it": {
    isLink: true,
    script:
      'mkdir data; mv real.db data/plants.db; sleep 2; ln -sf "$PWD/data/plants.db" plants.db',
  },
  "has a link that is turned to another file": {
    isLink: true,
    script: "ln -sf other.db plants.db",
    undo: "ln -sf real.db plants.db",
  },
  "is replaced by another one": {
    script: `echo '{"id":${OTHER.id},"name":"${OTHER.plant.name}"}' |
      plant-store import - --kv other.db; mv other.db plants.db`,
  },
  "is replaced by a backup": {
    script: "plants backup copy.db; mv copy.db plants.db",
  },
  "loses its log": { script: "rm plants.db-wal" },
  "loses its index": { script: "rm plants.db-shm" },
};

/** Runs a script in the directory of the store. */
function runThere(machine: Machine, script: string): Promise<unknown> {
  return machine.succeed('cd "${store%/*}"', script);
}

/** Lets an accident happen under load, and waits until the plants are saved. */
async function lose(machine: Machine, script: string): Promise<void> {
  const { service, ledger } = machine;
  if (script.includes(OTHER.plant.name)) {
    await ledger.record(OTHER, () => Promise.resolve({ status: 200 }));
  }
  let isOver = false;
  const load = inParallel(range(1_000n, 5_000), async (id) => {
    if (!isOver) await ledger.send(service, { id, plant: PLANT });
  }, 4);
  await runThere(machine, script);
  await service.printed(/<3>the store fails: /);
  isOver = true;
  await load;
  await service.printed(SAVED);
}

/** Steps 3 and 4 of "Lost store": runs the command at the end of a message. */
async function importSaved(machine: Machine, message: string): Promise<void> {
  const { status } = await machine.obey(message);
  if (status === 0) return;
  await machine.succeed(lost(3));
  assert.equal((await machine.obey(message)).status, 0);
}

/** Starts the service; a start that is refused names what was saved. */
async function startAfterRefusals(machine: Machine): Promise<void> {
  for (let starts = 0; starts < 3; starts++) {
    const refusal = await machine.refusal();
    if (refusal === undefined) return;
    await importSaved(machine, refusal);
  }
  assert.fail(machine.journal);
}

/** The section "Lost store", from the save on. */
async function followLost(machine: Machine, before = ""): Promise<void> {
  const { stdout } = await machine.succeed(before, lost(2), lost(0));
  const messages = stdout.match(/^saved all plants .*\n/gm) ?? [];
  assert.ok(messages.length > 0, stdout);
  for (const message of messages) await importSaved(machine, message);
  await machine.succeed(before, lost(4));
  await machine.assertHasAll();
}

async function walkAfterStop(
  accident: Accident,
  undo = "",
): Promise<void> {
  await using machine = await Machine.start(accident);
  await lose(machine, accident.script);
  await runThere(machine, undo);
  await followLost(machine);
}

async function walkAfterKill(accident: Accident, undo = ""): Promise<void> {
  await using machine = await Machine.start(accident);
  await lose(machine, accident.script);
  await machine.kill();
  await runThere(machine, undo);
  await startAfterRefusals(machine);
  await machine.assertHasAll();
}

for (const [name, accident] of Object.entries(ACCIDENTS)) {
  onMachine.test(`a store that ${name} loses no plant, after a stop and after a kill of the service`, async () => {
    const { undo } = accident;
    await settleAll([
      walkAfterStop(accident),
      walkAfterKill(accident),
      ...(undo === undefined
        ? []
        : [walkAfterStop(accident, undo), walkAfterKill(accident, undo)]),
    ]);
  });
}

/** Freezes and kills a service, so that it notices nothing, and saves nothing. */
async function loseUnnoticed(
  machine: Machine,
  script: string,
): Promise<void> {
  machine.service.process.kill("SIGSTOP");
  await runThere(machine, script);
  await machine.kill();
}

/** Accidents of a service that is killed before it notices them. */
const UNNOTICED: readonly [
  name: string,
  script: string,
  /** Of the next start; if it is not refused, nothing is lost. */
  refusal: RegExp | undefined,
  wayBack: string,
][] = [
  [
    "was moved",
    "mv plants.db away.db",
    /: plants\.db is missing or empty, but its log is here/,
    'mv "${store%/*}"/away.db "$store"; systemctl start $service',
  ],
  [
    "was moved behind a link",
    "mkdir data; mv plants.db data; ln -s data/plants.db .",
    /: it is a link, but the log of its database is beside the link/,
    blockOf("### A database behind a link"),
  ],
  ["lost its index", "rm plants.db-shm", undefined, ""],
];

for (const [name, script, refusal, wayBack] of UNNOTICED) {
  onMachine.test(`a store that ${name} while the service was killed loses no plant`, async () => {
    await using machine = await Machine.start();
    await loseUnnoticed(machine, script);
    const message = await machine.refusal();
    if (refusal === undefined) assert.equal(message, undefined);
    else assert.match(message ?? "", refusal);
    await machine.succeed(wayBack);
    await machine.assertHasAll();
  });
}

/** Accidents after which a start creates a new store, and the old one again. */
const EMPTY_STORES: readonly [
  name: string,
  accident: Accident,
  wayBack: string,
][] = [
  [
    "that was deleted",
    { script: "rm -r *" },
    'plants restore "$(last $backups/plants-2*.db)"',
  ],
  [
    "whose disk was not mounted",
    { script: "cd ..; mv plant-store disk; mkdir plant-store" },
    'cd "${store%/*}"/..; mv plant-store hidden; mv disk plant-store',
  ],
  [
    "whose link leads to another disk",
    { script: "ln -sf other.db plants.db", isLink: true },
    'ln -sf real.db "$store"',
  ],
];

for (const [name, accident, wayBack] of EMPTY_STORES) {
  onMachine.test(`an empty store in place of one ${name} loses no plant, also of those created meanwhile`, async () => {
    await using machine = await Machine.start(accident);
    await machine.succeed("systemctl start plant-store-backup");
    await loseUnnoticed(machine, accident.script);
    await machine.succeed("systemctl start $service");
    const warnings = /<4>created a new, empty store /g;
    assert.equal(machine.journal.match(warnings)?.length, 2);
    await machine.ledger.store(machine.service, newPlants(range(201n, 100)));
    await machine.succeed(blockOf("### An empty store", 0));
    await machine.succeed(wayBack);
    await machine.succeed(blockOf("### An empty store", 1));
    await machine.assertHasAll();
  });
}

onMachine.test("saved plants that conflict with another store refuse the start until their file is renamed", async () => {
  await using machine = new Machine();
  await machine.succeed(`echo '{"id":1,"name":"New"}' | plants import -`);
  await runThere(
    machine,
    `echo '{"id":1,"name":"Old"}' > plants.db.rescued-x.jsonl`,
  );
  const message = `${await machine.refusal()}`;
  const { status, stderr } = await machine.obey(message);
  assert.equal(status, 1);
  assert.match(stderr, /, 1 conflicting, /);
  assert.equal(await machine.refusal(), message);
  const [rename = ""] = /mv \S+ \S+\n$/.exec(message) ?? [];
  await machine.succeed(rename, lost(4));
  const lines = await exportLines(machine.store);
  assert.deepEqual(lines, ['{"id":1,"name":"New"}']);
});

onMachine.test("two instances that save their plants lose none, by the handbook and by refused starts", async () => {
  const service = "service='plant-store@8001 plant-store@8002'";
  const walk = async (follow: (machine: Machine) => Promise<void>) => {
    await using machine = new Machine();
    await machine.succeed(service, "systemctl start $service");
    const { services, ledger } = machine;
    for (const [i, instance] of services.entries()) {
      await ledger.store(instance, newPlants(range(BigInt(1_000 * i), 100)));
    }
    await runThere(machine, "rm plants.db");
    for (const instance of services) await instance.printed(SAVED);
    await follow(machine);
  };
  await settleAll([
    walk((machine) => followLost(machine, service)),
    walk(async (machine) => {
      await machine.kill();
      await startAfterRefusals(machine);
      await machine.assertHasAll();
    }),
  ]);
});

/** Returns how to start a service that gets a signal when its main thread calls. */
function signalled(signal: Deno.Signal, calls: string): ProgramOptions {
  const expression = `inject=${calls}:signal=${signal}:when=1`;
  return {
    shell: `exec strace -D -qq -o /dev/null -e ${expression} "$0" "$@"`,
  };
}

withStrace.test("a start while another instance saves its plants is refused, and succeeds after the save and its command", async () => {
  // When the directory of the new file is there.
  const first = signalled("SIGSTOP", "?mkdir,mkdirat");
  await using machine = await Machine.start({ first });
  const { service } = machine;
  await runThere(machine, "rm plants.db plants.db-wal plants.db-shm");
  await eventually(
    (names) => names.length > 0,
    () => [...Deno.readDirSync(dirname(machine.store))],
  );
  const refusal = await machine.refusal("plant-store@8001");
  assert.match(
    `${refusal}`,
    /: its plants are being saved in \S+\.partial: .*: mv \S+\.partial \S+\n$/,
  );
  service.process.kill("SIGCONT");
  await service.printed(SAVED);
  await followLost(machine);
});

for (const file of ["plants.db", "plants.db-wal"]) {
  withStrace.test(`a service that is killed while it saves its plants, since its ${file} was deleted, loses none that the backup or the incomplete file has`, async () => {
    // When the file is complete, and before it has its name.
    const first = signalled("SIGKILL", "?link,linkat");
    await using machine = await Machine.start({ first });
    const { service, ledger } = machine;
    await machine.succeed("systemctl start plant-store-backup");
    // The last line, with the greatest id, is that of a plant in the backup.
    await ledger.store(service, newPlants(range(-100n, 100)));
    await runThere(machine, `rm ${file}`);
    assert.equal((await service.ended()).signal, "SIGKILL");
    await machine.kill();
    await runThere(machine, "truncate -s -5 plants.db.rescued-*/*");
    const message = `${await machine.refusal()}`;
    assert.match(message, /: its plants are being saved in \S+\.partial: /);
    // The section "A save that was killed".
    if (file === "plants.db") await restoreBackup(machine);
    let { stderr } = await machine.obey(message);
    if (stderr.includes("its log is missing")) {
      await restoreBackup(machine);
      ({ stderr } = await machine.obey(message));
    }
    assert.match(stderr, /^line 200: [^]*, 1 refused\n$/);
    const [rename = ""] = /mv \S+\.partial .*/.exec(message) ?? [];
    await machine.succeed(rename, blockOf("## Restore", 3));
    await machine.assertHasAll();
  });
}

/** Steps 1 and 2 of "Restore". */
async function restoreBackup(machine: Machine): Promise<void> {
  const [stop, restore] = [blockOf("## Restore", 0), blockOf("## Restore", 1)];
  await machine.succeed(stop);
  const { stderr, status } = await machine.run(restore);
  if (status === 0) return;
  assert.equal((await machine.obey(stderr)).status, 0);
  await machine.succeed(restore);
}

/** By the handbook, which makes the directory again. */
async function walkWithoutDirectory(): Promise<void> {
  await using machine = await Machine.start();
  await machine.succeed('rm -r "${store%/*}"');
  await machine.service.printed(/<3>cannot save the plants: no directory /);
  await machine.succeed(lost(1));
  await machine.service.printed(SAVED);
  await followLost(machine);
}

/** By a stop, which waits for the save. */
async function walkOnFullDisk(disk: SmallDisk): Promise<void> {
  await using machine = await Machine.start({ disk });
  const { service } = machine;
  const ballast = disk.fill("ballast");
  await runThere(machine, "rm plants.db");
  await service.printed(/<3>cannot save the plants: the disk is full: /);
  await Promise.all([
    followLost(machine),
    service.printed(/<6>saving the plants of the lost store\n/)
      .finally(() => Deno.removeSync(ballast)),
  ]);
}

onMachine.test("a service that cannot save its plants, without a directory or room, saves them when it can", async () => {
  // Each waits 10 s for the next attempt.
  await settleAll([
    walkWithoutDirectory(),
    ...(canMount() ? [walkOnFullDisk(new SmallDisk(4))] : []),
  ]);
});

/** Damage to a database of 47 pages, in the order of the ids but for the first. */
const DAMAGES = {
  "has its first page overwritten": overwrite(0, 1),
  "has the empty tables of Deno overwritten": overwrite(4, 4),
  "has pages in the middle overwritten": overwrite(20, 8),
  "is cut": 'truncate -s 8192 "$store"',
  "lost its log": 'rm "$store"-wal',
  "lost its database": 'rm "$store"',
  "was replaced by its backup":
    'cp "$(last $backups/plants-2*.db)" "$store".new; mv "$store".new "$store"',
} as const;

/** Returns a script that overwrites pages with random bytes. */
function overwrite(page: number, count: number): string {
  return 'dd if=/dev/urandom of="$store" conv=notrunc status=none bs=4096 ' +
    `seek=${page} count=${count}`;
}

/** What a start or a backup says; a database without its header is none. */
const REFUSED =
  /<3>cannot .*: (the database is corrupt|not a Deno KV store|its log is missing|.* belongs to another database|.*, but its log is here)/;

/** A create of a plant in the middle. */
const CREATE =
  `curl -s http://127.0.0.1:8000/plants -d '{"id":950,"name":""}' \\
  -H "Authorization: Bearer $(cat /etc/plant-store.token)" \\
  -H 'Content-Type: application/json'`;

/** What finds damage: commands before it and after it, and the message. */
const FINDERS = {
  "a start after a stop": [
    "systemctl stop $service",
    "systemctl start $service",
    REFUSED,
  ],
  "a start after a kill": [
    "systemctl kill -s KILL $service",
    "systemctl start $service",
    REFUSED,
  ],
  "the nightly backup": ["", "systemctl start plant-store-backup", REFUSED],
  "a create": ["", CREATE, /<3>the store fails: .*: the database is corrupt/],
  "the service": ["", "", /<3>the store fails: .*: it became shorter: /],
  "a save": [
    "",
    'rm "$store"',
    /<3>cannot save the plants: .*: restore a backup\n/,
  ],
} as const;

/** Walks, and whether no plant is lost, also of those after the backup. */
const WALKS: readonly [
  damage: keyof typeof DAMAGES,
  finder: keyof typeof FINDERS,
  isLossless?: true,
][] = [
  ["has its first page overwritten", "a start after a stop"],
  ["has the empty tables of Deno overwritten", "a start after a stop"],
  ["has pages in the middle overwritten", "the nightly backup", true],
  ["has pages in the middle overwritten", "a create", true],
  ["has pages in the middle overwritten", "a save"],
  ["is cut", "the service"],
  ["lost its log", "a start after a kill"],
  ["lost its database", "a start after a kill"],
  ["was replaced by its backup", "a start after a kill"],
];

for (const [damage, finder, isLossless] of WALKS) {
  const what = isLossless ? "no plant" : "none of the backup";
  onMachine.test(`a store that ${damage}, which ${finder} finds, loses ${what}`, async () => {
    await using machine = new Machine();
    const { ledger } = machine;
    await machine.succeed("systemctl start $service");
    await ledger.store(machine.service, newPlants(range(1n, 1_900)));
    // This writes the log to the database.
    await machine.succeed("systemctl restart $service");
    await machine.succeed("systemctl start plant-store-backup");
    const { events } = ledger;
    const isRising = finder !== "the nightly backup";
    const first = isRising ? 1_901n : -100n;
    await ledger.store(machine.service, newPlants(range(first, 100)));
    const [before, after, message] = FINDERS[finder];
    await machine.run(before, DAMAGES[damage], after);
    await eventually((it) => message.test(it), () => machine.journal);
    if (!isLossless) ledger.forgetSince(events);
    await restoreBackup(machine);
    const add = blockOf("## Restore", 2);
    await machine.succeed(
      isRising ? add : add.replace(' --after "$id"', ""),
      blockOf("## Restore", 3),
    );
    await machine.assertHasAll();
  });
}
