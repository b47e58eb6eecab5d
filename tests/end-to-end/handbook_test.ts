/** The blocks of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { destroyPage, leavesOf } from "../support/accidents.ts";
import { HANDBOOK } from "../support/handbook.ts";
import {
  DEPLOY,
  IN_VERSION,
  interrupted,
  Machine,
} from "../support/machine.ts";
import { isMissing } from "../support/needs.ts";
import { TOKEN } from "../support/program.ts";
import { type Random, withSeed } from "../support/random.ts";

const PLACE = "/var/lib/plant-store";

const IN_STORE = `cd ${PLACE}/current`;

const RESTART = "systemctl restart plant-store";

/** The files of the store and of the older ones, without what a running service adds. */
const STORES = `find ${PLACE} -name '*.db' | sort`;

/** The last backup. */
const LAST = '"$(ls -d /var/lib/plant-store-backups/* | tail -n 1)"';

const IS_ACTIVE = "systemctl is-active plant-store";

/** A restore imports plants. */
const IS_IMPORTING = `[ -s ${PLACE}/new/plants.db-wal ]`;

/** Makes every import of a restore last, so that it can be interrupted. */
const IMPORT_SLOWLY =
  `install -m 755 /dev/stdin /usr/local/bin/zcat <<< '#!/bin/sh
  /bin/zcat "$@"; exec sleep 2'`;

/** The last line of a restore. */
const RESTORED = /^the service has the new store$/m;

