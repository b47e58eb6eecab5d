/** The ways back of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { destroyPage, type Leaf, leavesOf } from "../support/accidents.ts";
import { ACCIDENTS, HANDBOOK, olderStores } from "../support/handbook.ts";
import { interrupted, Machine, MAIN_PID, mount } from "../support/machine.ts";
import { isMissing } from "../support/needs.ts";
import { occurrences } from "../support/program.ts";
import { withSeed } from "../support/random.ts";

const IN_STORE = "cd /var/lib/plant-store/current";

const RESTART = "systemctl restart plant-store";

/** Holds SQLite's lock on the database, as another program. */
const LOCK =
  `perl -MFcntl -e '$lock = pack "ssx4qqix4", F_WRLCK, 0, 1 << 30, 512, 0;
    open F, "+<", shift; fcntl F, F_SETLK, $lock or die; sleep 600' plants.db >&- 2>&- &`;

/** Does something in the directory of the store, which the journal then reports. */
async function causeReport(
  machine: Machine,
  accident: string,
  message: RegExp,
): Promise<void> {
  const { length } = machine.journal;
  await machine.run(IN_STORE, accident);
  await machine.reports(message, length);
}

/** Stops the service, and overwrites a page of its store; returns what was on it. */
async function damage(
  machine: Machine,
  choose: (leaves: readonly Leaf[]) => Leaf | undefined,
): Promise<string> {
  await machine.succeed(
    `systemctl stop plant-store; ${IN_STORE}; cp plants.db /media`,
  );
  const path = machine.media.file("plants.db");
  const { page, text } = choose(leavesOf(path)) ?? assert.fail();
  destroyPage(path, page);
  await machine.succeed(`${IN_STORE}; cat /media/plants.db > plants.db`);
  return text;
}

Deno.test({
  name:
    "a damaged store is restored with all that its backup or the store itself still has",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await withSeed(async (random) => {
      await machine.ledger.acknowledges(500);
      const { now: backup, acknowledged } = machine.ledger;
      await machine.succeed(HANDBOOK.BACK_UP);
      await machine.ledger.acknowledges(500);
      const lost = await damage(
        machine,
        (leaves) =>
          random.pick(leaves.filter(({ text }) => text.includes("Ficus"))),
      );
      const { stdout } = await machine.run(ACCIDENTS.RESTART_AND_READ);
      assert.doesNotMatch(stdout, /complete/);
      const restored = await machine.succeed(ACCIDENTS.RESTORE);
      assert.match(restored, / cannot be read: the database is corrupt/);
      assert.match(restored, /the service has the new store/);
      const creates = [...acknowledged.values()];
      const exported = await machine.succeed("plants export");
      const missing = creates.filter(({ id }) => !exported.includes(`:${id},`));
      for (const { id, plant, answeredAt } of missing) {
        assert.ok(answeredAt > backup, `${id} is not in the backup`);
        assert.ok(lost.includes(plant.name), `${id} was not in the lost page`);
      }
      machine.ledger.forgetSince(backup);
    });
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a store that can be read whole is restored from itself alone, and a restore that is interrupted changes nothing",
  ignore: isMissing("MACHINE"),
  async fn(t) {
    await using machine = await Machine.deploy();
    machine.ledger.mayStore({ id: 3n, plant: { name: "Ficus" } });
    await machine.succeed(
      `echo '{"id":3,"name":"Fern"}' | plants import -`,
      `echo '{"id":4,"name":"Fern"}' | plants import -`,
      HANDBOOK.BACK_UP,
      "plants remove 4; plants remove 3",
      `echo '{"id":3,"name":"Ficus"}' | plants import -`,
    );
    const isReading = "[ -e /var/lib/plant-store/current.new ]";
    await t.step("a restore that is interrupted changes nothing", async () => {
      for (
        const [commands, why] of [
          [
            interrupted("plants-restore", isReading),
            /nothing has changed, except /,
          ],
          [
            `plants-restore & until ${isReading}; do sleep 0.02; done
          kill -STOP $!; plants remove 3; kill -CONT $!; wait $!`,
            /^plants: a restore, a move or a start of the service runs: wait for it$/m,
          ],
          [
            `plants-restore & until ${isReading}; do sleep 0.02; done
          kill -STOP $!; systemctl start plant-store; kill -CONT $!; wait $!`,
            /was started meanwhile, /,
          ],
        ] as const
      ) {
        const { stderr } = await machine.run(commands);
        assert.match(stderr, why);
        await machine.succeed("systemctl start plant-store");
        await machine.assertHasAll();
      }
      const killed = await machine.run(
        `plants-restore & until ${isReading}; do sleep 0.02; done
      kill -KILL $!; wait $!; systemctl stop 'plants-*'
      # What it has run still has the lock for a moment.
      flock /run/plants.lock true`,
      );
      assert.doesNotMatch(killed.stdout, /the service has the new store/);
      await machine.succeed("systemctl start plant-store");
      await machine.assertHasAll();
    });
    await t.step(
      "a restore by reflex, once and again, leaves the backup out",
      async () => {
        const count = "ls -d /var/lib/plant-store/current.old-* | wc -l";
        for (
          const restore of [
            ACCIDENTS.RESTORE,
            // Ctrl-C comes too late: the old store is no longer in its place.
            `before=$(${count})
            ${interrupted("plants-restore", `[ $(${count}) != $before ]`)}`,
          ]
        ) {
          const restored = await machine.succeed(restore);
          assert.match(
            restored,
            /^reading the old store, .*current\/plants\.db, /m,
          );
          assert.doesNotMatch(restored, /backups|came back/);
          assert.match(restored, /^the service has the new store$/m);
          assert.equal((await machine.run("plants export 4")).status, 1);
          await machine.assertHasAll();
        }
      },
    );
    await t.step("a restore needs no backup", async () => {
      const restored = await machine.succeed(
        "rm /var/lib/plant-store-backups/*",
        ACCIDENTS.RESTORE,
      );
      const left = await machine.succeed(
        `rm -r ${olderStores(restored)}`,
        "find /var/lib/plant-store -name '*.db*' -o -name '*.new'",
      );
      assert.match(left, /^(.*\/current\/plants\.db(-wal|-shm)?\n)+$/);
      await machine.assertHasAll();
    });
  },
});

