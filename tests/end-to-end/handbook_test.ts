/** The blocks of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { destroyPage, leavesOf } from "../support/accidents.ts";
import { HANDBOOK } from "../support/handbook.ts";
import {
  DEPLOY,
  IN_VERSION,
  interrupted,
  Machine,
  MAIN_PID,
  mount,
} from "../support/machine.ts";
import { isMissing } from "../support/needs.ts";
import { TOKEN } from "../support/program.ts";
import { withSeed } from "../support/random.ts";

const PLACE = "/var/lib/plant-store";

const IN_STORE = `cd ${PLACE}/current`;

const RESTART = "systemctl restart plant-store";

/** The files of the store and of the older ones, without what a running service adds. */
const STORES = `find ${PLACE} -name '*.db' | sort`;

/** The last backup. */
const LAST = '"$(ls -d /var/lib/plant-store-backups/* | tail -n 1)"';

Deno.test({
  name:
    "a deployment protects the files and changes nothing the second time, and systemd restarts a killed service",
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
    // The settings of a version before KV_CREATE.
    const upgraded = await machine.succeed(
      "sed -i /^KV_CREATE/d /etc/plant-store.env",
      IN_VERSION,
      HANDBOOK.INSTALL,
      "echo KV_CREATE=no >> /etc/plant-store.env",
    );
    assert.match(upgraded, /^add the line KV_CREATE=no to [^]*^installed$/m);
    // A minimal Debian has no openssl. The second run finds no empty token.
    const minimal = await machine.run(
      IN_VERSION,
      "mv /etc/plant-store.token /usr/bin/openssl /media",
      HANDBOOK.INSTALL,
      HANDBOOK.INSTALL,
      "ls /etc/plant-store.*; mv /media/openssl /usr/bin",
      "mv /media/plant-store.token /etc",
    );
    assert.match(minimal.stderr, /^(.*openssl: command not found\n){2}$/);
    assert.equal(
      minimal.stdout.match(/^\/etc\/.*$/gm)?.join(),
      "/etc/plant-store.env",
    );
    const tampered = await machine.run(
      "echo >> plant-store-x86*",
      HANDBOOK.GET,
      HANDBOOK.INSTALL,
    );
    assert.match(tampered.stderr, /checksum did NOT match/);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "the first plant is created, corrected and removed, which the journal lists",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    machine.ledger.mayStore({ id: 1n, plant: { name: "Monstera" } });
    const created = await machine.succeed(HANDBOOK.CREATE_PLANT);
    assert.match(created, /^HTTP\/1.1 200 OK\r$[^]*{"name":"Monstera"}/m);
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
    const changes = await machine.succeed(HANDBOOK.LIST_CHANGES);
    assert.match(
      changes,
      /: remove -- 1$[^]*: import -$[^]*: replace {"id": 42, .*}$[^]*: remove -- 42$/m,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a command has the settings of the service only, passes its exit status on, and ends with Ctrl-C",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const checked = await machine.succeed(
      // In a directory that is gone, and with the variables of another service.
      "mkdir gone; cd gone; rmdir ../gone",
      "ACCESS_TOKEN=x PORT=y KV_PATH=/none plants check",
    );
    assert.match(checked, /\/var\/lib\/plant-store\/current\/plants\.db/);
    const unknown = await machine.run("plants remove -- -7");
    assert.equal(unknown.status, 1);
    assert.match(unknown.stderr, /^id -7: no such plant$/m);
    const piped = await machine.run("plants export | head -n 1");
    assert.match(piped.stdout, /^{"id":.*}\n$/);
    const missing = await machine.run(
      "mv /etc/plant-store.env moved; plants export; mv moved /etc/plant-store.env",
      "setpriv --reuid=65534 --clear-groups plants export",
    );
    assert.match(
      missing.stderr,
      /^(plants: cannot read .*: run it as root, .*\n){2}$/,
    );
    const waits = await machine.run("flock /run/plants.lock plants export");
    assert.equal(waits.status, 1);
    assert.match(waits.stderr, /^plants: a restore is running: wait for it$/m);
    const many =
      `seq 1000000 | sed 's/.*/{"id":&,"name":"Ficus"}/' > /tmp/many`;
    const file = `${PLACE}/many.db`;
    const start = `plants import --kv-create yes - --kv ${file} < /tmp/many`;
    await machine.succeed(
      many,
      // The shell goes on after Ctrl-C, as the one of a terminal does.
      interrupted(`trap : INT; ${start}`, `[ -s ${file}-wal ]`),
      "! pgrep -u plant-store -f many.db",
    );
    const count = `plants export --kv ${file} | wc -l`;
    assert.ok(Number(await machine.succeed(count)) < 1_000_000);
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
    const pid = await machine.succeed(MAIN_PID);
    for (
      const [setting, why] of [
        ["KV_PATH=/var/lib/plant-store/plants.db", /: no such file: /],
        [`KV_PATH=${PLACE}/current/plants.db # the store`, /: no such file: /],
        ["PORT=8001 # the port", /expected .*PORT|PORT.*expected/],
        ['PORT="8001"', /expected .*PORT|PORT.*expected/],
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
    // systemd ignores a line with `export`, and so does `plants check`.
    const ignored = await machine.succeed(
      "cp /etc/plant-store.env before; echo 'export PORT=9000' >> /etc/plant-store.env",
      HANDBOOK.APPLY_SETTINGS,
    );
    assert.match(ignored, /8000[^]*^ready$/m);
    assert.notEqual(await machine.succeed(MAIN_PID), pid);
    const { length } = machine.journal;
    const wrong = "sed -i s/plants.db/plant.db/ /etc/plant-store.env";
    await machine.succeed(`${wrong}; ! ${RESTART}`);
    await machine.reports(/plant\.db: no such file: /, length);
    const { stderr } = await machine.run(HANDBOOK.RESTORE);
    assert.match(stderr, /^plants-restore: expected KV_PATH=.* in /);
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
    for (const [name, requests] of [[first, "\\d{2,}"], [second, "\\d"]]) {
      assert.match(
        counted,
        new RegExp(
          `^plant_store_token_requests_total{.*${name}.*} ${requests}$`,
          "m",
        ),
      );
    }
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
    "an upgrade installs another program and can go back, and one that cannot start leaves the service running",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
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
    const pid = await machine.succeed(MAIN_PID);
    const broken = await machine.run(
      `${version}; echo exit 1 > plant-store`,
      HANDBOOK.UPGRADE,
    );
    assert.equal(broken.status, 1);
    const setting = `echo PORT=x >> /etc/plant-store.env; ${IN_VERSION}`;
    const invalid = await machine.run(setting, HANDBOOK.UPGRADE);
    assert.equal(invalid.status, 2);
    assert.equal(await machine.succeed(MAIN_PID), pid);
    await machine.succeed("sed -i '$d' /etc/plant-store.env");
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
      "touch other.gz plants-before-upgrade.jsonl.gz; chown plant-store: *",
    );
    const { size } = machine.ledger.acknowledged;
    const listed = await machine.succeed(HANDBOOK.LIST_BACKUPS);
    assert.match(listed, /plants-\d{4}-\d\d-\d\d-\d{6}\.jsonl\.gz$/m);
    const names = await machine.succeed(inBackups, "ls");
    assert.equal(names.match(/^plants-\d/gm)?.length, 30);
    assert.match(names, /^plants-before-upgrade\.jsonl\.gz$/m);
    // In another zone, the newest backup still has the last name.
    await machine.succeed(
      "ln -sf /usr/share/zoneinfo/Pacific/Kiritimati /etc/localtime; sleep 1",
      HANDBOOK.BACK_UP,
      `ln -sf /usr/share/zoneinfo/Etc/GMT+12 /etc/localtime; sleep 1`,
      HANDBOOK.BACK_UP,
      `${inBackups}; [ "$(ls -t | head -n 1)" = "$(ls plants-[0-9]* | tail -n 1)" ]`,
    );
    assert.match(names, /^other\.gz\nplants-2020-01-01-000012/);
    const tried = await machine.succeed(HANDBOOK.COUNT_PLANTS);
    assert.ok(Number(tried) >= size);

    await machine.succeed(
      "mkdir /full; mount -t tmpfs -o size=8k,mode=777 none /full",
      `${inBackups}; mv plants-* other.gz /root; cp -p /root/plants-2020* /full`,
      "mount --bind /full $PWD; touch /full/plants-{40..99}.jsonl.gz",
      "head -c 1M /dev/zero > /full/other.gz; ls > /root/before",
      `! systemctl start plant-store-backup`,
      "systemctl is-failed plant-store-backup && ls | cmp - /root/before",
    );
    assert.match(
      await machine.succeed(HANDBOOK.READ_JOURNAL),
      /No space left on device/,
    );
    await machine.assertHasAll();
  },
});

