/** The ways back of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { INDEX_LEAF, overwrite, PAGE_BYTES } from "../support/damage.ts";
import {
  BACK_UP,
  block,
  type Machine,
  MOVE,
  onMachine,
  RESTORE,
  SWAP,
} from "../support/machine.ts";
import { type Random, withSeed } from "../support/random.ts";

const IN_STORE = "cd /var/lib/plant-store/current";

/** Forgets the earlier starts: systemd refuses a sixth one within ten seconds. */
const FORGET_STARTS = "systemctl reset-failed plant-store";

const RESTART = `${FORGET_STARTS}; systemctl restart plant-store`;

const COPY = block("`deleted or moved`");

/** Holds SQLite's lock on the database, as another program. */
const LOCK =
  `perl -MFcntl -e '$lock = pack "ssx4qqix4", F_WRLCK, 0, 1 << 30, 512, 0;
    open F, "+<", shift; fcntl F, F_SETLK, $lock or die; sleep 600' plants.db >&- 2>&- &`;

/** Does something in the directory of the store, which the journal then reports. */
async function reports(
  machine: Machine,
  accident: string,
  message: RegExp,
): Promise<void> {
  const { length } = machine.journal;
  await machine.run(IN_STORE, accident);
  await machine.reports(message, length);
}

/** Overwrites a random page with plants; returns what was on it. */
function destroyPage(path: string, random: Random): string {
  const bytes = Deno.readFileSync(path);
  const latin1 = new TextDecoder("latin1");
  const pages = Array.from({ length: bytes.length / PAGE_BYTES }, (_, i) => {
    const offset = i * PAGE_BYTES;
    const content = bytes.subarray(offset, offset + PAGE_BYTES);
    return { offset, type: content[0], text: latin1.decode(content) };
  }).filter(({ type, text }) => type === INDEX_LEAF && text.includes("Ficus"));
  const { offset, text } = random.pick(pages);
  overwrite(path, offset, PAGE_BYTES);
  return text;
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
    const lost = destroyPage(machine.media.file("plants.db"), random);
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
  const lost =
    /the store fails: .*: do not restart the service before the files are put/;
  await reports(machine, "mv plants.db moved", lost);
  await machine.succeed(IN_STORE, "mv moved plants.db", RESTART);
  for (
    const accident of [
      "rm plants.db",
      "rm *",
      "rm plants.db-wal",
      "plants import - --kv $PWD/other.db < /dev/null; mv other.db plants.db",
      "rm -r /var/lib/plant-store",
    ]
  ) {
    await machine.acknowledges(100);
    await reports(machine, accident, lost);
    await machine.succeed(COPY, COPY, "ls /var/lib/plant-store/old-*/*-wal");
    await machine.succeed(FORGET_STARTS, "systemctl stop plant-store", SWAP);
    // Pasted once more, it finds the store of this service.
    await machine.succeed(COPY);
    await machine.assertHasAll();
  }
});

onMachine.test("a store that a start refuses, or that is gone, is restored from its backup", async (machine) => {
  for (
    const accident of [
      "mv plants.db plants.db-wal",
      "echo plants > plants.db",
      "head -c 100K /dev/urandom | dd of=plants.db bs=4K seek=1 conv=notrunc",
      "rm plants.db",
    ]
  ) {
    await machine.succeed(`systemctl stop plant-store; ${BACK_UP}`);
    const { status } = await machine.run(IN_STORE, accident, RESTART);
    assert.equal(status === 0, accident === "rm plants.db");
    await machine.succeed(RESTORE);
    await machine.assertHasAll();
  }
});

onMachine.test("the plants of a failing disk are exported, and restored on a new one that belongs to root", async (machine) => {
  await machine.succeed(BACK_UP);
  await machine.acknowledges(100);
  await machine.succeed(
    "systemctl stop plant-store; plants export > plants.jsonl",
    "mkdir /disk; mount --bind /disk /var/lib/plant-store",
    block("Restore"),
    "plants import - --kv /var/lib/plant-store/new/plants.db < /root/plants.jsonl",
    SWAP,
  );
});

onMachine.test("the service recovers from a full disk, and a start waits for room, and for a lock", async (machine) => {
  const fill = "! dd if=/dev/zero of=full";
  const disk = "mkdir /disk; mount -t tmpfs -o size=8m none /disk";
  await machine.succeed(disk, MOVE);
  await reports(machine, fill, /the store fails: .*disk is full/);
  await reports(machine, "rm full", /the store has recovered/);
  const stop = "systemctl stop plant-store";
  await reports(
    machine,
    `${stop}; ${fill}; rm -f plants.db-shm; ${RESTART}`,
    /the disk is full/,
  );
  await reports(machine, "rm full", / listens on /);
  await machine.assertHasAll();

  await reports(machine, `${stop}; ${LOCK} ${RESTART}`, /has locked it/);
  const users = "fuser -v /var/lib/plant-store/current/*";
  assert.match(await machine.succeed(users), /root .* perl$/m);
  await reports(machine, "pkill perl", / listens on /);
});
