/** The blocks of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { sendCreate } from "../support/ledger.ts";
import { ACCIDENTS, HANDBOOK, olderStores } from "../support/handbook.ts";
import {
  DEPLOY,
  IN_VERSION,
  interrupted,
  IS_COPYING,
  LET_CP_WAIT,
  Machine,
  MAIN_PID,
  mount,
} from "../support/machine.ts";
import { isMissing } from "../support/needs.ts";
import { TOKEN } from "../support/program.ts";

Deno.test({
  name:
    "a deployment protects the files and changes nothing the second time, and systemd restarts a killed service",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const look =
      `cd /var/lib/plant-store; stat -c '%a %U:%G' /etc/plant-store.* . current current/plants.db
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
    const problems = await machine.succeed(ACCIDENTS.READ_JOURNAL);
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
    "the first plant is created, and the journal has its removal, after which no copy is left",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    machine.ledger.mayStore({ id: 1n, plant: { name: "Monstera" } });
    const created = await machine.succeed(HANDBOOK.CREATE_PLANT);
    assert.match(created, /^HTTP\/1.1 200 OK\r$[^]*{"name":"Monstera"}/m);
    await machine.succeed(HANDBOOK.BACK_UP, "plants remove -- 1");
    const commands = await machine.succeed(HANDBOOK.LIST_REMOVALS);
    assert.match(commands, / - plants remove -- 1\.$/m);
    const restored = await machine.succeed(ACCIDENTS.RESTORE);
    const names = "ls /var/lib/plant-store-backups";
    const before = await machine.succeed(HANDBOOK.BACK_UP, names);
    const unedited = await machine.run(HANDBOOK.DELETE_OTHER_BACKUPS, names);
    assert.equal(before, `saved\n${unedited.stdout}`);
    const name = before.trimEnd().split("\n").at(-1) ?? "";
    const deletion = HANDBOOK.DELETE_OTHER_BACKUPS.replace("FILE", name);
    const left = await machine.succeed(
      // A clock that was wrong has left a file that seems to be the newest.
      "cd /var/lib/plant-store-backups; touch -d 2036-04-01 plants-2*",
      `touch ${name}`,
      // Pasted twice, once with the path.
      deletion + deletion.replace(name, `/var/lib/plant-store-backups/${name}`),
      `[ "$(${names})" = ${name} ]`,
      `rm -r ${olderStores(restored)}`,
      "zgrep -c Ficus /var/lib/plant-store-backups/*",
      "! zgrep Monstera /var/lib/plant-store-backups/*",
      "! grep -r Monstera /var/lib/plant-store",
    );
    assert.match(left, /^\.\/plants-[^]*^\d{3,}$/m);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a command has the settings of the service only, passes its exit status on, and ends with Ctrl-C",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed("ACCESS_TOKEN=x PORT=y plants check");
    const unknown = await machine.run("plants remove -- -7");
    assert.equal(unknown.status, 1);
    assert.match(unknown.stderr, /^id -7: no such plant$/m);
    const missing = await machine.run(
      "mv /etc/plant-store.env moved; plants export; mv moved /etc/plant-store.env",
      "cp /etc/passwd passwd; sed -i s/^plant-store:/other:/ /etc/passwd",
      "plants export; cp passwd /etc/passwd",
    );
    assert.match(
      missing.stderr,
      /^plants: cannot read .*\nplants: systemd cannot run the program: .*\n$/,
    );
    const ignored = await machine.run(
      "cp /etc/plant-store.env env; sed -i 's/^PORT/export PORT/' /etc/plant-store.env",
      "plants check; status=$?; cp env /etc/plant-store.env; exit $status",
    );
    assert.equal(ignored.status, 2);
    assert.match(ignored.stderr, /^plants: .*: export PORT=8000\n$/);
    // systemd-run returns 0 when it loses systemd.
    const lost = await machine.run(
      "mkfifo pipe; plants import - < pipe & command=$!; exec 3> pipe",
      "until systemctl is-active -q 'plants-*'; do :; done",
      "systemctl stop dbus.socket dbus.service; wait $command; status=$?",
      "exec 3>&-; systemctl start dbus.socket dbus.service; exit $status",
    );
    assert.equal(lost.status, 1);
    assert.match(lost.stderr, /^plants: the connection to systemd was lost, /m);
    const many =
      `seq 1000000 | sed 's/.*/{"id":&,"name":"Ficus"}/' > /tmp/many`;
    const start =
      "plants import --kv-create yes - --kv /var/lib/plant-store/many.db < /tmp/many";
    await machine.succeed(
      many,
      // The shell goes on after Ctrl-C, as the one of a terminal does.
      interrupted(
        `trap : INT; ${start}`,
        "[ -s /var/lib/plant-store/many.db-wal ]",
      ),
      "! systemctl is-active -q 'plants-*'",
    );
    const count = "plants export --kv /var/lib/plant-store/many.db | wc -l";
    assert.ok(Number(await machine.succeed(count)) < 1_000_000);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a wrong path of the store is refused before a restart and at a start, and creates no store",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const listed = await machine.succeed(
      HANDBOOK.BACK_UP,
      "systemctl stop plant-store; mv /var/lib/plant-store/current away",
      HANDBOOK.CREATE_STORE,
      "! ls /var/lib/plant-store/current",
      "mv away /var/lib/plant-store/current; systemctl start plant-store",
    );
    assert.match(listed, /-backups\/plants-[\d-]+\.jsonl\.gz$/m);
    const pid = await machine.succeed(MAIN_PID);
    const wrong = "sed -i s/plants.db/plant.db/ /etc/plant-store.env";
    const applied = await machine.run(wrong, HANDBOOK.APPLY_SETTINGS);
    assert.equal(applied.status, 2);
    assert.match(applied.stderr, /plant\.db: no such file: /);
    assert.equal(await machine.succeed(MAIN_PID), pid);
    const { length } = machine.journal;
    await machine.succeed("! systemctl restart plant-store");
    await machine.reports(/plant\.db: no such file: /, length);
    const errors = "journalctl -u plant-store -p err -o cat";
    assert.match(await machine.succeed(errors), /: no such file: /);
    assert.match(
      await machine.succeed(ACCIDENTS.FIND_STORE),
      /plant\.db$[^]* plants\.db$/m,
    );
    await machine.succeed("! ls /var/lib/plant-store/current/plant.db");
    // A start that is refused is not repeated.
    const state = "systemctl show -P SubState plant-store";
    assert.equal(await machine.succeed(state), "failed\n");
    const right = "sed -i s/plant.db/plants.db/ /etc/plant-store.env";
    await machine.succeed(right, HANDBOOK.APPLY_SETTINGS);
    for (
      const [setting, why] of [
        [
          "KV_PATH=/var/lib/plant-store/current/plants.db # the store",
          /: no such file: /,
        ],
        ["KV_PATH=/var/lib/plant-store/plants.db", /: no such file: /],
        ["PORT=8001 # the port", /expected .*PORT|PORT.*expected/],
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
    await machine.assertHasAll();
  },
});