/** Moves the store to a directory as if it were a disk, by the block of the page. */
function moveTo(directory: string): string {
  return HANDBOOK.MOVE_STORE
    .replace("UUID=WRITE-IT-HERE", directory)
    .replace("mount $disk", "mount --bind $disk")
    .replace("auto nofail", "none bind,nofail");
}

Deno.test({
  name:
    "the store moves to another disk and to a third, also if the block is pasted twice, and a missing disk is refused",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const unedited = await machine.run(HANDBOOK.MOVE_STORE);
    assert.match(unedited.stdout, /^ready$/m);
    const gzip = "/usr/local/bin/gzip";
    await machine.succeed(
      `printf '#!/bin/sh\\nsleep 600\\n' > ${gzip}; chmod 755 ${gzip}`,
    );
    const units = "systemctl is-active plant-store-backup{,.timer}";
    for (const disk of ["/disk1", "/disk2"]) {
      const { stdout, stderr } = await machine.run(
        `mkdir ${disk}; systemctl start --no-block plant-store-backup`,
        'until [ "$(systemctl is-active plant-store-backup)" = activating ]; do sleep 0.1; done',
        `flock() { ${units}; command flock "$@"; }`,
        moveTo(disk),
        units,
      );
      // No backup has the store open while it is copied.
      const states = /^(inactive|failed)\ninactive\nready\n\S+\nactive$/m;
      assert.match(stdout, states, stderr);
      await machine.ledger.acknowledges(100);
      const again = await machine.run(moveTo(disk));
      assert.match(again.stderr, /\/mnt\/current.*: File exists$/m);
      assert.match(again.stdout, /^ready$/m);
      const mounted = await machine.succeed(
        `findmnt -no SOURCE ${PLACE}; grep -c ${PLACE} /etc/fstab; ! mountpoint -q /mnt`,
        `stat -c '%a %U:%G' ${PLACE} ${PLACE}/current; ls ${disk}`,
      );
      assert.match(
        mounted,
        new RegExp(
          `${disk}\\]\n1\n(700 plant-store:plant-store\n){2}current\n`,
        ),
      );
      await machine.assertHasAll();
    }
    const deleted = await machine.succeed(HANDBOOK.DELETE_MOVED_STORE);
    assert.match(deleted, /^removed '\/mnt\/.*\/plants\.db'$/m);
    // A restore makes the new store on the same disk.
    await machine.succeed(`rm ${gzip}`, HANDBOOK.RESTORE, "ls -d /disk2/old-*");
    await machine.assertHasAll();
    // The disk is gone.
    const lost = await machine.succeed(
      `systemctl stop plant-store; umount ${PLACE}`,
      `sed -i 's:^/disk2 .*:none ${PLACE} tmpfs size=x,nofail:' /etc/fstab`,
      "systemctl daemon-reload",
      `! ${RESTART}`,
      HANDBOOK.READ_JOURNAL,
    );
    assert.match(lost, /Dependency failed for /);
    const reflex = await machine.run(HANDBOOK.RESTORE);
    assert.match(reflex.stderr, /^plants-restore: mount .* first, /);
    await machine.succeed(
      `sed -i 's:^none ${PLACE} .*:/disk2 ${PLACE} none bind,nofail:' /etc/fstab`,
      `systemctl daemon-reload; mount ${PLACE}`,
      RESTART,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a move to another disk that stops at any step starts the old store or the new one, or is refused",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    for (
      const [before, isStarted] of [
        ["flock", true],
        ["mv -T", true],
        // The one moment in which there is no store in its place.
        ["mv /etc/fstab.new", false],
        ["umount /mnt", true],
      ] as const
    ) {
      // The power goes off before a command.
      const [name] = before.split(" ");
      const cut =
        `${name}() { [[ "${name} $*" != "${before}"* ]] || kill -KILL $$
        command ${name} "$@"; }`;
      const { status } = await machine.run(
        `rm -rf /disk; mkdir /disk; ${cut}`,
        moveTo("/disk"),
      );
      assert.equal(status, 137, before);
      // A machine that starts knows /etc/fstab, and mounts nothing at /mnt.
      const { stdout } = await machine.run(
        "umount -q /mnt; systemctl daemon-reload",
        `${RESTART} && echo ready`,
      );
      assert.equal(stdout, isStarted ? "ready\n" : "", before);
      if (!isStarted) {
        await machine.succeed(
          `mv -T ${PLACE}/interrupted-* ${PLACE}/current`,
          RESTART,
        );
      }
      await machine.ledger.acknowledges(10);
      await machine.assertHasAll();
    }
    await machine.succeed(`findmnt ${PLACE}`);
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

/** The journal says where the plants of a lost store are. */
const SAVED = /^saved \d+ plants of \S+ in (\S+): /m;

Deno.test({
  name:
    "files that are deleted, moved or replaced while the service runs are saved by it, and restored with every plant",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed(HANDBOOK.BACK_UP);
    for (
      const accident of [
        "rm plants.db",
        "rm *",
        "rm plants.db-wal",
        "mv plants.db old; rm old",
        "mv plants.db /root/away",
        "mv plants.db-wal /root/away-wal",
        "cp -p plants.db copy; mv copy plants.db",
        // A log that was deleted beside a copy.
        "cp -p plants.db copy; mv plants.db away; mv copy plants.db; rm plants.db-wal",
        `mv ${PLACE}/current ${PLACE}/moved`,
        `mv ${PLACE}/current /root/moved`,
        `rm -r ${PLACE}`,
      ]
    ) {
      await machine.ledger.acknowledges(100);
      const { length } = machine.journal;
      await causeReport(
        machine,
        accident,
        /the store fails: .*: do not stop the service before it has saved /,
      );
      if (accident === `rm -r ${PLACE}`) {
        await machine.reports(
          /^cannot save the plants of .*Read-only/m,
          length,
        );
        // By reflex, the service is not stopped before it has saved them.
        for (const reflex of ["plants-restore", `plants-restore ${LAST}`]) {
          const { stderr } = await machine.run(reflex);
          assert.match(
            stderr,
            /still has to save .*: do not stop it, and repeat /,
          );
        }
        await machine.succeed(HANDBOOK.MAKE_PLACE);
      }
      await machine.reports(SAVED, length);
      const [, file = ""] = SAVED.exec(machine.journal.slice(length)) ?? [];
      // Neither a backup nor what is in the place is taken by reflex.
      for (const reflex of [HANDBOOK.RESTORE, `plants-restore ${LAST}`]) {
        const { stderr } = await machine.run(reflex);
        assert.ok(
          stderr.includes(` are in ${file}: run plants-restore ${file},`),
        );
      }
      const restored = await machine.succeed(
        HANDBOOK.RESTORE_LOST.replace("FILE", file),
      );
      assert.match(restored, /^the service has the new store$/m, accident);
      await machine.assertHasAll();
      // The next restore takes the new store.
      const next = await machine.succeed(
        `rm -rf ${PLACE}/moved /root/moved /root/away*`,
        HANDBOOK.RESTORE,
        `! ls ${PLACE}/*.saved-* ${PLACE}/current/*.saved-*`,
      );
      assert.match(next, /^reading \/var\/lib\/plant-store\/current,/m);
      await machine.assertHasAll();
    }
  },
});

Deno.test({
  name:
    "a store that is lost just before a restore, or stopped after it, is saved by the stop, and no other store is started",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    // The service does not see it before it is stopped.
    const copy =
      "systemctl kill -s STOP plant-store; cp -p plants.db copy; mv copy plants.db";
    for (
      const reflex of [
        `${copy}; ${HANDBOOK.RESTORE}`,
        `${copy}; systemctl stop plant-store; ${HANDBOOK.RESTORE}`,
      ]
    ) {
      await machine.ledger.acknowledges(100);
      const { stderr } = await machine.run(IN_STORE, reflex);
      const [, file = ""] = / are in (\S+): run plants-restore /.exec(stderr) ??
        [];
      const stopped = await machine.run(
        "systemctl is-active plant-store",
        interrupted(`plants-restore ${file}`, `[ -e ${PLACE}/new ]`),
        "systemctl is-active plant-store",
      );
      assert.equal(stopped.stdout.match(/^inactive$/gm)?.length, 2, stderr);
      assert.match(
        stopped.stderr,
        /^plants-restore: nothing has changed, but the service is stopped$/m,
      );
      await machine.succeed(HANDBOOK.RESTORE_LOST.replace("FILE", file));
      await machine.assertHasAll();
    }
    // The files were put back, and the service goes on with them.
    const { length } = machine.journal;
    await machine.run(IN_STORE, "mv plants.db away");
    await machine.reports(SAVED, length);
    await machine.succeed(
      `systemctl kill -s KILL plant-store; ${IN_STORE}; mv away plants.db`,
      "sleep 7; systemctl is-active plant-store",
    );
    await machine.ledger.acknowledges(100);
    const refused = await machine.run(HANDBOOK.RESTORE);
    assert.match(
      refused.stderr,
      / or delete this file if the lost store was put /,
    );
    const [, file = ""] = / are in (\S+): /.exec(refused.stderr) ?? [];
    const running = await machine.run(`plants-restore ${file}`);
    assert.match(running.stderr, /^plants-restore: the service is running, /m);
    await machine.succeed(`rm ${file}`, HANDBOOK.RESTORE);
    await machine.assertHasAll();
    // Something was mounted above the store.
    const covered = await machine.run(
      `mkdir /disk; mount --bind /disk ${PLACE}`,
      HANDBOOK.RESTORE,
      `umount ${PLACE}; ${RESTART}`,
    );
    assert.match(
      covered.stderr,
      / still has to save its plants: do not stop it, /,
    );
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
    const isReading = `[ -e ${PLACE}/new/plants ]`;
    const isImporting = `[ -s ${PLACE}/new/plants.db-wal ]`;
    const before = await machine.succeed(STORES);
    for (
      const [name, commands, why] of [
        [
          "Ctrl-C while it reads",
          interrupted("plants-restore", isReading),
          /^plants-restore: nothing has changed$/m,
        ],
        [
          "Ctrl-C while it imports",
          interrupted("plants-restore", isImporting),
          /^plants-restore: nothing has changed$/m,
        ],
        [
          "a removal while it imports",
          `plants-restore & until ${isImporting}; do sleep 0.02; done
          kill -STOP $!; plants remove 3; kill -CONT $!; wait $!`,
          /^plants: a restore is running: wait for it$/m,
        ],
        [
          "a start of the service while it imports",
          `plants-restore & until ${isImporting}; do sleep 0.02; done
          kill -STOP $!; systemctl start plant-store; kill -CONT $!; wait $!`,
          /the service was started meanwhile: run it again$/m,
        ],
      ] as const
    ) {
      await t.step(name, async () => {
        const { stderr } = await machine.run(commands);
        assert.match(stderr, why);
        if (!name.startsWith("a removal")) {
          assert.equal(await machine.succeed(STORES), before);
        } else await machine.succeed(HANDBOOK.DELETE_OLD_STORES);
        await machine.ledger.acknowledges(10);
        await machine.assertHasAll();
      });
    }
    await t.step("a kill while it imports", async () => {
      await machine.run(
        `plants-restore & until ${isImporting}; do sleep 0.02; done
        kill -KILL $!; wait $!; systemctl start plant-store`,
      );
      await machine.ledger.acknowledges(10);
      await machine.assertHasAll();
    });
    await t.step("by reflex, once and again", async () => {
      for (const count of [1, 2]) {
        const restored = await machine.succeed(HANDBOOK.RESTORE);
        assert.doesNotMatch(restored, /backups|are back/);
        assert.match(restored, /^the service has the new store$/m);
        assert.equal((await machine.run("plants export 4")).status, 1);
        const old = await machine.succeed(`ls -d ${PLACE}/old-* | wc -l`);
        assert.equal(old, `${count}\n`);
        await machine.assertHasAll();
      }
    });
    await t.step("without a backup", async () => {
      await machine.succeed(
        "rm /var/lib/plant-store-backups/*",
        HANDBOOK.RESTORE,
        HANDBOOK.DELETE_OLD_STORES,
      );
      assert.equal(await machine.succeed(STORES), before);
      await machine.assertHasAll();
    });
  },
});

