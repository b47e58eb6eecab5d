/** The blocks of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import {
  APPLY,
  BACK_UP,
  block,
  DEPLOY,
  GET,
  IN_VERSION,
  INSTALL,
  MOVE,
  onMachine,
  RESTORE,
  UPGRADE,
} from "../support/machine.ts";
import { TOKEN } from "../support/program.ts";

const PID = "systemctl show -P MainPID plant-store";

onMachine.test("a deployment protects the files and changes nothing the second time, and systemd restarts a killed service", async (machine) => {
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
  assert.match(again, /: OK$[^]*^installed$[^]*^ready$[^]*^0 created, /m);
  assert.equal(await machine.succeed(look), before);
  await machine.succeed(
    "systemctl kill -s KILL plant-store",
    "until plants healthcheck; do sleep 0.2; done",
  );
  const tampered = await machine.run("echo >> plant-store-x86*", GET, INSTALL);
  assert.match(tampered.stderr, /checksum did NOT match/);
});

onMachine.test("the first plant is created, and the journal has its removal", async (machine) => {
  machine.ledger.sends({ id: 1n, plant: { name: "Monstera" } });
  const created = await machine.succeed(block("5. Create"));
  assert.match(created, /^HTTP\/1.1 200 OK\r$[^]*{"name":"Monstera"}/m);
  await machine.succeed("plants remove -- 1");
  const commands = await machine.succeed(block("The command"));
  assert.match(commands, / - plants import -\.$[^]* - plants remove -- 1\.$/m);
});

onMachine.test("a command has the settings of the service only, passes its exit status on, and ends with Ctrl-C", async (machine) => {
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
  const many = `seq 1000000 | sed 's/.*/{"id":&,"name":"Ficus"}/' > /tmp/many`;
  const start =
    "plants import --kv-create yes - --kv /var/lib/plant-store/many.db < /tmp/many";
  await machine.succeed(
    many,
    // A terminal sends SIGINT to every process of its group.
    `env --default-signal=INT setsid bash -c 'trap : INT; ${start}' & command=$!`,
    "until [ -s /var/lib/plant-store/many.db-wal ]; do sleep 0.1; done",
    "kill -INT -- -$command; wait $command",
    "! systemctl is-active -q 'plants-*'",
  );
  const count = "plants export --kv /var/lib/plant-store/many.db | wc -l";
  assert.ok(Number(await machine.succeed(count)) < 1_000_000);
});

onMachine.test("a wrong path of the store is refused before a restart and at a start, and creates no store", async (machine) => {
  const create = block("3. Create the store");
  const listed = await machine.succeed(
    BACK_UP,
    "systemctl stop plant-store; mv /var/lib/plant-store/current away",
    create,
    "! ls /var/lib/plant-store/current",
    "mv away /var/lib/plant-store/current; systemctl start plant-store",
  );
  assert.match(listed, /-backups\/plants-[\d-]+\.jsonl\.gz$/m);
  const pid = await machine.succeed(PID);
  const wrong = "sed -i s/plants.db/plant.db/ /etc/plant-store.env";
  const applied = await machine.run(wrong, APPLY);
  assert.equal(applied.status, 2);
  assert.match(applied.stderr, /plant\.db: no such file: /);
  assert.equal(await machine.succeed(PID), pid);
  const { length } = machine.journal;
  await machine.succeed("! systemctl restart plant-store");
  await machine.reports(/plant\.db: no such file: /, length);
  const errors = "journalctl -u plant-store -p err -o cat";
  assert.match(await machine.succeed(errors), /: no such file: /);
  const look = block("`no such file`", 0, "accidents/");
  assert.match(await machine.succeed(look), /plant\.db$[^]* plants\.db$/m);
  await machine.succeed("! ls /var/lib/plant-store/current/plant.db");
  // A start that is refused is not repeated.
  const state = "systemctl show -P SubState plant-store";
  assert.equal(await machine.succeed("sleep 1", state), "failed\n");
  const right = "sed -i s/plant.db/plants.db/ /etc/plant-store.env";
  await machine.succeed(right, APPLY);
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
      APPLY,
      "status=$?; cp before /etc/plant-store.env; exit $status",
    );
    assert.equal(status, 2);
    assert.match(stderr, why, setting);
  }
});