Deno.test({
  name: "a move that cannot end changes nothing, and says where the store is",
  ignore: isMissing("MACHINE"),
  async fn(t) {
    await using machine = await Machine.deploy();
    await t.step("a wrong directory is refused", async () => {
      const unmounted = await machine.run(HANDBOOK.MOVE_STORE);
      assert.match(
        unmounted.stderr,
        /no disk is mounted at \/mnt; .*current$/m,
      );
      const hidden = await machine.run(
        "mkdir /disk; mount -t tmpfs none /disk",
        "plants-move /disk/plants",
      );
      assert.match(hidden.stderr, /fstab does not name \/disk; /);
      for (const name of ["", "/", "plants", "/mnt", "/mnt/the plants"]) {
        const { status, stderr } = await machine.run(`plants-move '${name}'`);
        assert.equal(status, 1);
        assert.match(stderr, /name a new directory on another disk|no disk is/);
      }
    });
    await t.step(
      "a disk is refused that is too small, or has the directory",
      async () => {
        const small = await machine.run(
          mount("/mnt", "40k"),
          HANDBOOK.MOVE_STORE,
        );
        assert.match(
          small.stderr,
          /nothing has moved: the store is in .*current$/m,
        );
        await machine.succeed(
          "umount /mnt; sed -i '$d' /etc/fstab",
          mount("/mnt"),
        );
        const there = await machine.run(
          "mkdir /mnt/plants",
          HANDBOOK.MOVE_STORE,
        );
        assert.match(
          there.stderr,
          /; the store is in \/var\/lib\/plant-store\/current/,
        );
        await machine.succeed("rmdir /mnt/plants");
      },
    );
    await t.step(
      "a move and a restore wait for other users of the store",
      async () => {
        // A command would write into the old store while it is copied.
        const running = await machine.run(
          "mkfifo pipe; plants import - < pipe & exec 8> pipe",
          "until systemctl is-active -q 'plants-*'; do sleep 0.02; done",
          HANDBOOK.MOVE_STORE,
          ACCIDENTS.RESTORE,
          "exec 8>&-; wait",
        );
        assert.equal(
          running.stderr.match(/or a command of plants runs/g)?.length,
          2,
        );
        const open = await machine.run(
          "systemd-run --quiet --unit=other -p StandardInput=file:/var/lib/plant-store/current/plants.db sleep 600",
          ACCIDENTS.RESTORE,
          "systemctl stop other",
        );
        assert.match(open.stderr, /another process has the store open, /);
        await machine.succeed("systemctl is-active plant-store");
      },
    );
    await t.step(
      "the service goes on with the old store after Ctrl-C",
      async () => {
        const { stderr } = await machine.run(
          LET_CP_WAIT,
          interrupted("plants-move /mnt/plants", IS_COPYING),
          "rm /usr/local/bin/cp",
        );
        assert.match(stderr, /nothing has moved: the store is in .*current$/m);
        await machine.succeed(
          "systemctl is-active plant-store; rmdir /mnt/* || true",
        );
        assert.equal(await machine.succeed("ls /mnt"), "");
      },
    );
    await t.step("a move that stops half-way says how to go on", async () => {
      // An error in the last steps, such as that of a full disk of the system.
      const directory = "/etc/systemd/system/plant-.service.d";
      const { stderr } = await machine.run(
        `touch ${directory}`,
        HANDBOOK.MOVE_STORE,
      );
      assert.match(
        stderr,
        /half-way: delete nothing, and run: systemctl start/,
      );
      await machine.succeed(
        `rm -r ${directory} /mnt/plants.*; systemctl start plant-store`,
      );
    });
    await machine.ledger.acknowledges(100);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "the store moves to another disk, to a third, and back, also if each command is pasted twice",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    for (
      const directory of [
        "/mnt/plants",
        "/disk/plants",
        "/var/lib/plant-store/current",
      ]
    ) {
      const disk = directory.slice(0, directory.lastIndexOf("/"));
      const command = HANDBOOK.MOVE_STORE.replace("/mnt/plants", directory);
      const { stdout: moved } = await machine.run(
        directory.startsWith("/var") ? "true" : mount(disk),
        command,
      );
      assert.ok(moved.endsWith(`\nmoved to ${directory}\n`), moved);
      await machine.ledger.acknowledges(100);
      const again = await machine.run(command);
      assert.match(again.stderr, /the store is in .* already$/m);
      // No directory but that of the store looks like one.
      await machine.succeed(
        "! ls -d /{mnt,disk}/plants /var/lib/plant-store/current 2>&- | grep -v " +
          `'^${directory}$'`,
        HANDBOOK.BACK_UP,
        `rm -r ${olderStores(moved)}`,
      );
      const restored = await machine.succeed(ACCIDENTS.RESTORE);
      assert.ok(restored.includes(`rm -r ${directory}.old-`));
      const files = await machine.succeed(HANDBOOK.LIST_STORES);
      assert.ok(files.includes(`\n${directory}.old-`));
      await machine.succeed(`rm -r ${directory}.old-*`);
      const left = await machine.succeed(HANDBOOK.LIST_STORES);
      assert.match(left, /^(\S+\/plants\.db(-wal|-shm)?\n)+$/);
      assert.ok(
        left.split("\n").every((it) =>
          it === "" || it.startsWith(`${directory}/`)
        ),
      );
      await machine.assertHasAll();
    }
    await machine.succeed("! ls /etc/systemd/system/plant-.service.d/*");
  },
});

