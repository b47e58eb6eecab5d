/** The ways back of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { destroyPages } from "../support/damage.ts";
import { newPlants, range } from "../support/plants.ts";
import { block, Machine, onMachine } from "../support/machine.ts";
import { withSeed } from "../support/random.ts";
import { drawId } from "../support/transfer.ts";

const STORE = "/var/lib/plant-store/plants.db";

const RESTORE = block("Restore");

/** Lets the service end without closing its store, and starts no other one. */
const KILL =
  "systemctl kill -s KILL plant-store; systemctl stop plant-store; cd /var/lib/plant-store";

/** Holds SQLite's lock on the database, as another program. */
const LOCK =
  `perl -MFcntl -e '$lock = pack "ssx4qqix4", F_WRLCK, 0, 1 << 30, 512, 0;
    open F, "+<", shift; fcntl F, F_SETLK, $lock or die; sleep 600' ${STORE} >&- 2>&- &`;

/** Waits for a message in the journal of a machine that has it once more. */
async function fails(machine: Machine, message: RegExp): Promise<void> {
  const { length } = machine.journal;
  assert.notEqual((await machine.run("plants start")).status, 0);
  await machine.printed(message, length);
}

onMachine.test("a damaged store with random ids is restored with what only it has, also the second time and after an interruption", () =>
  withSeed(async (random) => {
    await using machine = await Machine.start();
    const { ledger, service } = machine;
    const ids = () => Array.from({ length: 1_500 }, () => drawId(random));
    await ledger.store(service, newPlants(ids()));
    await machine.succeed(block("Back up"));
    const { events } = ledger;
    await ledger.store(service, newPlants(ids()));
    await machine.load();
    await machine.succeed("plants stop");

    await machine.succeed(`cp ${STORE} /mnt/damaged`);
    destroyPages(machine.file("damaged"), 2, random);
    await machine.succeed(`cat /mnt/damaged > ${STORE}`);
    const restored = await machine.underLoad(() => machine.succeed(RESTORE));
    assert.match(restored, /cannot be read\n/);
    ledger.forgetSince(events);
    const count = Number(await machine.succeed("plants export | wc -l"));
    assert.ok(count > 2_500, restored);
    await machine.assertHasAll();

    // What was removed since is in the old store, which is not imported again.
    await machine.succeed(block("Back up"), "plants remove 1 2 3");
    await machine.succeed(block("Back up"));
    await machine.underLoad(() => machine.succeed(RESTORE));
    assert.equal((await machine.run("plants export 1 2 3")).stdout, "");
    for (const id of [1n, 2n, 3n]) await ledger.store(service, newPlants([id]));
    await machine.assertHasAll();

    // A connection that is lost in the middle, and a start.
    const [interrupted = ""] = RESTORE.split("    plants restore");
    const { length } = machine.journal;
    await machine.succeed(
      `${interrupted}\n! systemctl start plant-store-backup; ! plants start`,
    );
    await machine.printed(
      /^a restore was interrupted: paste Restore /m,
      length,
    );
    // Ctrl-C during the import, and a store that fails.
    for (const end of ["kill -INT $$", "exit 1"]) {
      const shell = () => `sh -c '${end}'`;
      const stopped = RESTORE.replace("plants import -", shell);
      await machine.succeed(stopped, "! systemctl is-active plant-store");
    }
    await machine.underLoad(() => machine.succeed(RESTORE));
    await machine.assertHasAll();
  }));

onMachine.test("a lost store whose directory is gone is rescued as soon as that is there, and healed by a restart", async () => {
  await using machine = await Machine.start();
  await machine.underLoad(async () => {
    await machine.succeed("rm -r /var/lib/plant-store");
    await machine.printed(/^cannot rescue the plants beside /m);
    await machine.succeed(block("`rescuing its plants`"));
    await machine.printed(/^rescued all plants .*: restart the service$/m);
    await machine.succeed("plants restart");
  });
  await machine.assertHasAll();
});

onMachine.test("what a process that cannot rescue its plants still has is restored", async () => {
  await using machine = await Machine.start();
  await machine.underLoad(async () => {
    await machine.succeed(block("Back up"));
    await machine.succeed(
      "mkdir /under; mount --bind /var/lib /under; mount --make-private /under",
      "mount -t tmpfs -o ro none /var/lib/plant-store",
      "rm /under/plant-store/plants.db*",
    );
    await machine.printed(/^cannot rescue the plants beside /m);
    await machine.succeed(block("`rescuing its plants`", 1));
    await machine.succeed(
      "systemctl stop --no-block plant-store; systemctl kill -s KILL plant-store",
      "umount /var/lib/plant-store",
      RESTORE,
    );
  });
  await machine.assertHasAll();
});

onMachine.test("the plants of a failing disk are exported, and restored on a new one that belongs to root", async () => {
  await using machine = await Machine.start();
  await machine.succeed(block("Back up"));
  await machine.load();
  await machine.succeed(
    "plants export > plants.jsonl; plants stop",
    "mount -t tmpfs -o mode=755 none /var/lib/plant-store",
    RESTORE,
    "plants import - < plants.jsonl",
  );
  await machine.assertHasAll();
});

