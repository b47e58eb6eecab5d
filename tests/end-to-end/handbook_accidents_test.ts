/** The ways back of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { INDEX_LEAF, overwrite, PAGE_BYTES } from "../support/damage.ts";
import {
  BACK_UP,
  block,
  type Machine,
  onMachine,
  RESTORE,
} from "../support/machine.ts";
import { type Random, withSeed } from "../support/random.ts";

const IN_STORE = "cd /var/lib/plant-store/current";

/** Forgets the earlier starts: systemd refuses a sixth one within ten seconds. */
const FORGET_STARTS = "systemctl reset-failed plant-store";

const RESTART = `${FORGET_STARTS}; systemctl restart plant-store`;

const HEALTHY = block("Accidents", 1, "accidents/");

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
    await machine.succeed(`${IN_STORE}; cat /media/plants.db > plants.db`);
    const { stdout } = await machine.run(block("`corrupt`", 0, "accidents/"));
    assert.doesNotMatch(stdout, /complete/);
    const restored = await machine.succeed(RESTORE);
    assert.match(restored, / cannot be read: the database is corrupt/);
    assert.match(restored, /the service has the new store/);
    const creates = [...acknowledged.values()];
    const exported = await machine.succeed("plants export");
    const missing = creates.filter(({ id }) => !exported.includes(`:${id},`));
    for (const { id, plant, answeredAt } of missing) {
      assert.ok(answeredAt > events, `${id} is not in the backup`);
      assert.ok(lost.includes(plant.name), `${id} was not in the lost page`);
    }
    machine.ledger.forgetSince(events);
  }));

onMachine.test("a restore names what was corrected and removed since the backup, and can be repeated", async (machine) => {
  const plant = (id: bigint, name: string) => {
    machine.ledger.sends({ id, plant: { name } });
    return `echo '{"id":${id},"name":"${name}"}' | plants import -`;
  };
  await machine.succeed(
    `echo '{"id":3,"name":"Fern"}' | plants import -`,
    `echo '{"id":4,"name":"Fern"}' | plants import -`,
    BACK_UP,
    "plants remove 4; plants remove 3",
    plant(3n, "Ficus"),
    // A clock was wrong, and a newer backup is cut: only its checksum is missing.
    "cd /var/lib/plant-store-backups; good=$(ls); sleep 1",
    "cp $good plants-2999-01-01-053000.jsonl.gz",
    "cut=plants-$(date +%F-%H%M%S).jsonl.gz; head -c -4 $good > $cut; sleep 1",
  );
  // Killed while it builds the new store, or while the service is started.
  for (const meanwhile of ["kill -KILL $!", "systemctl start plant-store"]) {
    const { stderr } = await machine.run(
      "rm -rf /var/lib/plant-store/current.new; plants-restore &",
      "until [ -e /var/lib/plant-store/current.new ]; do sleep 0.05; done",
      meanwhile,
      "wait $!",
    );
    if (meanwhile.startsWith("systemctl")) {
      assert.match(stderr, /was started meanwhile, /);
      assert.match(stderr, /still in .*; run the same command again$/m);
    }
    await machine.succeed("systemctl start plant-store; sleep 1");
    await machine.assertHasAll();
  }
  const restored = await machine.succeed(RESTORE, "plants remove 4");
  assert.match(restored, /unexpected end of file/);
  assert.match(
    restored,
    /^line \d+: the plant with id 3 differs [^]*^not added: /m,
  );
  assert.match(restored, / plants remove 4\n.* plants remove 3\n/);
  assert.match(restored, /the service has the new store/);
  const [old = ""] = /^.*rm -r (.*)$/m.exec(restored)?.slice(1) ?? [];
  assert.equal(
    await machine.succeed("plants export 3"),
    '{"id":3,"name":"Ficus"}\n',
  );
  await machine.succeed(`rm -r ${old}`);
  const traces = await machine.succeed("journalctl -t plants-restore -o cat");
  assert.match(traces, / has a new store of /);
});

onMachine.test("an earlier state is restored without what came later", async (machine) => {
  const { events } = machine.ledger;
  await machine.succeed(BACK_UP);
  await machine.succeed(`echo '{"id":5,"name":"Fern"}' | plants import -`);
  await machine.acknowledges(100);
  const listed = await machine.succeed(
    block("An earlier state", 0, "accidents/"),
  );
  const [file = ""] = /^plants-.*$/m.exec(listed) ?? [];
  const restore = block("An earlier state", 1, "accidents/");
  // As it is printed, it does not stop the service.
  const printed = await machine.run(restore);
  assert.match(printed.stderr, /FILE.*: No such file/);
  await machine.succeed("systemctl is-active plant-store");
  await machine.succeed(restore.replace("/FILE", `/${file}`));
  assert.equal((await machine.run("plants export 5")).status, 1);
  machine.ledger.forgetSince(events);
});

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
      "plants import --kv-create yes - --kv $PWD/other.db < /dev/null; mv other.db plants.db",
      "rm -r /var/lib/plant-store",
    ]
  ) {
    await machine.acknowledges(100);
    await reports(machine, accident, lost);
    const copied = await machine.succeed(FORGET_STARTS, RESTORE);
    assert.match(copied, /^the service has the whole store again$/m);
    await machine.succeed(HEALTHY);
    await machine.assertHasAll();
  }
});

