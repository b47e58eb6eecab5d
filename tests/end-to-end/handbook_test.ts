/** The blocks of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import {
  BACK_UP,
  block,
  DEPLOY,
  INSTALL,
  MOVE,
  onMachine,
} from "../support/machine.ts";
import { TOKEN } from "../support/program.ts";

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
  assert.match(await machine.succeed(DEPLOY), /^ready$/m);
  assert.equal(await machine.succeed(look), before);
  await machine.succeed(
    "systemctl kill -s KILL plant-store",
    "until plants healthcheck; do sleep 0.2; done",
  );
});

onMachine.test("the store moves to another disk, and a start without that disk fails and creates no store", async (machine) => {
  async function doesNotMove(...before: readonly string[]): Promise<void> {
    const { stdout } = await machine.run(...before, block("Settings"));
    assert.doesNotMatch(stdout, /moved/);
    await machine.succeed("systemctl start plant-store");
  }
  const used = "mkdir -p /disk/current; mount --bind /disk /mnt";
  await doesNotMove(used, "touch /mnt/current/plants.db-wal");
  const moved = await machine.succeed("umount /mnt; rm -r /disk/*", MOVE);
  assert.match(moved, /^moved$/m);
  // Pasted again.
  await doesNotMove();
  await machine.succeed("ls /disk/current/plants.db");
  await machine.assertHasAll();
  const failed = await machine.succeed(
    "systemctl stop plant-store; umount /var/lib/plant-store",
    "sed -i /plant-store/d /etc/fstab; systemctl daemon-reload",
    "! systemctl start plant-store && journalctl -u plant-store -n 9",
  );
  assert.match(failed, /plants\.db: no such file/i);
  await machine.succeed(
    "! ls /var/lib/plant-store/current",
    "mount --bind /disk /var/lib/plant-store; systemctl start plant-store",
  );
});

onMachine.test("a token that is added is accepted until it is deleted, and an invalid file changes nothing", async (machine) => {
  const add = block("Tokens");
  const status =
    `curl -s -o /dev/null -w '%{http_code}\n' 127.0.0.1:8000/metrics \\
    -H "Authorization: Bearer $token"`;
  const added = await machine.succeed(
    add,
    "token=$(tail -n 1 /etc/plant-store.token)",
    status,
  );
  assert.match(added, /: reloaded 2 tokens from [^]*^200$/m);
  const [, ...load] = add.split("\n");
  const invalid = await machine.run(
    "echo a token >> /etc/plant-store.token",
    ...load,
  );
  assert.match(invalid.stderr, /expected 1 to 100 tokens /);
  await machine.acknowledges(10);
  const deleted = await machine.succeed(
    "token=$(sed -n 3p /etc/plant-store.token)",
    "sed -i 3,4d /etc/plant-store.token",
    ...load,
    status,
  );
  assert.match(deleted, /: reloaded 1 token from [^]*^401$/m);
});

onMachine.test("an upgrade installs another program and can go back, and one that cannot start leaves the service running", async (machine) => {
  const version = "cd; mkdir -p new; cp -r plant-store deploy new; cd new";
  const upgraded = await machine.succeed(
    `${version}; echo '# newer' >> plant-store`,
    block("Upgrade"),
    INSTALL,
    "tail -n 1 /usr/local/bin/plant-store; cd",
    INSTALL,
    "cmp plant-store /usr/local/bin/plant-store",
  );
  assert.match(upgraded, /^plant-store 1[^]*^saved$[^]*^ready$[^]*^# newer$/m);
  const look = "systemctl show -P MainPID plant-store";
  const pid = await machine.succeed(look);
  const broken = await machine.run(
    `${version}; echo exit 1 > plant-store`,
    block("Upgrade"),
  );
  assert.equal(broken.status, 1);
  const setting = "echo PORT=x >> /etc/plant-store.env";
  const invalid = await machine.run(setting, INSTALL);
  assert.equal(invalid.status, 2);
  assert.equal(await machine.succeed(look), pid);
  await machine.succeed("sed -i '$d' /etc/plant-store.env");
});

onMachine.test("a backup is complete and deletes old ones, and one that fails leaves no file and a failed unit", async (machine) => {
  const inBackups = "cd /var/lib/plant-store-backups";
  await machine.succeed(
    `${BACK_UP}; ${inBackups}`,
    "touch -d '30 days ago' plants-2020-01-01-033000.jsonl.gz other.gz",
    "touch -d '29 days ago' plants-2020-01-02-033000.jsonl.gz",
    "chown plant-store: *",
  );
  const { size } = machine.ledger.acknowledged;
  await machine.succeed(`sleep 1; ${BACK_UP}`);
  const names = await machine.succeed(inBackups, "ls");
  assert.match(
    names,
    /^other\.gz\n(plants-\d{4}-\d\d-\d\d-\d{6}\.jsonl\.gz\n){3}$/,
  );
  const lines = "ls | tail -n 1 | xargs zcat | wc -l";
  assert.ok(Number(await machine.succeed(inBackups, lines)) >= size);

  await machine.succeed(
    "mkdir /full; mount -t tmpfs -o size=8k,mode=777 none /full",
    `${inBackups}; mv * /full; mount --bind /full $PWD`,
    "head -c 1M /dev/zero > /full/other.gz",
    `! ${BACK_UP} && systemctl is-failed plant-store-backup`,
  );
  const problems = "journalctl -u 'plant-store*' -p warning -o cat";
  assert.match(await machine.succeed(problems), /No space left on device/);
  assert.equal(await machine.succeed(inBackups, "ls"), names);
});

onMachine.test("a plant is corrected while the service runs, and a correction that is refused does not lose it", async (machine) => {
  machine.ledger.sends({ id: 42n, plant: { name: "Monstera" } });
  const correct = block("Correct");
  const edit = (script: string) => `export EDITOR='sed -i ${script}'`;
  const { stderr } = await machine.run(
    `echo '{"id":42,"name":"Ficus"}' | plants import -`,
    `${edit("s/Ficus/Monstera/")}; ${correct}`,
    `sleep 1; ${edit("s/}//")}; ${correct}`,
  );
  assert.match(stderr, /^1 plant removed\nline 1: column \d+: /m);
  // The block pasted once more, and the file that was refused.
  const last = correct.trimEnd().split("\n").at(-1) ?? "";
  await machine.succeed(
    `sleep 1; ${correct}`,
    "file=$(grep -L } $(grep -l Monstera plant-*)); sed -i 's/$/}/' $file",
    last,
  );
  const stored = await machine.succeed("plants export 42");
  assert.equal(stored, '{"id":42,"name":"Monstera"}\n');
});