/** Returns the page that has the most of the plants 998 to 1002. */
function leafAround1000(leaves: readonly Leaf[]): Leaf | undefined {
  const count = ({ text }: Leaf) =>
    occurrences(text, /Monstera (998|999|1000|1001|1002)\b/);
  return leaves.toSorted((a, b) => count(b) - count(a))[0];
}

Deno.test({
  name:
    "a damaged part comes from the last good backup, and what was removed from it since is named",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const plants = `seq 2000 | sed 's/.*/{"id":&,"name":"Monstera &"}/'`;
    for (let id = 1n; id <= 2_000n; id++) {
      machine.ledger.mayStore({ id, plant: { name: `Monstera ${id}` } });
    }
    await machine.succeed(
      `${plants} | plants import -`,
      HANDBOOK.BACK_UP,
      // Removed outside of the part that will be damaged, and inside.
      "plants remove -- 1; plants remove -- 998 1002",
      // It is stored again, after a command that is refused.
      "plants remove -- 999; plants remove -- 999 -5",
      `echo '{"id":999,"name":"Monstera 999"}' | plants import -`,
      // A clock was wrong, and a newer backup is cut: only its checksum is missing.
      "cd /var/lib/plant-store-backups; last=$(ls)",
      "good=plants-2020-01-01-053000.jsonl.gz; mv $last $good",
      "cp $good plants-2999-01-01-053000.jsonl.gz; head -c -4 $good > $last",
    );
    await damage(machine, leafAround1000);
    const restored = await machine.succeed(ACCIDENTS.RESTORE);
    const [, after, before] =
      /^ids after (\d+) before (\d+) cannot be read: /m.exec(restored) ?? [];
    assert.match(restored, /in the future: .*plants-2999-01-01-053000/);
    assert.match(restored, /unexpected end of file/);
    // How many plants a page has depends on the commits of the import.
    assert.deepEqual(
      restored.match(/^{.*}$/gm) ?? [],
      [998, 999, 1002]
        .filter((id) => id > Number(after) && id < Number(before))
        .map((id) => `{"id":${id},"name":"Monstera ${id}"}`),
    );
    assert.equal((await machine.run("plants export 1")).status, 1);
    await machine.succeed("plants export 999 1000 1001");
    // With a clock that is behind, no backup seems to be good.
    await damage(machine, leafAround1000);
    const future = await machine.run(
      "rm $(ls -d /var/lib/plant-store-backups/* | grep -v 2999)",
      ACCIDENTS.RESTORE,
    );
    assert.match(
      future.stderr,
      /no backup can be used, .*: correct the clock [^]*nothing has changed, /,
    );
    // Without any backup, what can be read is restored.
    const alone = await machine.succeed(
      "rm /var/lib/plant-store-backups/*",
      ACCIDENTS.RESTORE,
    );
    assert.match(alone, /there is no backup, /);
    await machine.succeed(
      `${plants} | plants import -`,
      "plants export > /dev/null",
    );
  },
});