onMachine.test("an empty store in place of one on a disk that was not mounted loses no plant", async () => {
  await using machine = await Machine.start(
    "mkdir /disk /var/lib/plant-store; mount --bind /disk /var/lib/plant-store",
  );
  const { length } = machine.journal;
  await machine.succeed(
    "plants stop; umount /var/lib/plant-store; plants start",
  );
  await machine.printed(/^created a new store in /m, length);
  await machine.ledger.store(machine.service, newPlants(range(200n, 100)));
  const mount = block("`created a new store`");
  await machine.underLoad(() =>
    machine.succeed(
      "echo '/nowhere /var/lib/plant-store none bind 0 0' >> /etc/fstab",
      `{ ${mount}\n} && exit 1`,
      "sed -i s,^/nowhere,/disk, /etc/fstab",
      mount,
    )
  );
  // The disk is mounted: nothing to do.
  assert.equal((await machine.run(mount)).status, 1);
  await machine.assertHasAll();
});

for (
  const [what, accident, message] of [
    [
      "is gone, but for its log",
      `${KILL}; rm plants.db`,
      /belongs to another database, or to one that is gone/,
    ],
    [
      "is replaced by another file",
      "plants stop; echo plants > /var/lib/plant-store/plants.db",
      /not a database|not a Deno KV store/,
    ],
    [
      "is overwritten",
      "plants stop; head -c 100000 /dev/urandom | dd of=/var/lib/plant-store/plants.db bs=4096 seek=1 conv=notrunc",
      /the database is corrupt, or its disk fails/,
    ],
  ] as const
) {
  onMachine.test(`a store that ${what} is refused by a start, and restored`, async () => {
    await using machine = await Machine.start();
    await machine.succeed(block("Back up"));
    await machine.succeed(accident);
    await fails(machine, message);
    const restored = await machine.underLoad(() => machine.succeed(RESTORE));
    assert.match(
      restored,
      /^plants since the backup may be missing or changed: see above$/m,
    );
    await machine.assertHasAll();
  });
}

onMachine.test("a store is restored from an earlier backup if the last one is damaged, and without any", async () => {
  await using machine = await Machine.start();
  const backUp = block("Back up");
  await machine.succeed(backUp, "sleep 1", backUp, "plants stop");
  await machine.succeed(
    "head -c 100000 /dev/urandom | dd of=$(ls /var/lib/plant-store-backups/plants-2*.db | tail -n 1) bs=4096 seek=1",
  );
  const damaged = await machine.run(RESTORE);
  assert.match(damaged.stderr, /cannot restore /);
  await machine.succeed("! systemctl is-active plant-store");
  await machine.succeed(
    "mv $(ls /var/lib/plant-store-backups/plants-2*.db | tail -n 1) /root",
    RESTORE,
  );
  await machine.assertHasAll();
  const withoutBackup = RESTORE.replace(/plants restore "\$\(.*\)"/, "true");
  await machine.succeed("rm /var/lib/plant-store-backups/*", withoutBackup);
  await machine.assertHasAll();
});

onMachine.test("a start waits for the end of a lock, and for room on the disk", async () => {
  await using machine = await Machine.start(
    "mkdir /var/lib/plant-store; mount -t tmpfs -o size=8m none /var/lib/plant-store",
  );
  await machine.succeed("plants stop", LOCK);
  await fails(machine, /another process has locked it/);
  const processes = "fuser -v $(plants store)";
  assert.match(await machine.succeed(processes), /root .* perl$/m);
  const locked = machine.journal.length;
  await machine.succeed("pkill perl");
  await machine.printed(/listens on/, locked);
  await machine.assertHasAll();
  await machine.succeed(KILL, "rm -f plants.db-shm; ! dd if=/dev/zero of=full");
  await fails(machine, /the disk is full/);
  const full = machine.journal.length;
  await machine.succeed("rm /var/lib/plant-store/full");
  await machine.printed(/listens on/, full);
  await machine.assertHasAll();
});

onMachine.test("plants of a lost store whose ids are taken, and a part of them, are named by a start and can be imported", async () => {
  await using machine = await Machine.start();
  await machine.succeed(
    `echo '{"id":50,"name":"Other"}' | plants import - --kv /var/lib/plant-store/other.db`,
    "mv /var/lib/plant-store/other.db /var/lib/plant-store/plants.db",
  );
  await machine.printed(/^rescued all plants /m);
  await machine.succeed(
    "part=/var/lib/plant-store/plants.db.rescued-1.jsonl.1a2b3c4d.partial",
    'runuser -u plant-store -- mkdir $part; echo \'{"id":500,"name":"Ficus"}\' > $part/lines',
    "plants restart",
  );
  const [, file] = await machine.printed(
    /^\d+ plants? in (\S+) not imported: the ids are taken by different plants/m,
  );
  const named = await machine.run(`plants import - < ${file}`);
  assert.match(named.stderr, /^line 50: id: 50 is already taken/m);
  await machine.succeed("plants remove 50", `plants import - < ${file}`);
  const [, directory] = await machine.printed(
    /^(\S+) is incomplete: it is being written, or the service was killed/m,
  );
  const added = await machine.succeed(`cat ${directory}/* | plants import -`);
  assert.match(added, /^1 created, /);
  const lines = await machine.succeed("plants export | wc -l");
  assert.equal(lines, "101\n");
});