/** The block that moves the store, with another directory. */
function moveTo(directory: string): string {
  return MOVE.replace("/mnt/plants", `${directory}/plants`);
}

onMachine.test("the store moves to another disk and from there to a third, and stays where it is if a step fails", async (machine) => {
  const disk = (path: string, size: string) =>
    `mkdir -p ${path}; mount -t tmpfs -o size=${size} none ${path}`;
  // Without the disk, and with one that is too small.
  for (const before of ["true", disk("/mnt", "40k")]) {
    const { stdout } = await machine.run(before, MOVE);
    assert.doesNotMatch(stdout, /^moved/m);
    await machine.succeed("systemctl is-active plant-store");
    await machine.assertHasAll();
  }
  const moved = await machine.succeed("umount /mnt", disk("/mnt", "64m"), MOVE);
  assert.match(moved, /^moved from \/var\/lib\/plant-store\/current$/m);
  await machine.acknowledges(100);
  // Pasted again.
  const { stdout } = await machine.run(MOVE, PID);
  assert.doesNotMatch(stdout, /^moved/m);
  await machine.assertHasAll();
  const small = await machine.run(
    disk("/media/small", "40k"),
    moveTo("/media/small"),
  );
  assert.doesNotMatch(small.stdout, /^moved/m);
  await machine.acknowledges(100);
  const third = await machine.succeed(disk("/disk", "64m"), moveTo("/disk"));
  assert.match(third, /^moved from \/mnt\/plants$/m);
  await machine.acknowledges(100);
  await machine.succeed(
    "rm -r /mnt/plants /var/lib/plant-store/current",
    BACK_UP,
  );
  await machine.assertHasAll();
  const restored = await machine.succeed(RESTORE);
  assert.match(restored, /rm -r \/disk\/plants\.old-/);
});

onMachine.test("a start without the disk of the store fails and creates no store", async (machine) => {
  const disk = "mkdir /disk; mount --bind /disk /mnt";
  await machine.succeed(disk, MOVE);
  const failed = await machine.succeed(
    "systemctl stop plant-store; umount /mnt",
    "! systemctl start plant-store && journalctl -u plant-store -n 9",
  );
  assert.match(failed, /plants\.db: no such file: /);
  // A disk that cannot be mounted.
  await machine.succeed(
    "echo 'none /mnt tmpfs size=x 0 0' >> /etc/fstab; systemctl daemon-reload",
    "! systemctl start plant-store",
  );
  const problems = await machine.succeed(
    block("Accidents", 0, "accidents/"),
    block("`Dependency failed`", 0, "accidents/"),
  );
  assert.match(problems, /Dependency failed for [^]*mnt\.mount/);
  await machine.succeed(
    "! ls /mnt/plants; sed -i '/tmpfs size=x/c /disk /mnt none bind 0 0' /etc/fstab",
    "systemctl daemon-reload; systemctl reset-failed",
    // It mounts the disk.
    "systemctl start plant-store",
  );
});

onMachine.test("a token that is added is accepted until it is deleted, and an invalid file changes nothing", async (machine) => {
  const add = block("Tokens");
  const load = block("Tokens", 1);
  const status =
    `curl -s -o /dev/null -w '%{http_code}\n' 127.0.0.1:8000/metrics \\
    -H "Authorization: Bearer $token"`;
  const added = await machine.succeed(
    add,
    load,
    "token=$(tail -n 1 /etc/plant-store.token)",
    status,
  );
  assert.match(added, /: reloaded 2 tokens from [^]*^200$/m);
  const invalid = await machine.run(
    "echo a token >> /etc/plant-store.token",
    load,
  );
  assert.match(invalid.stderr, /expected 1 to 100 tokens /);
  await machine.acknowledges(10);
  const deleted = await machine.succeed(
    "token=$(sed -n 3p /etc/plant-store.token)",
    "sed -i 3,4d /etc/plant-store.token",
    load,
    status,
  );
  assert.match(deleted, /: reloaded 1 token from [^]*^401$/m);
});