/** Stops the service, and overwrites a page of its store; returns what was on it. */
async function damage(
  machine: Machine,
  choose: (leaves: ReturnType<typeof leavesOf>) => number,
): Promise<string> {
  await machine.succeed(
    `systemctl stop plant-store; ${IN_STORE}; cp plants.db /media`,
  );
  const path = machine.media.file("plants.db");
  const leaves = leavesOf(path);
  const page = choose(leaves);
  destroyPage(path, page);
  await machine.succeed(`${IN_STORE}; cat /media/plants.db > plants.db`);
  return leaves.find((leaf) => leaf.page === page)?.text ?? "";
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
      const lost = await damage(
        machine,
        (leaves) =>
          random.pick(leaves.filter(({ text }) => text.includes("Ficus"))).page,
      );
      const restored = await machine.succeed(HANDBOOK.RESTORE);
      assert.match(restored, / cannot be read: the database is corrupt/);
      assert.match(restored, /the service has the new store/);
      // The command that is printed lists what is back.
      const [, list = ""] = /^ +(journalctl .*)$/m.exec(restored) ?? [];
      assert.match(await machine.succeed(list), /: remove -- 7$/m);
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
    // Without a backup, and with one that is cut: only its checksum is missing.
    const first = (leaves: ReturnType<typeof leavesOf>) =>
      leaves.find(({ text }) => text.includes("Ficus"))?.page ?? 0;
    await damage(machine, first);
    const cut = await machine.run(
      "cd /var/lib/plant-store-backups; head -c -4 plants-* > /root/cut; cp /root/cut plants-*",
      HANDBOOK.RESTORE,
    );
    assert.match(cut.stderr, /unexpected end of file/);
    assert.match(cut.stderr, /^plants-restore: nothing has changed$/m);
    const alone = await machine.succeed(
      "rm /var/lib/plant-store-backups/*",
      HANDBOOK.RESTORE,
    );
    assert.match(alone, /^the service has the new store$/m);
    await machine.succeed("plants export > /dev/null");
  },
});