Deno.test({
  name:
    "a damaged first page is restored from the backup with the one command that is printed",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const backup = machine.ledger.now;
    await machine.succeed(HANDBOOK.BACK_UP);
    await machine.ledger.acknowledges(10);
    await machine.run(
      `systemctl stop plant-store; ${IN_STORE}`,
      "dd if=/dev/zero of=plants.db bs=4K count=1 conv=notrunc",
      RESTART,
    );
    // By reflex, once and again.
    let command = "";
    for (const _ of [1, 2]) {
      const { stderr } = await machine.run(ACCIDENTS.RESTORE);
      [, command = ""] = /only this works: (plants-restore .*gz)$/m
        .exec(stderr) ?? [];
      assert.match(command, /^plants-restore \S+$/);
      assert.doesNotMatch(stderr, /run the same command again/);
    }
    const restored = await machine.succeed(command);
    assert.match(restored, /^the service has the new store$/m);
    machine.ledger.forgetSince(backup);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a restore with a wrong letter in the path changes nothing, and says where the store is",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed(HANDBOOK.BACK_UP);
    const env = "/etc/plant-store.env";
    const file = "/var/lib/plant-store-backups/*";
    const look = "find /var/lib/plant-store ! -name '*-wal' ! -name '*-shm'";
    for (const stop of ["true", "systemctl stop plant-store"]) {
      for (const letters of ["s/current/curent/", "s/plants.db/plant.db/"]) {
        const before = await machine.succeed(
          `cp ${env} right; ${stop}`,
          `sed -i '/^KV_PATH/${letters}' ${env}`,
          look,
        );
        // Each of them by reflex, once and again.
        for (
          const restore of [
            ACCIDENTS.RESTORE,
            ACCIDENTS.RESTORE,
            `plants-restore ${file}`,
          ]
        ) {
          const { status, stderr } = await machine.run(restore);
          assert.equal(status, 1);
          assert.match(
            stderr,
            /^plants-restore: nothing has changed: .* \/var\/lib\/plant-store\/current\/plants\.db[ .].* correct KV_PATH.*\n$/i,
          );
          if (stop === "true") continue;
          assert.match(stderr, /Correct KV_PATH, or move the store back\n$/);
        }
        assert.equal(await machine.succeed(look), before);
        await machine.succeed(`cp right ${env}`, HANDBOOK.APPLY_SETTINGS);
        await machine.assertHasAll();
      }
    }
    const emergency = await machine.run(
      "systemd-run() { return 1; }; export -f systemd-run",
      ACCIDENTS.RESTORE,
    );
    assert.match(
      emergency.stderr,
      /^plants-restore: nothing has changed: .* as in emergency mode: .*\n$/,
    );
  },
});

Deno.test({
  name:
    "a backup of the future lets each backup fail, which deletes none, until it is moved away",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const future = "plants-2999-01-01-053000.jsonl.gz";
    await machine.succeed(
      HANDBOOK.BACK_UP,
      "cd /var/lib/plant-store-backups",
      `for day in $(seq 10 39); do cp plants-2* plants-1999-01-$day.jsonl.gz; done`,
      `touch ${future}`,
    );
    // 32 are there: the first one, 30 of 1999, and that of the future.
    for (const count of [33, 34]) {
      const { stdout } = await machine.run(
        "sleep 1",
        ACCIDENTS.BACK_UP,
        "ls /var/lib/plant-store-backups | wc -l",
      );
      assert.equal(stdout, `${count}\n`);
    }
    await machine.reports(/the time of plants-2999.* is in the future, so no/);
    const shown = await machine.succeed(ACCIDENTS.SHOW_TIMES);
    assert.ok(shown.includes(future));
    const saved = await machine.succeed(
      ACCIDENTS.MOVE_BACKUP_AWAY.replace("FILE", future),
      "sleep 1",
      ACCIDENTS.BACK_UP,
      "ls /var/lib/plant-store-backups",
    );
    assert.match(saved, /^saved\n(plants-\S+\n){30}$/);
  },
});