onMachine.test("an upgrade installs another program and can go back, and one that cannot start leaves the service running", async (machine) => {
  const version =
    `${IN_VERSION}; mkdir -p /root/new; cp -r * /root/new; cd /root/new`;
  const upgraded = await machine.succeed(
    `${version}; echo '# newer' >> plant-store`,
    BACK_UP,
    UPGRADE,
    "tail -n 1 /usr/local/bin/plant-store",
    IN_VERSION,
    UPGRADE,
    "cmp plant-store /usr/local/bin/plant-store",
    block("Upgrade", 2),
  );
  assert.match(
    upgraded,
    /^saved$[^]*^plant-store 1[^]*^ready$[^]*^# newer$[^]*^complete$/m,
  );
  const pid = await machine.succeed(PID);
  const broken = await machine.run(
    `${version}; echo exit 1 > plant-store`,
    UPGRADE,
  );
  assert.equal(broken.status, 1);
  const setting = `echo PORT=x >> /etc/plant-store.env; ${IN_VERSION}`;
  const invalid = await machine.run(setting, UPGRADE);
  assert.equal(invalid.status, 2);
  assert.equal(await machine.succeed(PID), pid);
  await machine.succeed("sed -i '$d' /etc/plant-store.env");
});

onMachine.test("a backup is complete, the newest 30 are kept, and one that fails leaves no file, deletes none, and fails its unit", async (machine) => {
  const inBackups = "cd /var/lib/plant-store-backups";
  await machine.succeed(
    BACK_UP,
    inBackups,
    "for n in $(seq 10 39); do touch plants-2020-01-01-0000$n.jsonl.gz; done",
    "touch other.gz; chown plant-store: *",
  );
  const { size } = machine.ledger.acknowledged;
  const listed = await machine.succeed("sleep 1", block("Back up"));
  assert.match(listed, /plants-\d{4}-\d\d-\d\d-\d{6}\.jsonl\.gz$/m);
  const names = await machine.succeed(inBackups, "ls");
  assert.equal(names.match(/^plants-/gm)?.length, 30);
  assert.match(names, /^other\.gz\nplants-2020-01-01-000012/);
  const tried = await machine.succeed(block("Back up", 2));
  const [, created] = /^(\d+) created, /m.exec(tried) ?? [];
  assert.ok(Number(created) >= size);

  await machine.succeed(
    "mkdir /full; mount -t tmpfs -o size=8k,mode=777 none /full",
    `${inBackups}; mv plants-* other.gz /root; cp -p /root/plants-2020* /full`,
    "mount --bind /full $PWD; touch /full/plants-{40..99}.jsonl.gz",
    "head -c 1M /dev/zero > /full/other.gz; ls > /root/before",
    `! systemctl start plant-store-backup`,
    "systemctl is-failed plant-store-backup && ls | cmp - /root/before",
  );
  const problems = block("Accidents", 0, "accidents/");
  assert.match(await machine.succeed(problems), /No space left on device/);
});

onMachine.test("a plant is corrected while the service runs, and nothing that is written in the editor loses it", async (machine) => {
  machine.ledger.sends({ id: 42n, plant: { name: "Monstera" } });
  const correct = block("Correct");
  const edited = (script: string) =>
    machine.run(`export EDITOR="${script}"; ${correct}`);
  await machine.succeed(`echo '{"id":42,"name":"Ficus"}' | plants import -`);
  for (
    const script of [
      "sed -i s/}//",
      "truncate -s 0",
      "sed -i s/42/43/",
      "false",
    ]
  ) {
    const { status, stdout } = await edited(script);
    assert.notEqual(status, 0, script);
    assert.doesNotMatch(stdout, /^corrected$/m);
    const stored = await machine.succeed("plants export 42");
    assert.equal(stored, '{"id":42,"name":"Ficus"}\n');
  }
  const corrected = await edited("sed -i s/Ficus/Monstera/");
  assert.match(corrected.stdout, /^corrected$/m);
  const stored = await machine.succeed("plants export 42");
  assert.equal(stored, '{"id":42,"name":"Monstera"}\n');
  // A client creates the plant between the two commands.
  const raced = await machine.succeed(
    "id=42 dir=$(mktemp -d); plants export 42 > $dir/checked",
    `plants remove 42; echo '{"id":42,"name":"Fern"}' | plants import -`,
    block("Correct", 1),
    "plants export 42",
  );
  assert.match(raced, /^corrected\n{"id":42,"name":"Monstera"}$/m);
  const removed = await machine.succeed("id=42", block("Correct", 2));
  assert.match(removed, /^1 plant removed$/m);
  const missing = await edited("true");
  assert.equal(missing.status, 1);
});