Deno.test({
  name:
    "a deployment protects the files and changes nothing the second time, systemd restarts a killed service, and an upgrade can go back",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const look =
      `cd ${PLACE}; stat -c '%a %U:%G' /etc/plant-store.* . current current/plants.db
    cat /etc/plant-store.token`;
    const before = await machine.succeed(look);
    assert.equal(
      before,
      "640 root:plant-store\n".repeat(2) +
        "700 plant-store:plant-store\n".repeat(2) +
        `600 plant-store:plant-store\n${TOKEN}\n`,
    );
    const again = await machine.succeed(DEPLOY);
    assert.match(again, /: OK$[^]*^installed$[^]*\/plants\.db$[^]*^ready$/m);
    assert.doesNotMatch(again, /created a new|add the line/);
    assert.equal(await machine.succeed(look), before);
    await machine.succeed(
      "systemctl kill -s KILL plant-store",
      "until plants healthcheck; do sleep 0.2; done",
    );
    const problems = await machine.succeed(HANDBOOK.READ_JOURNAL);
    assert.match(problems, /plant-store\.service: .*code=killed/);
    const state = await machine.succeed(HANDBOOK.BACK_UP, HANDBOOK.SHOW_STATE);
    assert.match(
      state,
      /^stores plants in [^]*^ready\n\d+\n.* Use%[^]*\.gz\nsuccess\n/m,
    );
    const version =
      `${IN_VERSION}; mkdir -p /root/new; cp -r * /root/new; cd /root/new`;
    const upgraded = await machine.succeed(
      `${version}; echo '# newer' >> plant-store`,
      HANDBOOK.BACK_UP,
      HANDBOOK.UPGRADE,
      "tail -n 1 /usr/local/bin/plant-store",
      IN_VERSION,
      HANDBOOK.UPGRADE,
      "cmp plant-store /usr/local/bin/plant-store",
      HANDBOOK.READ_EVERY_PLANT,
    );
    assert.match(
      upgraded,
      /^saved$[^]*^plant-store 1[^]*^ready$[^]*^# newer$[^]*^complete$/m,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "the first plant is created, corrected and removed, by commands that a file lists and that have the settings of the service only",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const plant = { name: "Monstera", tag: "climber" };
    machine.ledger.mayStore({ id: 1n, plant });
    const created = await machine.succeed(HANDBOOK.CREATE_PLANT);
    assert.match(
      created,
      /^HTTP\/1.1 200 OK\r$[^]*{"name":"Monstera","tag":"climber"}/m,
    );
    await machine.succeed(
      "plants remove -- 1",
      `echo '{"id":42,"name":"Fern"}' | plants import -`,
    );
    const replaced = await machine.succeed(
      HANDBOOK.REPLACE,
      "plants export 42",
    );
    assert.match(
      replaced,
      /^{"id":42,"name":"Fern"}\n{"id":42,"name":"Monstera"}\n1 plant replaced$/m,
    );
    const removed = await machine.succeed(HANDBOOK.REMOVE);
    assert.match(removed, /^1 plant removed$/m);
    assert.equal((await machine.run(HANDBOOK.REMOVE)).status, 1);
    const changes = await machine.succeed("cat /var/log/plants.log");
    assert.match(
      changes,
      / remove -- 1\n.* import -\n.* replace {"id": 42, .*}\n(.* remove -- 42\n){2}$/,
    );
    const checked = await machine.succeed(
      // In a directory that is gone, and with the variables of another service.
      "mkdir gone; cd gone; rmdir ../gone",
      "ACCESS_TOKEN=x PORT=y KV_PATH=/none plants check",
    );
    assert.match(checked, /\/var\/lib\/plant-store\/current\/plants\.db/);
    const refused = await machine.run(
      "mv /etc/plant-store.env moved; plants export; mv moved /etc/plant-store.env",
      "setpriv --reuid=65534 --clear-groups plants export",
      // systemd would read these lines otherwise.
      `for value in '"x"' "x'y" 'x\\'; do cp /etc/plant-store.env before`,
      'echo "ACCESS_TOKEN=$value" >> /etc/plant-store.env; plants export',
      "cp before /etc/plant-store.env; done",
      "flock /run/plants.lock plants export",
    );
    assert.match(
      refused.stderr,
      /^(plants: cannot read .*: run it as root, .*\n){2}(plants: write this line .*\n){3}plants: a restore is running: wait for it\n$/,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a wrong setting is refused before a restart and at a start, and creates no store",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const listed = await machine.succeed(
      HANDBOOK.BACK_UP,
      `systemctl stop plant-store; mv ${PLACE}/current away`,
      HANDBOOK.CREATE_STORE,
      `! ls ${PLACE}/current`,
      `mv away ${PLACE}/current; systemctl start plant-store`,
    );
    assert.match(listed, /-backups\/plants-[\d-]+\.jsonl\.gz$/m);
    for (
      const [setting, why] of [
        ["KV_PATH=/var/lib/plant-store/plants.db", / \(no store\): /],
        [`KV_PATH=${PLACE}/current/plants.db # the store`, / \(no store\): /],
        ["PORT=8001 # the port", /expected .*PORT|PORT.*expected/],
        ['PORT="8001"', /: write this line of .* without quotes /],
      ] as const
    ) {
      const { status, stderr } = await machine.run(
        `cp /etc/plant-store.env before; echo '${setting}' >> /etc/plant-store.env`,
        HANDBOOK.APPLY_SETTINGS,
        "status=$?; cp before /etc/plant-store.env; exit $status",
      );
      assert.equal(status, 2);
      assert.match(stderr, why, setting);
    }
    const { length } = machine.journal;
    const wrong = "sed -i s/plants.db/plant.db/ /etc/plant-store.env";
    await machine.succeed(`${wrong}; ! ${RESTART}`);
    await machine.reports(/plant\.db \(no store\): /, length);
    // A start that is refused is not repeated.
    const state = "systemctl show -P SubState plant-store";
    assert.equal(await machine.succeed(state), "failed\n");
    await machine.succeed(`! ls ${PLACE}/current/plant.db`);
    await machine.succeed("cp before /etc/plant-store.env", RESTART);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a token that is added is accepted until it is deleted, and an invalid file changes nothing",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const status =
      `curl -s -o /dev/null -w '%{http_code}\n' 127.0.0.1:8000/metrics \\
    -H "Authorization: Bearer $token"`;
    // An editor has left an empty line, and no end of the last line.
    const added = await machine.succeed(
      `printf '\\n${TOKEN}' > /etc/plant-store.token`,
      HANDBOOK.ADD_TOKEN,
      HANDBOOK.LOAD_TOKENS,
      "token=$(tail -n 1 /etc/plant-store.token)",
      status,
    );
    assert.match(added, /: reloaded 2 tokens from [^]*^200$/m);
    // The tokens are named as `plants check` names them.
    const counted = await machine.succeed(
      "plants check",
      HANDBOOK.COUNT_REQUESTS,
    );
    const [, first, second] = /^accepts 2 tokens in \S+: (\w+), (\w+) /m
      .exec(counted) ?? [];
    const requests = "plant_store_token_requests_total{token";
    assert.ok(counted.includes(`${requests}="${first}"} `), counted);
    assert.ok(counted.includes(`${requests}="${second}"} `), counted);
    const invalid = await machine.run(
      "echo a token >> /etc/plant-store.token",
      HANDBOOK.LOAD_TOKENS,
    );
    assert.match(invalid.stderr, /expected 1 to 100 tokens /);
    await machine.ledger.acknowledges(10);
    const deleted = await machine.succeed(
      "token=$(sed -n 3p /etc/plant-store.token)",
      "sed -i 3,4d /etc/plant-store.token",
      HANDBOOK.LOAD_TOKENS,
      status,
      // Pasted twice.
      HANDBOOK.ADD_TOKEN + HANDBOOK.ADD_TOKEN + HANDBOOK.LOAD_TOKENS,
      "stat -c '%a %U:%G' /etc/plant-store.token",
    );
    assert.match(
      deleted,
      /: reloaded 1 token from [^]*^401$[^]*: reloaded 3 tokens [^]*^640 root:plant-store$/m,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a backup is complete, the newest 30 are kept, and one that fails leaves no file, deletes none, and fails its unit",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const inBackups = "cd /var/lib/plant-store-backups";
    await machine.succeed(
      HANDBOOK.BACK_UP,
      `${inBackups}; mv * plants-2021-01-01-000000.jsonl.gz`,
      "for n in $(seq 10 39); do touch plants-2020-01-01-0000$n.jsonl.gz; done",
      "touch other.gz before-upgrade.jsonl.gz; chown plant-store: *",
    );
    const { size } = machine.ledger.acknowledged;
    const listed = await machine.succeed(HANDBOOK.LIST_BACKUPS);
    assert.match(listed, /plants-\d{4}-\d\d-\d\d-\d{6}\.jsonl\.gz$/m);
    const names = await machine.succeed(inBackups, "ls");
    assert.equal(names.match(/^plants-\d/gm)?.length, 30);
    assert.match(names, /^before-upgrade\.jsonl\.gz$/m);
    assert.match(
      names,
      /^before-upgrade\.jsonl\.gz\nother\.gz\nplants-2020-01-01-000012/,
    );
    const tried = await machine.succeed(HANDBOOK.COUNT_PLANTS);
    assert.ok(Number(tried) >= size);
    // All others are from the future, because the clock was wrong.
    const future = await machine.succeed(
      `${inBackups}; mkdir /root/kept; mv plants-* /root/kept`,
      "touch plants-2999-01-01-0000{10..39}.jsonl.gz; chown plant-store: *",
      HANDBOOK.BACK_UP,
      "ls plants-*; rm plants-2999*; mv /root/kept/* .",
    );
    assert.match(future, /^plants-20\d\d-.*\nplants-2999-01-01-000011/m);

    await machine.succeed(
      `${inBackups}; ls > /root/before; mount -t tmpfs -o size=8k none /tmp`,
      "mkdir /tmp/full; chmod 777 /tmp/full; mount --bind /tmp/full $PWD",
      "head -c 8k /dev/zero > /tmp/rest",
      "! systemctl start plant-store-backup; ls -A; umount $PWD",
      "ls | cmp - /root/before",
    );
    assert.match(
      await machine.succeed(HANDBOOK.READ_JOURNAL),
      /No space left on device/,
    );
    await machine.assertHasAll();
  },
});

/** Writes the line of /etc/fstab for a directory as if it were a disk. */
function writeLine(directory: string): string {
  const line = HANDBOOK.FSTAB_LINE
    .replace("UUID=WRITE-IT-HERE", directory)
    .replace("auto nofail", "none bind,nofail").trim();
  return `mkdir -p ${directory}; sed -i '\\| ${PLACE} |d' /etc/fstab
  echo '${line}' >> /etc/fstab`;
}

Deno.test({
  name:
    "the store moves to another disk and to a third, also if a block is pasted twice or interrupted, a missing disk is refused, and the plants of one that fails are saved",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    // The line of the disk is forgotten, and the operator gives up.
    const { stdout } = await machine.run(
      interrupted(HANDBOOK.SAVE_STORE, "[ -e /root/part.jsonl ]"),
      HANDBOOK.SAVE_STORE,
      HANDBOOK.USE_DISK,
    );
    assert.match(stdout, /^saved\n$/m);
    assert.doesNotMatch(stdout, /TARGET/);
    assert.match(await machine.succeed(HANDBOOK.RESTORE_ON_DISK), RESTORED);
    await machine.assertHasAll();
    // The UUID is forgotten.
    const line = `echo '${HANDBOOK.FSTAB_LINE.trim()}' >> /etc/fstab`;
    const unedited = await machine.run(line, HANDBOOK.USE_DISK);
    assert.equal(unedited.status, 1);
    assert.doesNotMatch(unedited.stdout, /TARGET/);
    for (const disk of ["/disk1", "/disk2"]) {
      const used = await machine.succeed(
        writeLine(disk),
        HANDBOOK.SAVE_STORE,
        HANDBOOK.SAVE_STORE,
        HANDBOOK.USE_DISK,
        HANDBOOK.USE_DISK,
        `! ls ${PLACE}/current 2> /dev/null`,
      );
      assert.ok(used.includes(`[${disk}]`), used);
      // The disk is mounted already: the saved plants stay as they are.
      const early = await machine.run(HANDBOOK.SAVE_STORE);
      assert.match(early.stderr, /\(no store\)/);
      assert.doesNotMatch(early.stdout, /saved/);
      await machine.run(
        IMPORT_SLOWLY,
        interrupted("plants-restore /root/moved.jsonl", IS_IMPORTING),
        "rm /usr/local/bin/zcat",
      );
      // By reflex, before the last block.
      assert.equal((await machine.run(RESTART)).status, 1);
      assert.match(await machine.succeed(HANDBOOK.RESTORE_ON_DISK), RESTORED);
      await machine.ledger.acknowledges(100);
      assert.equal((await machine.run(HANDBOOK.RESTORE_ON_DISK)).status, 1);
      await machine.assertHasAll();
      // All blocks once more.
      await machine.succeed(
        HANDBOOK.SAVE_STORE,
        HANDBOOK.USE_DISK,
        HANDBOOK.RESTORE_ON_DISK,
      );
      const mounted = await machine.succeed(
        `stat -c '%a %U:%G' ${PLACE} ${PLACE}/current; findmnt -no SOURCE ${PLACE}`,
      );
      assert.match(
        mounted,
        new RegExp(`^(700 plant-store:plant-store\n){2}.*${disk}\\]$`, "m"),
      );
      await machine.assertHasAll();
    }
    const deleted = await machine.succeed(HANDBOOK.DELETE_MOVED_STORE);
    assert.match(deleted, /^removed '\/mnt\/.*\/plants\.db'$/m);
    // The disk is gone.
    const lost = await machine.succeed(
      `systemctl stop plant-store; umount ${PLACE}`,
      `sed -i 's:^/disk2 .*:none ${PLACE} tmpfs size=x,nofail:' /etc/fstab`,
      `systemctl daemon-reload; ! ${RESTART}`,
      HANDBOOK.READ_JOURNAL,
    );
    assert.match(lost, /Dependency failed for /);
    const reflex = await machine.run(HANDBOOK.RESTORE);
    assert.match(reflex.stderr, /: mount \/var\/lib\/plant-store first, /);
    await machine.succeed(
      writeLine("/disk2"),
      `systemctl daemon-reload; ${RESTART}`,
    );
    await machine.assertHasAll();
    // The disk fails. The newest plants are still in the log.
    await machine.succeed(
      HANDBOOK.BACK_UP,
      "systemctl kill -s KILL plant-store; systemctl stop plant-store",
      `mount -o remount,ro,bind ${PLACE}; [ -s ${PLACE}/current/plants.db-wal ]`,
      `! ${RESTART}`,
    );
    assert.match(await machine.succeed(HANDBOOK.READ_JOURNAL), /Read-only/);
    const readOnly = await machine.run(HANDBOOK.RESTORE);
    assert.match(readOnly.stderr, / no store has changed, /);
    const restored = await machine.succeed(
      HANDBOOK.SAVE,
      `umount ${PLACE}; ${writeLine("/disk3")}`,
      `systemctl daemon-reload; mount ${PLACE}`,
      HANDBOOK.RESTORE_SAVED,
      `findmnt -no SOURCE ${PLACE}`,
    );
    assert.match(restored, /^the service has the new store\n.*\/disk3\]$/m);
    await machine.assertHasAll();
    // Pasted twice.
    const again = await machine.run(HANDBOOK.SAVE, HANDBOOK.RESTORE_SAVED);
    assert.match(again.stderr, /File exists[^]*: the service is running, /);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a store whose files were deleted, moved or replaced is restored with every plant, also after a restart by reflex",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed(HANDBOOK.BACK_UP);
    const restart = `${RESTART}; ${HANDBOOK.RESTORE}`;
    const last = `systemctl stop plant-store; plants-restore ${LAST}`;
    const replace = "cp -p plants.db copy; mv copy plants.db";
    for (
      const [accident, reflex] of [
        ["rm *", HANDBOOK.RESTORE],
        ["rm *", restart],
        ["rm plants.db-wal", last],
        [`mv ${PLACE}/current /root/moved`, restart],
        [
          `rm -r ${PLACE}; mkdir ${PLACE}`,
          `timeout 2 ${RESTART}; ${HANDBOOK.RESTORE}`,
        ],
        [replace, restart],
        // The service does not see it before it is stopped.
        [`systemctl kill -s STOP plant-store; ${replace}`, HANDBOOK.RESTORE],
      ] as const
    ) {
      await machine.ledger.acknowledges(100);
      const { stdout, stderr } = await machine.run(IN_STORE, accident, reflex);
      assert.match(stdout, RESTORED, `${accident}; ${reflex}\n${stderr}`);
      await machine.assertHasAll();
      // The next restore takes the new store.
      const next = await machine.succeed(
        "rm -rf /root/moved",
        HANDBOOK.RESTORE,
      );
      assert.match(next, /^reading \/var\/lib\/plant-store\/current,/m);
      await machine.assertHasAll();
    }
    // A restore that is interrupted starts no other store.
    const stopped = await machine.run(
      IMPORT_SLOWLY,
      `${IN_STORE}; cp -p plants.db copy; mv copy plants.db`,
      interrupted("plants-restore", IS_IMPORTING),
      IS_ACTIVE,
      HANDBOOK.RESTORE,
    );
    assert.match(stopped.stderr, / no store has changed, and .* is inactive$/m);
    assert.match(stopped.stdout, RESTORED);
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
      `plants remove -- 4; plants replace '{"id":3,"name":"Ficus"}'`,
    );
    const before = await machine.succeed(IMPORT_SLOWLY, STORES);
    const during = (command: string) =>
      `plants-restore & until ${IS_IMPORTING}; do sleep 0.02; done
      kill -STOP $!; ${command}; kill -CONT $!; wait $!`;
    for (
      const [name, commands, why, state] of [
        [
          "Ctrl-C while it imports",
          interrupted("plants-restore", IS_IMPORTING),
          /^plants-restore: no store has changed, and the service is active$/m,
          "active",
        ],
        [
          "Ctrl-C, and the service was stopped",
          `systemctl stop plant-store; ${
            interrupted("plants-restore", IS_IMPORTING)
          }`,
          /^plants-restore: no store has changed, and the service is inactive$/m,
          "inactive",
        ],
        [
          "a start of the service while it imports",
          during("systemctl start plant-store"),
          /the service was started meanwhile: run it again$/m,
          "active",
        ],
      ] as const
    ) {
      await t.step(name, async () => {
        const { stderr, stdout } = await machine.run(commands, IS_ACTIVE);
        assert.match(stderr, why);
        assert.match(stdout, new RegExp(`^${state}$`, "m"));
        await machine.succeed(
          `rm -rf ${PLACE}/new; systemctl start plant-store`,
        );
        assert.equal(await machine.succeed(STORES), before);
        await machine.ledger.acknowledges(10);
        await machine.assertHasAll();
      });
    }
    await t.step("a removal while it imports, once and again", async () => {
      const { stderr } = await machine.run(during("plants remove -- 3"));
      assert.match(stderr, /^plants: a restore is running: wait for it$/m);
      const restored = await machine.succeed(HANDBOOK.RESTORE);
      assert.doesNotMatch(restored, /backups|undone/);
      assert.match(restored, RESTORED);
      assert.equal((await machine.run("plants export 4")).status, 1);
      await machine.succeed("plants export 3");
      const old = await machine.succeed(`ls -d ${PLACE}/old-* | wc -l`);
      assert.equal(old, "2\n");
      await machine.succeed(HANDBOOK.DELETE_OLD_STORES);
      assert.equal(await machine.succeed(STORES), before);
      await machine.assertHasAll();
    });
  },
});