onMachine.test("a restore stops no service that has the only copy, and goes on after a power cut in its last step", async (machine) => {
  await machine.succeed(BACK_UP);
  await machine.acknowledges(100);
  const lost = /the store fails: /;
  await reports(machine, "mv plants.db plants.db.bak", lost);
  const renamed = await machine.run(RESTORE, "ls -l /proc/*/fd | grep db.bak");
  assert.match(renamed.stderr, /put .*plants\.db back, which was renamed: /);
  assert.match(renamed.stdout, /current\/plants\.db\.bak$/m);
  await machine.succeed(IN_STORE, "mv plants.db.bak plants.db", RESTART);
  // There is no room for a copy.
  const { length } = machine.journal;
  await machine.succeed("rm -r /var/lib/plant-store/current");
  await machine.reports(lost, length);
  const full = await machine.run(
    "mkdir /var/lib/plant-store/current",
    "mount -t tmpfs -o size=8k none /var/lib/plant-store/current",
    RESTORE,
  );
  assert.match(full.stderr, /is a mount point/);
  const noRoom = await machine.run(
    "cd /var/lib/plant-store; umount current; rmdir current",
    "install() { :; }; mount -t tmpfs -o size=8k,mode=777 none /media",
    "mkdir /media/current; ln -s /media/current current",
    RESTORE,
  );
  assert.match(noRoom.stderr, /No space left[^]*do NOT stop the service, /);
  await machine.succeed("systemctl is-active plant-store");
  // A restore of a file also keeps the open files.
  const { events } = machine.ledger;
  const file = await machine.succeed(
    "umount /media; rm /var/lib/plant-store/current",
    `file=$(ls /var/lib/plant-store-backups/*); plants-restore $file`,
  );
  assert.match(file, /^copied an open file to [^]*^the service has the new/m);
  const [old = ""] = /^.*rm -r (.*)$/m.exec(file)?.slice(1) ?? [];
  await machine.succeed(
    `cd ${old}; plants export --kv $PWD/plants.db | plants import -`,
  );
  await machine.assertHasAll();
  assert.ok(machine.ledger.events >= events);
  await machine.succeed(
    "systemctl stop plant-store; cd /var/lib/plant-store",
    "mv current current.old; mkdir current.new",
    RESTORE,
  );
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
    await machine.succeed("systemctl stop plant-store", BACK_UP);
    const { status } = await machine.run(IN_STORE, accident, RESTART);
    assert.equal(status, 1);
    const { stderr } = await machine.run(RESTORE);
    const [, leaveOut] = /to leave it out: (.*)$/m.exec(stderr) ?? [];
    if (leaveOut !== undefined) await machine.succeed(leaveOut);
    await machine.assertHasAll();
  }
});

onMachine.test("the plants of a failing disk are exported, and restored on a new one that belongs to root", async (machine) => {
  await machine.succeed(BACK_UP);
  await machine.acknowledges(100);
  await machine.run(block("`corrupt`", 1, "accidents/"));
  await machine.succeed(
    block("`corrupt`", 2, "accidents/"),
    "mkdir /disk; mount --bind /disk /var/lib/plant-store",
    block("`corrupt`", 3, "accidents/"),
  );
});

onMachine.test("a value that is not a plant stops the backups until it is removed", async (machine) => {
  await machine.succeed(
    "systemctl stop plant-store",
    "cp /var/lib/plant-store/current/plants.db /media; chmod 666 /media/plants.db",
  );
  using kv = await Deno.openKv(machine.media.file("plants.db"));
  await kv.set(["plants", 6n], new Uint8Array([1]));
  kv.close();
  await machine.succeed(
    "cat /media/plants.db > /var/lib/plant-store/current/plants.db",
    RESTART,
    "! systemctl start plant-store-backup",
  );
  const problems = block("Accidents", 0, "accidents/");
  assert.match(
    await machine.succeed(problems),
    /id 6: not a plant of this service/,
  );
  const remove = block("`not a plant", 0, "accidents/");
  const saved = await machine.succeed(remove.replace("ID", "6"));
  assert.match(saved, /^saved$/m);
});

onMachine.test("a store whose owner was changed, and a port that is taken, are reported and repaired", async (machine) => {
  await machine.succeed(BACK_UP);
  await reports(
    machine,
    `chown -R root: /var/lib/plant-store/current; ${RESTART}`,
    /Permission denied/,
  );
  // A backup alone would lose plants, so a restore stops.
  const unreadable = await machine.run(RESTORE);
  assert.match(unreadable.stderr, /: nothing can be read from /);
  const repair = block("`cannot be written`", 0, "accidents/");
  assert.match(await machine.succeed(FORGET_STARTS, repair), /^ready$/m);
  await reports(
    machine,
    "sed -i s/PORT=8000/PORT=9090/ /etc/plant-store.env; systemctl start prometheus; sleep 2; " +
      RESTART,
    /cannot listen on 127.0.0.1 port 9090: /,
  );
  const look = await machine.succeed(
    block("`cannot listen`", 0, "accidents/"),
  );
  assert.match(look, /^PORT=9090\n[^]*:9090 .*"prometheus"/m);
  await machine.succeed(
    "sed -i s/PORT=9090/PORT=8000/ /etc/plant-store.env",
    RESTART,
  );
});

onMachine.test("the service recovers from a full disk, and a start waits for room, and for a lock", async (machine) => {
  const fill = "! dd if=/dev/zero of=full";
  await machine.succeed(
    "systemctl stop plant-store; cd /var/lib; cp -a plant-store /root/store",
    "mount -t tmpfs -o size=8m none plant-store; cp -aT /root/store plant-store",
    "systemctl start plant-store",
  );
  await reports(machine, fill, /the store fails: .*disk is full/);
  const usage = block("`disk is full`", 0, "accidents/");
  assert.match(await machine.succeed(usage), /100% [^]*current$/m);
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
  const users = block("`locked`", 0, "accidents/");
  assert.match(await machine.succeed(users), /root .* perl$/m);
  await reports(machine, "pkill perl", / listens on /);
});