Deno.test({
  name:
    "a store that is gone or unreadable is restored from the backup that is named, and only then",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    // An old backup that is kept never counts as the last one.
    await machine.succeed(
      HANDBOOK.BACK_UP,
      "cd /var/lib/plant-store-backups; mv * plants-before-upgrade.jsonl.gz",
    );
    for (
      const accident of [
        "rm -r $PWD",
        ": > plants.db",
        "dd if=/dev/zero of=plants.db bs=4K count=1 conv=notrunc",
        "echo plants > plants.db",
        "head -c 100K /dev/urandom | dd of=plants.db bs=4K seek=1 conv=notrunc",
      ]
    ) {
      const backup = machine.ledger.now;
      await machine.succeed(HANDBOOK.BACK_UP);
      await machine.ledger.acknowledges(10);
      await machine.run(`systemctl stop plant-store; ${IN_STORE}; ${accident}`);
      assert.equal((await machine.run(RESTART)).status, 1);
      // By reflex, once and again.
      let command = "";
      for (const _ of [1, 2]) {
        const { stderr } = await machine.run(HANDBOOK.RESTORE);
        [, command = ""] = /cannot be read.*: (plants-restore .*gz)$/m
          .exec(stderr) ?? [];
        assert.match(command, /^plants-restore \S+$/, `${accident}\n${stderr}`);
        assert.match(stderr, /^plants-restore: nothing has changed$/m);
      }
      const restored = await machine.succeed(HANDBOOK.STOP, command);
      assert.match(restored, /^the service has the new store$/m);
      machine.ledger.forgetSince(backup);
      await machine.assertHasAll();
    }
    for (const file of ["/dev/null", "''", "/root/none"]) {
      const { stderr } = await machine.run(
        HANDBOOK.STOP,
        `plants-restore ${file}; systemctl start plant-store`,
      );
      assert.match(stderr, /^plants-restore: there is nothing in the file /m);
    }
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
    const file = (await machine.succeed("ls /var/lib/plant-store-backups"))
      .trim();
    // A plant that was removed by mistake comes back alone.
    const [id] = machine.ledger.acknowledged.keys();
    const add = HANDBOOK.ADD_REMOVED.replace("/FILE", `/${file}`)
      .replace("42|43", `6|${id}`);
    assert.match(
      await machine.succeed(add, "plants export 6", add, "plants remove 6"),
      /^{"id":6,"name":"Fern"}\n1 created, 1 already stored, .*\n0 created, 2 /m,
    );
    const restore = HANDBOOK.RESTORE_FILE.replace("/FILE", `/${file}`);
    // Before the service is stopped, after it, and after the restore.
    const refused =
      /^plants-restore: the service is running, .*, first run: systemctl stop plant-store\n$/;
    assert.match((await machine.run(restore)).stderr, refused);
    const restored = await machine.succeed(HANDBOOK.STOP, restore);
    assert.match((await machine.run(restore)).stderr, refused);
    assert.match(restored, /^plants that were acknowledged after /m);
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
  name:
    "after a power cut between the last steps of a restore, a start is refused, and the old store goes back",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed(HANDBOOK.BACK_UP);
    await machine.ledger.acknowledges(10);
    const { status } = await machine.run(
      'mv() { [ "$3" != /var/lib/plant-store/current ] || kill -KILL $$',
      'command mv "$@"; }; export -f mv',
      HANDBOOK.RESTORE,
    );
    assert.equal(status, 137);
    assert.equal((await machine.run(RESTART)).status, 1);
    const { stderr } = await machine.run(HANDBOOK.RESTORE);
    assert.match(
      stderr,
      /there are stores in \/var\/lib\/plant-store\/interrupted-[\d-]+ ;/,
    );
    await machine.succeed(
      `mv -T ${PLACE}/interrupted-* ${PLACE}/current`,
      RESTART,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name: "the plants of a failing disk are saved, and restored on another one",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed(
      HANDBOOK.BACK_UP,
      `mkdir /disk1 /disk2; ${moveTo("/disk1")}`,
    );
    await machine.ledger.acknowledges(100);
    // Without the other disk, nothing is saved to that of the system.
    const unmounted = await machine.run(HANDBOOK.SAVE);
    assert.match(unmounted.stdout, /^\/srv is not a mountpoint$/m);
    // The newest plants are still in the log.
    await machine.succeed(
      mount("/srv"),
      "systemctl kill -s KILL plant-store; systemctl stop plant-store",
      `mount -o remount,ro,bind ${PLACE}; [ -s ${PLACE}/current/plants.db-wal ]`,
      `! ${RESTART}`,
    );
    assert.match(await machine.succeed(HANDBOOK.READ_JOURNAL), /Read-only/);
    const { stderr } = await machine.run(HANDBOOK.RESTORE);
    assert.match(stderr, /^plants-restore: nothing has changed$/m);
    const restored = await machine.succeed(
      HANDBOOK.SAVE,
      `umount ${PLACE}; sed -i s:^/disk1:/disk2: /etc/fstab`,
      `systemctl daemon-reload; mount ${PLACE}`,
      HANDBOOK.RESTORE_SAVED,
      `findmnt -no SOURCE ${PLACE}`,
    );
    assert.match(restored, /^the service has the new store\n.*\/disk2\]$/m);
    await machine.assertHasAll();
    // Pasted twice.
    const again = await machine.run(HANDBOOK.SAVE);
    assert.match(again.stderr, /File exists/);
    assert.match(
      (await machine.run(HANDBOOK.RESTORE_SAVED)).stderr,
      /^plants-restore: the service is running, /,
    );
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
        /Permission denied[^]* cannot be read: .* an owner /,
      );
      await machine.succeed(
        "chown -R plant-store: /var/lib/plant-store; chown root:plant-store /etc/plant-store.*; chmod 640 /etc/plant-store.*",
        RESTART,
      );
      await machine.assertHasAll();
    });
    await t.step("the settings", async () => {
      const env = "/etc/plant-store.env";
      await machine.succeed(`cp -p ${env} /root; rm ${env}; ! ${RESTART}`);
      assert.match(
        await journal(),
        /plant-store\.service: .*environment files/,
      );
      const reflex = await machine.run(HANDBOOK.RESTORE);
      assert.match(reflex.stderr, /^[^]*expected KV_PATH=.* in /);
      await machine.succeed(`cp -p /root/plant-store.env ${env}`, RESTART);
      await machine.assertHasAll();
    });
    await t.step("the port", async () => {
      await machine.run(
        "sed -i s/PORT=8000/PORT=9090/ /etc/plant-store.env; systemctl start prometheus",
        `until curl -s 127.0.0.1:9090; do sleep 0.1; done; ${RESTART}`,
      );
      assert.match(await journal(), /cannot listen on 127.0.0.1 port 9090: /);
      // A restore by reflex is complete, and says that the start is another problem.
      const restored = await machine.run(HANDBOOK.RESTORE);
      assert.match(
        restored.stderr,
        /does not start: read the journal, and do not /,
      );
      assert.doesNotMatch(restored.stderr, /nothing has changed/);
      await machine.succeed(
        "sed -i s/PORT=9090/PORT=8000/ /etc/plant-store.env",
        RESTART,
      );
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
      // It is no damage: a restore leaves it out, and adds no backup.
      await machine.succeed(
        "systemctl stop plant-store; cp /var/lib/plant-store/current/plants.db /media",
      );
      {
        using kv = await Deno.openKv(machine.media.file("plants.db"));
        await kv.set(["plants", 6n], new Uint8Array([1]));
      }
      const restored = await machine.succeed(write, HANDBOOK.RESTORE);
      assert.match(restored, /^id 6: not a plant of this service$/m);
      assert.doesNotMatch(restored, /backups/);
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
      `systemctl stop plant-store; cd /var/lib; cp -a plant-store /root/store`,
      "mount -t tmpfs -o size=8m none plant-store; cp -aT /root/store plant-store",
      "systemctl start plant-store",
    );
    await t.step("creates fail until there is room", async () => {
      await causeReport(machine, fill, /the store fails: .*disk is full/);
      const noRoom = await machine.run(HANDBOOK.RESTORE);
      assert.match(noRoom.stderr, /^plants-restore: nothing has changed$/m);
      await causeReport(machine, `rm full; ${RESTART}`, / listens on /);
      await machine.assertHasAll();
    });
    await t.step("a start waits for the lock of another process", async () => {
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
    });
  },
});