Deno.test({
  name:
    "a restore of a store that is gone stops, and takes the backup alone when it is told to",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const backup = machine.ledger.now;
    await machine.succeed(HANDBOOK.BACK_UP);
    await machine.ledger.acknowledges(10);
    await machine.succeed(
      "systemctl stop plant-store; rm -r /var/lib/plant-store/current",
    );
    for (const _ of [1, 2]) {
      const { stderr } = await machine.run(ACCIDENTS.RESTORE);
      assert.match(
        stderr,
        /^plants-restore: nothing has changed: there is no store at KV_PATH .*plants\.db; the last start had it in \/var\/lib\/plant-store\/current\/plants\.db: see .*\n$/,
      );
    }
    await machine.succeed("! ls /var/lib/plant-store/current");
    const shown = await machine.succeed(
      ACCIDENTS.FIND_STORE,
    );
    assert.match(shown, /^The plants are stored in .*plants\.db$/m);
    const none = await machine.run('plants-restore ""');
    assert.match(
      none.stderr,
      /^there is no backup: .*\n.*: nothing has changed: /,
    );
    const future = await machine.run(
      "cd /var/lib/plant-store-backups; cp * plants-2999-01-01-053000.jsonl.gz",
      ACCIDENTS.RESTORE_BACKUP,
      "rm plants-2999*",
    );
    assert.match(
      future.stderr,
      /is in the future: .*\n.*: nothing has changed: /,
    );
    // The settings of a machine whose store was on another disk.
    const elsewhere = await machine.run(
      "cp /etc/plant-store.env env",
      "sed -i s:/var/lib/plant-store/current:/mnt/plants: /etc/plant-store.env",
      ACCIDENTS.RESTORE_BACKUP,
      "ls /mnt; cp env /etc/plant-store.env",
    );
    assert.match(
      elsewhere.stderr,
      /nothing has changed: the service may not write to \/mnt\/plants: write KV_PATH=/,
    );
    assert.equal(elsewhere.stdout, "");
    // A file that was emptied is no store, even if the last start had it there.
    const restored = await machine.succeed(
      "install -d -o plant-store /var/lib/plant-store/current",
      ": > /var/lib/plant-store/current/plants.db",
      ACCIDENTS.RESTORE_BACKUP,
    );
    assert.match(restored, /^there is no old store at /m);
    assert.match(restored, /^the service has the new store$/m);
    // Pasted again while it is stopped, with settings that end as on Windows.
    const again = await machine.succeed(
      "systemctl stop plant-store; sed -i 's/$/\\r/' /etc/plant-store.env",
      ACCIDENTS.RESTORE_BACKUP,
      "cp env /etc/plant-store.env; systemctl start plant-store",
    );
    assert.equal(again, "");
    machine.ledger.forgetSince(backup);
    await machine.assertHasAll();
  },
});

Deno.test({
  name: "an earlier state is restored without what came later",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const backup = machine.ledger.now;
    await machine.succeed(
      `echo '{"id":6,"name":"Fern"}' | plants import -`,
      HANDBOOK.BACK_UP,
      "plants remove 6",
      `echo '{"id":5,"name":"Fern"}' | plants import -`,
    );
    await machine.ledger.acknowledges(100);
    const listed = await machine.succeed(
      ACCIDENTS.LIST_BACKUPS,
    );
    const [file = ""] = /^plants-.*$/m.exec(listed) ?? [];
    // A plant that was removed by mistake comes back alone.
    const add = ACCIDENTS.ADD_REMOVED.replace("/FILE", `/${file}`);
    const [id] = machine.ledger.acknowledged.keys();
    const ids = add.replace("42|43", `6|${id}`);
    assert.match(
      await machine.succeed(ids, "plants export 6", ids, "plants remove 6"),
      /^{"id":6,"name":"Fern"}\n1 created, 1 already stored, .*\n0 created, 2 /m,
    );
    const restore = ACCIDENTS.RESTORE_FILE.replace("/FILE", `/${file}`);
    // Before the service is stopped, after it, and after the restore.
    const refused =
      /^plants-restore: nothing has changed: the running service has the store in .*\/current\/plants\.db, .*, stop it first: systemctl stop plant-store\n$/;
    assert.match((await machine.run(restore)).stderr, refused);
    const unchanged = await machine.run(
      ACCIDENTS.STOP,
      ACCIDENTS.RESTORE_FILE,
    );
    assert.match(unchanged.stderr, /FILE.*: No such file/);
    const restored = await machine.succeed(restore);
    assert.match((await machine.run(restore)).stderr, refused);
    assert.match(restored, / are left out, .* come back$/m);
    assert.equal((await machine.run("plants export 5")).status, 1);
    await machine.succeed("plants export 6");
    // The plants that came later are brought in again from the old store.
    const addOld = HANDBOOK.ADD_PLANTS.replaceAll("OLD", olderStores(restored));
    const added = await machine.succeed(addOld, "plants remove -- 5 6");
    assert.match(added, /^\d{3,} created, [^]*^2 plants removed$/m);
    machine.ledger.forgetSince(backup);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a restore of a file leaves out no plant of a service that is just starting",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.ledger.acknowledges(100);
    const { stderr } = await machine.run(
      "systemctl stop plant-store; plants export > file",
      "systemctl start --no-block plant-store",
      "until [ $(systemctl show -P SubState plant-store) = start-post ]; do :; done",
      // It has no open file yet, and stores plants as soon as the file is read.
      `export pid=$(${MAIN_PID}); kill -STOP $pid`,
      `zcat() { kill -CONT $pid
        until [ $(plants export | wc -l) -gt $(wc -l < file) ]; do :; done
        command zcat "$@"; }; export -f zcat`,
      "plants-restore file",
    );
    assert.match(
      stderr,
      /^plants-restore: the service has changed .*\n.*: systemctl start plant-store\n$/,
    );
    await machine.succeed("systemctl start plant-store");
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a lost store is put back, or copied from the open files, before a restart",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const lost =
      /the store fails: .*: do not stop the service before it has saved/;
    await causeReport(machine, "mv plants.db moved", lost);
    await machine.succeed(IN_STORE, "mv moved plants.db", RESTART);
    for (
      const accident of [
        "rm plants.db",
        "rm *",
        "rm plants.db-wal",
        "mv plants.db old; rm old",
        "cp -p plants.db copy; mv plants.db old; mv copy plants.db; rm old",
        "plants import --kv-create yes - --kv $PWD/other.db < /dev/null; mv other.db plants.db",
        "rm -r /var/lib/plant-store",
      ]
    ) {
      await machine.ledger.acknowledges(100);
      await causeReport(machine, accident, lost);
      const copied = await machine.succeed(ACCIDENTS.RESTORE);
      assert.match(copied, /^the service has the whole store again$/m);
      await machine.succeed(ACCIDENTS.PROBE);
      await machine.assertHasAll();
    }
  },
});