/** Stops the service, and overwrites a page of its store; returns what was on it. */
async function damage(machine: Machine, random: Random): Promise<string> {
  await machine.succeed(
    `systemctl stop plant-store; ${IN_STORE}; cp plants.db /media`,
  );
  const path = machine.media.file("plants.db");
  const leaves = leavesOf(path).filter(({ text }) => text.includes("Ficus"));
  const { page, text } = random.pick(leaves);
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
      machine.ledger.mayStore({ id: 7n, plant: { name: "Fern" } });
      await machine.succeed(`echo '{"id":7,"name":"Fern"}' | plants import -`);
      await machine.ledger.acknowledges(500);
      const { now: backup, acknowledged } = machine.ledger;
      await machine.succeed(HANDBOOK.BACK_UP, "plants remove -- 7");
      await machine.ledger.acknowledges(500);
      const lost = await damage(machine, random);
      // A backup that is cut lacks only its checksum.
      const cut = await machine.run(
        "cd /var/lib/plant-store-backups; cp plants-* /root/whole",
        "head -c -4 /root/whole > $(ls)",
        HANDBOOK.RESTORE,
        "cat /root/whole > $(ls)",
      );
      assert.match(cut.stderr, /unexpected end of file[^]* is inactive$/m);
      const restored = await machine.succeed(HANDBOOK.RESTORE);
      assert.match(restored, / cannot be read \(corrupt\): /);
      assert.match(
        restored,
        / may be undone: \/var\/log\/plants\.log lists them$/m,
      );
      await machine.succeed("plants export 7");
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
    "a store that is gone or unreadable is restored from the backup that is named, and an earlier state without what came later",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    // An old backup that is kept never counts as the last one.
    await machine.succeed(
      HANDBOOK.BACK_UP,
      "cd /var/lib/plant-store-backups; mv * before-upgrade.jsonl.gz",
    );
    for (
      const accident of [
        "rm -r $PWD",
        ": > plants.db",
        "echo plants > plants.db",
        "head -c 100K /dev/urandom | dd of=plants.db bs=4K seek=1 conv=notrunc",
      ]
    ) {
      const backup = machine.ledger.now;
      await machine.succeed(HANDBOOK.BACK_UP);
      await machine.ledger.acknowledges(10);
      await machine.run(`systemctl stop plant-store; ${IN_STORE}; ${accident}`);
      assert.equal((await machine.run(RESTART)).status, 1);
      const { stderr } = await machine.run(HANDBOOK.RESTORE);
      const [, command = ""] = /cannot be read.*: (plants-restore .*gz)$/m
        .exec(stderr) ?? [];
      assert.match(stderr, / no store has changed, and .* (inactive|failed)$/m);
      const restored = await machine.succeed(HANDBOOK.STOP, command);
      assert.match(restored, RESTORED);
      machine.ledger.forgetSince(backup);
      await machine.assertHasAll();
    }
    const { stderr } = await machine.run(
      HANDBOOK.STOP,
      "plants-restore ''; systemctl start plant-store",
    );
    assert.match(stderr, /^plants-restore: there is nothing in the file /m);
    await machine.assertHasAll();
    const backup = machine.ledger.now;
    await machine.succeed(
      `echo '{"id":6,"name":"Fern"}' | plants import -`,
      HANDBOOK.BACK_UP,
      "plants remove -- 6",
      `echo '{"id":5,"name":"Fern"}' | plants import -`,
    );
    await machine.ledger.acknowledges(100);
    const file = (await machine.succeed(
      "cd /var/lib/plant-store-backups; ls plants-[0-9]* | tail -n 1",
    )).trim();
    // A plant that was removed by mistake comes back alone.
    const [id] = machine.ledger.acknowledged.keys();
    const add = HANDBOOK.ADD_REMOVED.replace("/FILE", `/${file}`)
      .replace("42|43", `6|${id}`);
    assert.match(
      await machine.succeed(add, add, "plants remove -- 6"),
      /^1 created, 1 already stored, .*\n0 created, 2 [^]*^1 plant removed$/m,
    );
    const undo = HANDBOOK.UNDO_REPLACEMENT.replace("/FILE", `/${file}`)
      .replace("42", `${id}`);
    assert.match(
      await machine.succeed(
        `exec 2>&1; plants replace '{"id":${id},"name":"a mistake"}'`,
        undo,
        undo,
      ),
      /^1 plant replaced\n1 plant replaced\n.* already\n0 plants replaced\n$/m,
    );
    const restore = HANDBOOK.RESTORE_FILE.replace("/FILE", `/${file}`);
    // Before the service is stopped, after it, and after the restore.
    const refused =
      /^plants-restore: the service is running, .*, first run: systemctl stop plant-store\n$/;
    assert.match((await machine.run(restore)).stderr, refused);
    const restored = await machine.succeed(HANDBOOK.STOP, restore);
    assert.match((await machine.run(restore)).stderr, refused);
    assert.equal((await machine.run("plants export 5")).status, 1);
    await machine.succeed("plants export 6");
    // The plants that came later are brought in again from the old store.
    const [, old = ""] = /^the old store is in .*\/(.*)$/m.exec(restored) ?? [];
    const added = await machine.succeed(
      HANDBOOK.ADD_STORE.replace("old-DATE", old),
      "plants remove -- 5 6",
    );
    assert.match(added, /^\d{3,} created, [^]*^2 plants removed$/m);
    machine.ledger.forgetSince(backup);
    await machine.assertHasAll();
  },
});

