/** The ways back of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { destroyPages } from "../support/damage.ts";
import {
  BACK_UP,
  block,
  type Machine,
  NEW_DISK,
  onMachine,
  RESTORE,
  SWAP,
} from "../support/machine.ts";
import { withSeed } from "../support/random.ts";

const IN_STORE = "cd /var/lib/plant-store/current";

const COPY = block("`deleted or moved`");

/** Holds SQLite's lock on the database, as another program. */
const LOCK =
  `perl -MFcntl -e '$lock = pack "ssx4qqix4", F_WRLCK, 0, 1 << 30, 512, 0;
    open F, "+<", shift; fcntl F, F_SETLK, $lock or die; sleep 600' plants.db >&- 2>&- &`;

/** Does something that the journal then reports. */
async function reports(
  machine: Machine,
  accident: string,
  message: RegExp,
): Promise<void> {
  const { length } = machine.journal;
  // systemd refuses a sixth start within ten seconds.
  await machine.run(`systemctl reset-failed; ${IN_STORE}; ${accident}`);
  await machine.printed(message, length);
}

onMachine.test("a damaged store is restored with all that its backup or the store itself still has", (machine) =>
  withSeed(async (random) => {
    await machine.acknowledges(500);
    const { events, acknowledged } = machine.ledger;
    await machine.succeed(BACK_UP);
    await machine.acknowledges(500);
    await machine.succeed(
      `systemctl stop plant-store; ${IN_STORE}; cp plants.db /media`,
    );
    const [lost = ""] = destroyPages(
      machine.media.file("plants.db"),
      1,
      random,
    );
    const restored = await machine.succeed(
      `${IN_STORE}; cat /media/plants.db > plants.db`,
      RESTORE,
    );
    assert.match(restored, / cannot be read: the database is corrupt/);
    const creates = [...acknowledged.values()];
    const exported = await machine.succeed("plants export");
    const missing = creates.filter(({ id }) => !exported.includes(`:${id},`));
    for (const { id, plant, answeredAt } of missing) {
      assert.ok(answeredAt > events, `${id} is not in the backup`);
      assert.ok(lost.includes(plant.name), `${id} was not in the lost page`);
    }
    machine.ledger.forgetSince(events);
  }));

onMachine.test("a lost store is put back, or copied from the open files, before a restart", async (machine) => {
  await reports(
    machine,
    "mv plants.db moved",
    /was deleted or moved: this process still has it open: do not restart it/,
  );
  await machine.succeed(
    IN_STORE,
    "mv moved plants.db; systemctl restart plant-store",
  );
  for (
    const [accident, message] of [
      ["rm plants.db", /was deleted or moved/],
      ["rm *", /was deleted or moved/],
      ["rm plants.db-wal", /plants\.db-wal was deleted or replaced/],
      [
        "plants import - --kv $PWD/other.db < /dev/null; mv other.db plants.db",
        /was replaced/,
      ],
      ["rm -r /var/lib/plant-store", /was deleted or moved/],
    ] as const
  ) {
    await machine.acknowledges(100);
    await reports(machine, accident, message);
    await machine.succeed(COPY, COPY, "systemctl stop plant-store", SWAP);
    // Pasted once more, it finds the store of this service.
    await machine.succeed(COPY);
    await machine.assertHasAll();
  }
});

onMachine.test("a store that a start refuses is restored from its backup", async (machine) => {
  for (
    const [accident, message] of [
      ["mv plants.db plants.db-wal", /belongs to another database/],
      ["echo plants > plants.db", /not a database|not a Deno KV store/],
      [
        "head -c 100000 /dev/urandom | dd of=plants.db bs=4096 seek=1 conv=notrunc",
        /the database is corrupt/,
      ],
    ] as const
  ) {
    await machine.succeed(`systemctl stop plant-store; ${BACK_UP}`);
    await reports(machine, `${accident}; systemctl start plant-store`, message);
    await machine.succeed(RESTORE);
    await machine.assertHasAll();
  }
});

onMachine.test("a new store in place of one that is gone is named, and an older backup is added to it", async (machine) => {
  await machine.succeed(`systemctl stop plant-store; ${BACK_UP}`);
  await reports(
    machine,
    "rm *; systemctl start plant-store",
    /^Created a new store /m,
  );
  await machine.acknowledges(100);
  const older = RESTORE.replace("tail -n 1", "head -n 1");
  await machine.succeed(`sleep 1; ${BACK_UP}`, older);
});

onMachine.test("the plants of a failing disk are exported, and restored on a new one that belongs to root", async (machine) => {
  await machine.succeed(BACK_UP);
  await machine.acknowledges(100);
  // As the clients of a corrupt store, they get no acknowledgement afterwards.
  await machine.succeed(
    "systemctl stop plant-store; plants export > plants.jsonl",
    "mkdir /disk; mount --bind /disk /var/lib/plant-store",
    RESTORE,
    "plants import - < /root/plants.jsonl",
  );
});

onMachine.test("the service recovers from a full disk, and a start waits for room, and for a lock", async (machine) => {
  const full = "! dd if=/dev/zero of=full";
  const start = "systemctl start plant-store";
  await machine.succeed(
    "mkdir /disk; mount -t tmpfs -o size=8m none /disk",
    NEW_DISK,
    block("Settings"),
  );
  await reports(machine, full, /the store fails: .*disk is full/);
  await reports(machine, "rm full", /the store has recovered/);
  await machine.assertHasAll();

  await machine.run("systemctl stop plant-store");
  await reports(
    machine,
    `${full}; rm -f plants.db-shm; ${start}`,
    /the disk is full/,
  );
  await reports(machine, "rm full", / listens on /);
  await machine.assertHasAll();

  await machine.run("systemctl stop plant-store");
  await reports(machine, `${LOCK} ${start}`, /another process has locked it/);
  const users = await machine.succeed(
    "fuser -v /var/lib/plant-store/current/*",
  );
  assert.match(users, /root .* perl$/m);
  await reports(machine, "pkill perl", / listens on /);
});