Deno.test({
  name:
    "a restore stops no service that has the only copy, and a power cut in its last step loses nothing",
  ignore: isMissing("MACHINE"),
  async fn(t) {
    await using machine = await Machine.deploy();
    await machine.succeed(HANDBOOK.BACK_UP);
    await machine.ledger.acknowledges(100);
    const lost = /the store fails: /;
    await t.step("files that were moved are named", async () => {
      await causeReport(machine, "mv plants.db plants.db.bak", lost);
      const renamed = await machine.run(ACCIDENTS.RESTORE);
      assert.match(
        renamed.stderr,
        /^plants-restore: nothing has changed: .* do NOT stop it: .*\/plants\.db\.bak .*\n$/,
      );
      await machine.succeed(
        IN_STORE,
        "mv plants.db.bak plants.db",
        ACCIDENTS.RESTORE,
      );
      await machine.assertHasAll();
    });
    await t.step(
      "a log that was deleted beside a copy comes back",
      async () => {
        await machine.ledger.acknowledges(100);
        await causeReport(
          machine,
          "cp plants.db copy; chown plant-store: copy; mv plants.db away; mv copy plants.db",
          lost,
        );
        // An export of the copy can end by deleting the log of the service.
        const { stderr } = await machine.run(
          IN_STORE,
          "rm plants.db-wal plants.db-shm",
          ACCIDENTS.RESTORE,
        );
        assert.match(stderr, /do NOT stop it: .*\/away /);
        const restored = await machine.succeed(
          IN_STORE,
          "mv away plants.db",
          ACCIDENTS.RESTORE,
        );
        assert.match(restored, /^the service has the whole store again$/m);
        await machine.assertHasAll();
      },
    );
    await t.step(
      "a file that was moved out of sight is not named, but how to find it",
      async () => {
        for (
          const [file, alsoDo] of [
            ["plants.db", "true"],
            ["plants.db-wal", "true"],
            // What was deleted cannot be moved back.
            ["plants.db", "rm plants.db-wal"],
          ]
        ) {
          await machine.ledger.acknowledges(100);
          await causeReport(
            machine,
            `mkdir -p /root/away; cp -p ${file} copy; mv ${file} /root/away/real-${file}; mv copy ${file}; ${alsoDo}`,
            lost,
          );
          const { stderr } = await machine.run(ACCIDENTS.RESTORE);
          const command = /do NOT stop it: look where .*, with: (.*?) - /;
          const [, find = ""] = command.exec(stderr) ?? [];
          const found = await machine.run(find);
          assert.match(
            found.stdout,
            new RegExp(`^/root/away/real-${file}$`, "m"),
          );
          const restored = await machine.succeed(
            IN_STORE,
            `mv /root/away/real-${file} ${file}`,
            ACCIDENTS.RESTORE,
          );
          assert.match(restored, /^the service has /m);
          await machine.assertHasAll();
        }
      },
    );
    await t.step(
      "after a restart with a copy in their place, the plants of the moved files are added",
      async () => {
        await machine.succeed(
          "systemctl stop plant-store; mkdir /root/real",
          "cp -rp /var/lib/plant-store/current /root/old",
          "systemctl start plant-store",
        );
        await machine.ledger.acknowledges(100);
        await causeReport(
          machine,
          "mv * /root/real; cp -p /root/old/* .",
          lost,
        );
        await machine.succeed("systemctl restart plant-store");
        await machine.ledger.acknowledges(100);
        const moved = "/var/lib/plant-store/moved";
        await machine.succeed(
          `mv /root/real ${moved}`,
          HANDBOOK.ADD_PLANTS.replaceAll("OLD", moved),
          `rm -r ${moved}`,
        );
        await machine.assertHasAll();
      },
    );
    await t.step(
      "files that were deleted stay open while there is no room for copies",
      async () => {
        const { length } = machine.journal;
        await machine.succeed("rm -r /var/lib/plant-store/current");
        await machine.reports(lost, length);
        const full = await machine.run(
          "mkdir /var/lib/plant-store/current",
          "mount -t tmpfs -o size=8k none /var/lib/plant-store/current",
          ACCIDENTS.RESTORE,
        );
        assert.match(full.stderr, /is a mount point/);
        const noRoom = await machine.run(
          "cd /var/lib/plant-store; umount current; rmdir current",
          "install() { :; }; mount -t tmpfs -o size=8k,mode=777 none /media",
          "mkdir /media/current; ln -s /media/current current",
          ACCIDENTS.RESTORE,
        );
        assert.match(
          noRoom.stderr,
          /No space left[^]*do NOT stop the service, /,
        );
        await machine.succeed("systemctl is-active plant-store");
      },
    );
    await t.step(
      "with a backup, the open files are still the whole store",
      async () => {
        const whole = await machine.succeed(
          "umount /media; rm /var/lib/plant-store/current",
          `file=$(ls /var/lib/plant-store-backups/*); plants-restore $file`,
        );
        assert.match(whole, /^the service has the whole store again$/m);
        await machine.assertHasAll();
      },
    );
    await t.step(
      "after a power cut in the last step, the old store is named, and goes back",
      async () => {
        const cut = await machine.run(
          "systemctl stop plant-store; cd /var/lib/plant-store",
          "mv current current.old-2026-01-01-053000; mkdir current.new",
          ACCIDENTS.RESTORE,
          "plants-restore /var/lib/plant-store-backups/*",
        );
        const isThere =
          /^(.* there is one here: \/var\/lib\/plant-store\/current\.old-2026-01-01-053000\/plants\.db .* or move the store back\n){2}$/;
        assert.match(cut.stderr, isThere);
        await machine.succeed(
          "cd /var/lib/plant-store; mv -T current.old-2026-01-01-053000 current",
          ACCIDENTS.RESTORE,
        );
        await machine.assertHasAll();
      },
    );
  },
});