Deno.test({
  name: "what another program has changed or taken is reported, and repaired",
  ignore: isMissing("MACHINE"),
  async fn(t) {
    await using machine = await Machine.deploy();
    const journal = () => machine.succeed(HANDBOOK.READ_JOURNAL);
    await t.step("the owner of the store and of the tokens", async () => {
      await machine.run(
        `chown -R root: ${PLACE}/current; chown root: /etc/plant-store.token`,
        RESTART,
      );
      assert.match(await journal(), /cannot read .*: Permission denied/);
      const unreadable = await machine.run(HANDBOOK.RESTORE);
      assert.match(
        unreadable.stderr,
        /\(denied\)[^]* cannot be read: correct /,
      );
      await machine.succeed(
        "chown -R plant-store: /var/lib/plant-store; chown root:plant-store /etc/plant-store.*; chmod 640 /etc/plant-store.*",
        RESTART,
      );
      await machine.assertHasAll();
    });
    await t.step("the settings and the port", async () => {
      const env = "/etc/plant-store.env";
      await machine.succeed(`cp -p ${env} /root; rm ${env}; ! ${RESTART}`);
      assert.match(await journal(), /\.service: .*environment files/);
      await machine.run(
        `sed s/PORT=8000/PORT=9090/ /root/plant-store.env > ${env}`,
        "systemctl start prometheus",
        `until curl -s 127.0.0.1:9090; do sleep 0.1; done; ${RESTART}`,
      );
      assert.match(await journal(), /cannot listen on 127.0.0.1 port 9090: /);
      await machine.succeed(`cp -p /root/plant-store.env ${env}`, RESTART);
      await machine.assertHasAll();
    });
    await t.step("a value that is not a plant", async () => {
      await machine.succeed(
        "systemctl stop plant-store; cp /var/lib/plant-store/current/plants.db /media",
        "chmod 666 /media/plants.db",
      );
      {
        using kv = await Deno.openKv(machine.media.file("plants.db"));
        await kv.set(["plants", 6n], new Uint8Array([1]));
      }
      const write = `cat /media/plants.db > ${PLACE}/current/plants.db`;
      await machine.succeed(
        `${write}; ${RESTART}; ! systemctl start plant-store-backup`,
      );
      assert.match(await journal(), /id 6: not a plant of this service/);
      await machine.succeed("plants remove -- 6", HANDBOOK.BACK_UP);
      await machine.assertHasAll();
    });
  },
});

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

Deno.test({
  name:
    "the service recovers from a full disk and from the lock of another process",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const fill = "! dd if=/dev/zero of=full";
    await machine.succeed(
      `systemctl stop plant-store; cd /var/lib; cp -a plant-store /root/store`,
      "mount -t tmpfs -o size=8m none plant-store; cp -aT /root/store plant-store",
      "systemctl start plant-store",
    );
    await causeReport(machine, fill, /the store fails \(disk\): /);
    await causeReport(machine, `rm full; ${RESTART}`, / listens on /);
    await machine.assertHasAll();
    await causeReport(
      machine,
      `systemctl stop plant-store
        perl -MFcntl -e '$lock = pack "ssx4qqix4", F_WRLCK, 0, 1 << 30, 512, 0;
          open F, "+<", shift; fcntl F, F_SETLK, $lock or die; sleep 600' plants.db >&- 2>&- &
        ${RESTART}`,
      /has locked it/,
    );
    const found = await machine.run(`fuser -v ${PLACE}/current/*`);
    assert.match(found.stderr, / perl$/m);
    await causeReport(machine, "pkill perl", / listens on /);
    await machine.assertHasAll();
  },
});
