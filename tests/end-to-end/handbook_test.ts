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
    // HANDBOOK.REPLACE runs here as soon as the program has the command `replace`.
    const removed = await machine.succeed(HANDBOOK.REMOVE);
    assert.match(removed, /^1 plant removed$/m);
    assert.equal((await machine.run(HANDBOOK.REMOVE)).status, 1);
    const changes = await machine.succeed(HANDBOOK.LIST_CHANGES);
    assert.match(changes, /: remove -- 1$[^]*: import -$[^]*: remove -- 42$/m);
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
      "touch other.gz; chown plant-store: *",
    );
    const { size } = machine.ledger.acknowledged;
    const listed = await machine.succeed(HANDBOOK.LIST_BACKUPS);
    assert.match(listed, /plants-\d{4}-\d\d-\d\d-\d{6}\.jsonl\.gz$/m);
    const names = await machine.succeed(inBackups, "ls");
    assert.equal(names.match(/^plants-/gm)?.length, 30);
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
    for (const disk of ["/disk1", "/disk2"]) {
      const { stdout } = await machine.run(`mkdir ${disk}`, moveTo(disk));
      assert.match(stdout, /^ready$/m);
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
    await machine.succeed(HANDBOOK.RESTORE, "ls -d /disk2/old-*");
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
      "systemctl daemon-reload",
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
        ["cp -aT", true],
        ["mv -T", true],
        // The one moment in which there is no store in its place.
        ["sed -i", false],
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
        await machine.succeed(`mv -T ${PLACE}/old-* ${PLACE}/current`, RESTART);
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

Deno.test({
  name:
    "files that are deleted, moved or replaced while the service runs are copied by a restore, with every plant",
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
      const lost =
        /the store fails: .*: do not restart the service before the files are put/;
      await causeReport(machine, accident, lost);
      // A restore of a backup by reflex changes nothing.
      const reflex = await machine.run(`plants-restore ${LAST}`);
      assert.match(reflex.stderr, /first run plants-restore without a file$/m);
      const restored = await machine.succeed(HANDBOOK.RESTORE);
      assert.match(restored, /^the service has the new store$/m, accident);
      assert.doesNotMatch(restored, /reading|adding/);
      await machine.assertHasAll();
      await machine.succeed(`rm -rf ${PLACE}/moved /root/moved /root/away*`);
    }
    // There is no room for copies: the service keeps its files open.
    await causeReport(machine, "rm -r $PWD", /the store fails: /);
    const full = await machine.run(
      "mount() { :; }; install() { echo No space left >&2; return 1; }; export -f install",
      HANDBOOK.RESTORE,
      "systemctl is-active plant-store; ls /var/lib/plant-store",
    );
    assert.match(full.stdout, /^active$/m);
    assert.doesNotMatch(full.stdout, /found/);
    await machine.succeed(HANDBOOK.RESTORE);
    await machine.assertHasAll();
    // Something was mounted above the store.
    const covered = await machine.run(
      `mkdir /disk; mount --bind /disk ${PLACE}`,
      HANDBOOK.RESTORE,
      `umount ${PLACE}`,
    );
    assert.match(covered.stderr, /something is mounted above /);
    await machine.succeed(RESTART);
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