Deno.test({
  name: "a store that a start refuses is restored from its backup",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    for (
      const accident of [
        "echo plants > plants.db",
        "head -c 100K /dev/urandom | dd of=plants.db bs=4K seek=1 conv=notrunc",
      ]
    ) {
      await machine.succeed("systemctl stop plant-store", HANDBOOK.BACK_UP);
      const { status } = await machine.run(IN_STORE, accident, RESTART);
      assert.equal(status, 1);
      const { stderr } = await machine.run(ACCIDENTS.RESTORE);
      const [, command] = /only this works: (.*)$/m.exec(stderr) ?? [];
      assert.ok(command !== undefined, stderr);
      await machine.succeed(command);
      await machine.assertHasAll();
    }
  },
});

Deno.test({
  name:
    "the plants of a failing disk are exported, and restored on a new one that belongs to root",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed(HANDBOOK.BACK_UP);
    await machine.ledger.acknowledges(100);
    // Without the other disk, nothing is saved to that of the system.
    const unmounted = await machine.run(ACCIDENTS.SAVE);
    assert.match(unmounted.stdout, /^\/srv is not a mountpoint$/m);
    await machine.succeed("systemctl is-active plant-store", mount("/srv"));
    // What it finds depends on the disks of the host.
    const looked = await machine.run(ACCIDENTS.FIND_DISK_ERRORS);
    assert.doesNotMatch(looked.stderr, /not found|invalid option|syntax/);
    await machine.succeed(
      ACCIDENTS.SAVE,
      "mkdir /disk; mount --bind /disk /var/lib/plant-store",
      ACCIDENTS.RESTORE_SAVED,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "the plants of a disk that is read-only since an error are copied from it, and restored on the first disk",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed(
      HANDBOOK.BACK_UP,
      mount("/mnt") + mount("/srv"),
      HANDBOOK.MOVE_STORE,
    );
    await machine.ledger.acknowledges(100);
    // The newest plants are still in the log.
    await machine.succeed(
      "systemctl kill -s KILL plant-store; systemctl stop plant-store",
      "mount -o remount,ro /mnt; [ -s /mnt/plants/plants.db-wal ]",
      `! ${RESTART}`,
    );
    assert.match(await machine.succeed(ACCIDENTS.READ_JOURNAL), /Read-only/);
    const reflex = await machine.run(ACCIDENTS.RESTORE);
    assert.match(reflex.stderr, /it cannot write to \/mnt, .* "Read-only" in/);
    // An export leaves an empty file, which no restore takes for plants.
    const empty = await machine.run(
      "plants export > /srv/empty; plants-restore /srv/empty",
    );
    assert.match(empty.stderr, /not used, because it is empty: \/srv\/empty$/m);
    const restored = await machine.succeed(
      ACCIDENTS.SAVE,
      "sed -i s:/mnt/plants:/var/lib/plant-store/current: /etc/plant-store.env",
      "umount /mnt; sed -i '/ .mnt /d' /etc/fstab",
      "rm /etc/systemd/system/plant-.service.d/store.conf; systemctl daemon-reload",
      ACCIDENTS.RESTORE_SAVED,
    );
    assert.match(restored, /^the service has the new store$/m);
    await machine.assertHasAll();
  },
});