Deno.test({
  name:
    "after a power cut at the end of a move, the machine starts with the new store",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const { status } = await machine.run(
      mount("/mnt"),
      // systemd has not read yet that the service may write to the new disk.
      `systemctl() { [ $1 != daemon-reload ] || kill -KILL $$
        command systemctl "$@"; }; export -f systemctl`,
      HANDBOOK.MOVE_STORE,
    );
    assert.equal(status, 137);
    // A machine that starts reads it by itself.
    await machine.succeed(
      "systemctl daemon-reload; systemctl start plant-store",
    );
    await machine.succeed("grep ^KV_PATH=/mnt/plants/ /etc/plant-store.env");
    await machine.ledger.acknowledges(100);
    await machine.assertHasAll();
  },
});

Deno.test({
  name: "a start without the disk of the store fails and creates no store",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const disk = "mkdir -p /disk; mount --bind /disk /mnt";
    await machine.succeed(
      "echo '/disk /mnt none bind 0 0' >> /etc/fstab",
      disk,
      HANDBOOK.MOVE_STORE,
      "sed -i '$d' /etc/fstab; systemctl daemon-reload",
    );
    // A running service has its store open on a disk that is no longer there.
    const open = await machine.run(
      HANDBOOK.BACK_UP,
      "umount -l /mnt",
      ACCIDENTS.RESTORE,
      ACCIDENTS.RESTORE,
    );
    assert.match(
      open.stderr,
      /^(plants-restore: nothing has changed: .* than \/mnt\/plants\/plants\.db, so do NOT stop it: .* unmount what was mounted above it\n){2}$/m,
    );
    await machine.succeed("! ls /mnt/plants", disk, HANDBOOK.APPLY_SETTINGS);
    const failed = await machine.succeed(
      "systemctl stop plant-store; umount /mnt",
      "! systemctl start plant-store && journalctl -u plant-store -n 9",
    );
    assert.match(failed, /plants\.db: no such file: /);
    // Restored by reflex, once and again.
    for (const _ of [1, 2]) {
      const reflex = await machine.run(HANDBOOK.BACK_UP, ACCIDENTS.RESTORE);
      assert.match(
        reflex.stderr,
        /nothing has changed: the store was moved to the disk of \/mnt, which is not mounted: /,
      );
    }
    // A disk that cannot be mounted.
    await machine.succeed(
      "echo 'none /mnt tmpfs size=x,nofail 0 0' >> /etc/fstab; systemctl daemon-reload",
      "! systemctl start plant-store",
    );
    const problems = await machine.succeed(
      ACCIDENTS.READ_JOURNAL,
      ACCIDENTS.FIND_DISK,
    );
    assert.match(problems, /Dependency failed for [^]*mnt\.mount/);
    // A new store would be hidden as soon as the disk is there.
    for (const restore of [ACCIDENTS.RESTORE, ACCIDENTS.RESTORE_BACKUP]) {
      const { stderr } = await machine.run(restore);
      assert.match(
        stderr,
        /^plants-restore: nothing has changed: .* it is not mounted: mount \/mnt - or, .*\n$/,
      );
    }
    await machine.succeed(
      "! ls /mnt/plants; sed -i '/tmpfs size=x/c /disk /mnt none bind 0 0' /etc/fstab",
      "systemctl daemon-reload; systemctl reset-failed",
      // It mounts the disk.
      "systemctl start plant-store",
    );
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
    machine.ledger.mayStore({ id: 1n, plant: { name: "Monstera" } });
    const created = await machine.succeed(HANDBOOK.CREATE_PLANT);
    assert.match(created, /^HTTP\/1.1 200 OK\r$/m);
    // An editor of Windows has saved the file.
    const windows = await machine.succeed(
      "cp -p /etc/plant-store.token /etc/unix; sed -i 's/$/\\r/' /etc/plant-store.token",
      HANDBOOK.LOAD_TOKENS,
      HANDBOOK.CREATE_PLANT,
      "cp -p /etc/unix /etc/plant-store.token",
    );
    assert.match(windows, /^HTTP\/1.1 200 OK\r$/m);
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
    await machine.succeed(
      "sed -i '3,$d' /etc/plant-store.token",
      HANDBOOK.LOAD_TOKENS,
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
      // The version has no new ones.
      HANDBOOK.SHOW_NEW_SETTINGS,
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
      await machine.succeed(ACCIDENTS.READ_JOURNAL),
      /No space left on device/,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a plant is corrected while the service runs, and nothing that is written in the editor loses it or the text",
  ignore: isMissing("MACHINE"),
  async fn(t) {
    await using machine = await Machine.deploy();
    const edited = (script: string) =>
      machine.run(`export EDITOR="${script}"; ${HANDBOOK.CORRECT}`);
    await machine.succeed(
      `echo '{"id":42,"name":"Ficus"}' | plants import -`,
      `echo '{"id":-7,"name":"Fern"}' | plants import -`,
    );
    await t.step(
      "an editor that fails or changes nothing leaves no text",
      async () => {
        for (
          const [script, why] of [
            ["true", /is empty, or the same as before/],
            ["false", /the editor has failed: false/],
            ["truncate -s 0", /is empty, or the same as before/],
            ["sed -i s/,/,\\\\x20/", /the same plant as before/],
          ] as const
        ) {
          const { status, stderr } = await edited(script);
          assert.equal(status, 1, script);
          assert.match(
            stderr,
            /^plants-correct: plant 42 has not changed: .*\n$/,
          );
          assert.match(stderr, why);
          await machine.succeed("! ls /root/plant-42.*.json");
        }
      },
    );
    await t.step("a text that is not the plant stays in a file", async () => {
      for (
        const [script, why] of [
          ["sed -i s/}//", /column 24: /],
          ["sed -i s/42/43/", /expected one plant with the id 42, got: .*43/],
          ["sed -i p;s/42/43/", /expected one plant with the id 42, got: /],
        ] as const
      ) {
        const { status, stderr } = await edited(script);
        assert.equal(status, 1, script);
        assert.match(stderr, why, script);
        assert.doesNotMatch(stderr, /new store/);
        assert.match(stderr, /^your text is in \/root\/plant-42\.\w+\.json$/m);
        await machine.succeed("rm /root/plant-42.*.json");
        const stored = await machine.succeed("plants export -- 42 -7");
        assert.equal(
          stored,
          '{"id":42,"name":"Ficus"}\n{"id":-7,"name":"Fern"}\n',
        );
      }
    });
    await t.step(
      "the text stays if a restore begins while the editor is open",
      async () => {
        await machine.succeed(
          `mkfifo /root/release; cat > /root/editor <<'END'
sed -i s/Ficus/Monstera/ $1
setsid flock /run/plants.lock cat /root/release < /dev/null &> /dev/null &
until ! flock -n /run/plants.lock true; do sleep 0.1; done
END`,
        );
        const waits = await edited("bash /root/editor");
        assert.match(
          waits.stderr,
          /^plants-correct: plant 42 has not changed: a restore, a move or a start of the service runs: wait for it\nyour text is in /m,
        );
        assert.equal(
          await machine.succeed(
            "echo > /root/release; flock /run/plants.lock rm /root/plant-42.*.json",
            "plants export 42",
          ),
          '{"id":42,"name":"Ficus"}\n',
        );
      },
    );
    await t.step("the text stays after Ctrl-C in the editor", async () => {
      await machine.succeed(
        "echo 'sed -i s/Ficus/Monstera/ $1; touch editing; exec sleep 600' > /root/editor",
      );
      const cancelled = await machine.run(
        'export EDITOR="bash /root/editor"',
        interrupted("plants-correct 42", "[ -e /root/editing ]"),
      );
      assert.match(
        cancelled.stderr,
        /^plants-correct: plant 42 has not changed: it was interrupted\nyour text is in \/root\/plant-42\.\w+\.json\n$/,
      );
      await machine.succeed("rm /root/plant-42.*.json");
    });
    await t.step("a wrong id is refused, and a missing one", async () => {
      const mistyped = await machine.run("EDITOR=true plants-correct 43");
      assert.match(mistyped.stderr, /^id 43: no such plant$/m);
      // A power cut came between the removal and the import.
      const cut = await machine.run(
        `echo '{"id":43,"name":"Fern"}' > plant-43.Ab3x.json; EDITOR=true plants-correct 43`,
        "rm plant-43.Ab3x.json",
      );
      assert.match(
        cut.stderr,
        /this stores its text: plants import - < \/root\/plant-43\.Ab3x\.json$/m,
      );
      const negative = await machine.run("EDITOR=true plants-correct -- -43");
      assert.match(negative.stderr, /^id -43: no such plant$/m);
      assert.equal((await machine.run("plants-correct")).status, 2);
    });
    await t.step(
      "a correction begins with the plant as it is stored",
      async () => {
        // The shell has variables of another service.
        await edited("sed -i s/Ficus.*/Draft/");
        const corrected = await machine.run(
          "export KV_PATH=/none KV_CREATE=no EDITOR='sed -i s/Ficus/Monstera/'",
          HANDBOOK.CORRECT,
          "cat /root/plant-42.*.json; rm /root/plant-42.*.json",
          "ls /tmp/tmp.*",
        );
        assert.match(corrected.stdout, /^corrected\n.*Draft\n$/);
        assert.match(corrected.stderr, /No such file or directory\n$/);
        const stored = await machine.succeed("plants export 42");
        assert.equal(stored, '{"id":42,"name":"Monstera"}\n');
        // A client repeats the create of the plant as it was.
        const old = { id: 42n, plant: { name: "Ficus" } };
        const { status } = await sendCreate(machine.service, old);
        assert.equal(status, 409);
      },
    );
    await t.step(
      "the command that is printed stores the text if the removal fails",
      async () => {
        await machine.succeed(
          "echo 'sed -i s/Monstera/Fern/ $1; plants remove 42' > /root/editor",
        );
        const failed = await edited("sh /root/editor");
        const [, command = ""] = /: run (plants import - < .*)$/m
          .exec(failed.stderr) ?? [];
        await machine.succeed(`${command}; rm /root/plant-42.*.json`);
        assert.match(await machine.succeed("plants export 42"), /Fern/);
      },
    );
    await machine.succeed(HANDBOOK.REMOVE);
    await machine.succeed("! plants export 42; plants remove -- -7");
    await machine.assertHasAll();
  },
});

Deno.test({
  name: "an editor that is missing is named",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const { stderr } = await machine.run(
      `echo '{"id":42,"name":"Ficus"}' | plants import -`,
      "plants-correct 42; status=$?; plants remove 42; exit $status",
    );
    assert.match(stderr, /there is no editor: run apt install nano/);
    await machine.assertHasAll();
  },
});