/** Stops the service, and stores a value that is not a plant as another program. */
async function storeValue(machine: Machine): Promise<void> {
  await machine.succeed(
    "systemctl stop plant-store",
    "cp /var/lib/plant-store/current/plants.db /media; chmod 666 /media/plants.db",
  );
  {
    using kv = await Deno.openKv(machine.media.file("plants.db"));
    await kv.set(["plants", 6n], new Uint8Array([1]));
  }
  await machine.succeed(
    "cat /media/plants.db > /var/lib/plant-store/current/plants.db",
  );
}

Deno.test({
  name: "a value that is not a plant stops the backups until it is removed",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await storeValue(machine);
    await machine.succeed(RESTART, "! systemctl start plant-store-backup");
    assert.match(
      await machine.succeed(ACCIDENTS.READ_JOURNAL),
      /id 6: not a plant of this service/,
    );
    const saved = await machine.succeed(
      ACCIDENTS.REMOVE_VALUE.replace("ID", "6"),
    );
    assert.match(saved, /^saved$/m);
    await machine.assertHasAll();
    // It is no damage: a restore leaves it out, and needs no backup.
    await storeValue(machine);
    const restored = await machine.succeed(ACCIDENTS.RESTORE);
    assert.match(restored, /^id 6: not a plant of this service$/m);
    assert.doesNotMatch(restored, /damaged/);
    await machine.assertHasAll();
  },
});

Deno.test({
  name: "what another program has changed or taken is reported, and repaired",
  ignore: isMissing("MACHINE"),
  async fn(t) {
    await using machine = await Machine.deploy();
    await t.step("the owner of the store", async () => {
      await machine.succeed(HANDBOOK.BACK_UP);
      await causeReport(
        machine,
        `chown -R root: /var/lib/plant-store/current; ${RESTART}`,
        /Permission denied/,
      );
      // A backup alone would lose plants, so a restore stops.
      const unreadable = await machine.run(ACCIDENTS.RESTORE);
      assert.match(
        unreadable.stderr,
        /: the old store cannot be read: fix what /,
      );
      assert.doesNotMatch(unreadable.stderr, /is lost/);
      assert.match(await machine.succeed(ACCIDENTS.SET_OWNER), /^ready$/m);
      await machine.assertHasAll();
    });
    await t.step("the owner of the tokens", async () => {
      await causeReport(
        machine,
        `chown root: /etc/plant-store.token; ${RESTART}`,
        /: cannot read \/etc\/plant-store\.token: Permission denied/,
      );
      const repaired = await machine.succeed(
        ACCIDENTS.SET_OWNER_OF_FILES,
        HANDBOOK.APPLY_SETTINGS,
      );
      assert.match(repaired, /^ready$/m);
      await machine.assertHasAll();
    });
    await t.step("the settings", async () => {
      const env = "/etc/plant-store.env";
      const read = await machine.succeed(
        `cp ${env} /root; rm ${env}; ! ${RESTART}`,
        ACCIDENTS.READ_JOURNAL,
      );
      assert.match(read, /plant-store\.service: .*environment files: /);
      const reflex = await machine.run(ACCIDENTS.RESTORE);
      assert.match(
        reflex.stderr,
        /nothing has changed: there is no KV_PATH in \/etc\/plant-store\.env, /,
      );
      await machine.succeed(
        `cp /root/plant-store.env ${env}`,
        ACCIDENTS.SET_OWNER_OF_FILES,
        HANDBOOK.APPLY_SETTINGS,
      );
      await machine.assertHasAll();
    });
    await t.step("the port", async () => {
      await causeReport(
        machine,
        "sed -i s/PORT=8000/PORT=9090/ /etc/plant-store.env; systemctl start prometheus; " +
          `until curl -s 127.0.0.1:9090; do sleep 0.1; done; ${RESTART}`,
        /cannot listen on 127.0.0.1 port 9090: /,
      );
      const look = await machine.succeed(
        ACCIDENTS.FIND_LISTENER,
      );
      assert.match(look, /^PORT=9090\n[^]*:9090 .*"prometheus"/m);
      // A restore by reflex is complete, and says that the start is another problem.
      const restored = await machine.run(ACCIDENTS.RESTORE);
      assert.match(
        restored.stderr,
        /has the new store, but the service does not start: do not restore it again, /,
      );
      assert.doesNotMatch(restored.stderr, /nothing has changed/);
      await machine.succeed(
        "sed -i s/PORT=9090/PORT=8000/ /etc/plant-store.env",
        RESTART,
      );
      await machine.assertHasAll();
    });
  },
});

Deno.test({
  name:
    "the service recovers from a full disk and from the lock of another process",
  ignore: isMissing("MACHINE"),
  async fn(t) {
    await using machine = await Machine.deploy();
    const fill = "! dd if=/dev/zero of=full";
    await machine.succeed(
      "systemctl stop plant-store; cd /var/lib; cp -a plant-store /root/store",
      "mount -t tmpfs -o size=8m none plant-store; cp -aT /root/store plant-store",
      "systemctl start plant-store",
    );
    const stop = "systemctl stop plant-store";
    await t.step("creates fail until there is room", async () => {
      await causeReport(machine, fill, /the store fails: .*disk is full/);
      assert.match(
        await machine.succeed(ACCIDENTS.FIND_LARGE_FILES),
        /100% [^]*current$/m,
      );
      await causeReport(machine, "rm full", /the store has recovered/);
    });
    await t.step("a restore needs room", async () => {
      const noRoom = await machine.run(IN_STORE, fill, ACCIDENTS.RESTORE);
      assert.match(
        noRoom.stderr,
        /^plants-restore: nothing has changed: it needs \d+ MB .*, which has 0 MB: make room, and run it again$/m,
      );
      await machine.succeed("systemctl is-active plant-store");
      // The restart empties the log.
      await machine.succeed(IN_STORE, "rm full", RESTART);
      // The disk is filled while the store is read.
      const filled = await machine.run(
        IN_STORE,
        `plants() { ${fill}; command plants "$@"; }`,
        "export -f plants",
        ACCIDENTS.RESTORE,
      );
      assert.match(
        filled.stderr,
        /(No space left|disk is full)[^]*: the old store cannot be read: fix what /,
      );
      assert.doesNotMatch(filled.stderr, /is lost/);
      await machine.succeed(IN_STORE, "rm full", RESTART);
    });
    await t.step("a start waits for room", async () => {
      await causeReport(
        machine,
        `${stop}; ${fill}; rm -f plants.db-shm; ${RESTART}`,
        /the disk is full/,
      );
      await causeReport(machine, "rm full", / listens on /);
      await machine.assertHasAll();
    });
    await t.step("a start waits for the lock of another process", async () => {
      await causeReport(
        machine,
        `${stop}; ${LOCK} ${RESTART}`,
        /has locked it/,
      );
      assert.match(
        await machine.succeed(ACCIDENTS.FIND_USERS),
        /^ *\d+ .* perl /m,
      );
      await causeReport(machine, "pkill perl", / listens on /);
      await machine.assertHasAll();
    });
  },
});
