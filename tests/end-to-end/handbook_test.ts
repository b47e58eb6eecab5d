/** The blocks of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { execute } from "../support/damage.ts";
import { block, cronJobs, Machine, onMachine } from "../support/machine.ts";
import { TOKEN } from "../support/program.ts";

onMachine.test("the commands that deploy the service start it, and change nothing the second time", async () => {
  await using machine = await Machine.boot();
  const deploy = block("Deploy");
  assert.match(await machine.succeed(deploy), /^ready$/m);
  const look = `stat -c '%a %U:%G' /etc/plant-store.* /usr/local/bin/plant-store
    cat /etc/plant-store.token; systemctl show -P MainPID plant-store`;
  const before = await machine.succeed(look);
  assert.match(
    before,
    /^600 root:root\n640 root:plant-store\n755 root:root\n[0-9a-f]{64}\n[1-9]\d*\n$/,
  );
  await machine.succeed(deploy);
  assert.equal(await machine.succeed(look), before);
});

onMachine.test("settings are checked before a restart, and the store moves to another disk", async () => {
  await using machine = await Machine.start();
  const { service, ledger } = machine;
  await machine.succeed("echo HOST=127.0.0.1 >> /etc/plant-store.env");
  await machine.underLoad(() => machine.succeed(block("Settings")));
  const invalid = "echo HOST=[] >> /etc/plant-store.env";
  const refused = await machine.run(invalid, block("Settings"));
  assert.equal(refused.status, 2);
  await ledger.settle(service);
  await machine.succeed("sed -i /HOST/d /etc/plant-store.env");

  // A directory in place of a disk.
  await machine.succeed(
    "mkdir /disk; echo '/disk /srv none bind 0 0' >> /etc/fstab; mount /srv",
  );
  const move = block("Settings", 1);
  await machine.underLoad(() => machine.succeed(move, "sleep 1", move));
  await machine.succeed("cd /disk/plants && ls plants.db");
  await machine.assertHasAll();
  // Without the disk there is no start, and no empty store.
  await machine.succeed(
    "plants stop; umount /var/lib/plant-store /srv",
    "sed -i 's/srv none bind/srv nothing bind/' /etc/fstab",
    "systemctl daemon-reload; ! systemctl start plant-store",
    "sed -i 's/srv nothing bind/srv none bind/' /etc/fstab",
    "systemctl daemon-reload; systemctl start plant-store",
  );
  await machine.assertHasAll();
});

onMachine.test("a token is replaced, and a file that is invalid changes nothing", async () => {
  await using machine = await Machine.start();
  const tokens = block("Tokens");
  const edit = (script: string) => `export EDITOR='sed -i ${script}'`;
  const added = await machine.succeed(edit("$anew-token"), tokens);
  assert.match(added, /: reloaded 2 tokens from /);
  const invalid = await machine.run(edit("$abad\\ttoken"), tokens);
  assert.match(invalid.stderr, /plant-store\.token/);
  await machine.succeed(edit("/bad/d"), tokens);
  await machine.assertHasAll();
  const deleted = await machine.succeed(edit(`/${TOKEN}/d`), tokens);
  assert.match(deleted, /: reloaded 1 token from /);
  const newPlant = { id: 1n, plant: { name: "" } };
  const { status } = await machine.ledger.send(machine.service, newPlant);
  assert.equal(status, 401);
});

onMachine.test("an upgrade restarts the service with the new binary, keeps the old one, and can go back", async () => {
  await using machine = await Machine.start();
  const upgrade = block("Upgrade");
  const binary = "/usr/local/bin/plant-store";
  await machine.underLoad(async () => {
    const edit = "cp plant-store old; echo '# newer' >> plant-store";
    await machine.succeed(edit, upgrade);
    // The same binary again.
    const compare = `cmp plant-store ${binary} && cmp old ${binary}.old`;
    await machine.succeed(upgrade, compare);
    await machine.succeed(block("Upgrade", 1), `cmp old ${binary}`);
  });
  await machine.assertHasAll();
  for (
    const [before, after] of [
      [
        "echo HOST=[] >> /etc/plant-store.env",
        "sed -i /HOST/d /etc/plant-store.env",
      ],
      ["mv plant-store good; echo exit 1 > plant-store", "mv good plant-store"],
      [
        "mv /var/lib/plant-store-backups{,.away}; touch /var/lib/plant-store-backups",
        ":",
      ],
    ] as const
  ) {
    const look = "systemctl show -P MainPID plant-store";
    const pid = await machine.succeed(look);
    assert.notEqual((await machine.run(before, upgrade)).status, 0);
    await machine.succeed(after);
    assert.equal(await machine.succeed(look), pid);
  }
});

onMachine.test("a backup is complete, named by its time, tested by a store of its own, and deletes old ones", async () => {
  await using machine = await Machine.start();
  const directory = "/var/lib/plant-store-backups";
  const backup = block("Back up");
  await machine.succeed(
    `install -d -o plant-store ${directory} && cd ${directory} &&
    touch -d '30 days ago' plants-2020-01-01-033000-{123.db,copied.db-wal} before-the-upgrade.db &&
    mkdir plants-killed.db.1234abcd.partial plants-running.db.1234abcd.partial &&
    touch -d '49 hours ago' plants-killed.db.1234abcd.partial
    chown plant-store *`,
  );
  await machine.underLoad(() => machine.succeed(backup));
  await machine.succeed(
    "plants remove $(plants export | head -n 1 | tr -dc '0-9,-' | cut -d , -f 1)",
  );
  const count = Number(await machine.succeed("plants export | wc -l"));
  const names = (await machine.succeed(backup)).match(/\S+$/gm) ?? [];
  assert.match(
    names.slice(1).join(" "),
    /^before-the-upgrade\.db( plants-2\d{3}-\d\d-\d\d-\d{6}-\d{3}\.db){2} plants-running\.db\.1234abcd\.partial$/,
  );
  const test = await machine.succeed(block("Back up", 1));
  assert.match(test, new RegExp(`^${count}$`, "m"));
  await machine.succeed(`! ls ${directory}/test-*`);

  // A plant that only an export finds damaged.
  const old = `${directory}/plants-2020-01-01-033000-123.db`;
  await machine.succeed("plants stop; cp $(plants store) /mnt/damaged");
  const last = "(SELECT max(k) FROM kv)";
  const damage = `UPDATE kv SET v_encoding = 9 WHERE k = ${last}`;
  execute(machine.file("damaged"), damage);
  await machine.succeed(
    "cat /mnt/damaged > $(plants store)",
    `touch -d '30 days ago' ${old}; chown plant-store ${old}`,
    `! systemctl start plant-store-backup && ls ${old}`,
  );
  const jobs = cronJobs(block("Back up", 3));
  assert.match(await machine.succeed(jobs), / cannot be read$/m);
});

onMachine.test("a plant is corrected and removed while the service runs, and a correction that fails keeps it", async () => {
  await using machine = await Machine.start();
  const correct = block("Correct or remove a plant");
  const edit = (script: string) => `export EDITOR='sed -i ${script}'`;
  await machine.underLoad(() =>
    machine.succeed(edit("s/Monstera/Ficus/"), correct)
  );
  const corrected = '{"id":42,"name":"Ficus 42"}\n';
  assert.equal(await machine.succeed("plants export 42"), corrected);
  const refused = await machine.run(edit("s/}//"), correct);
  assert.match(refused.stderr, /^line 1: column \d+: [^]*, 1 refused\n$/m);
  // Pasted again, without a plant: the copy is still there.
  assert.notEqual((await machine.run(edit("d"), correct)).status, 0);
  await machine.succeed(
    `file=$(grep -l '42"$' plant-*.jsonl); sed -i 's/$/}/' $file`,
    correct.trimEnd().split("\n").at(-1) ?? "",
  );
  assert.equal(await machine.succeed("plants export 42"), corrected);
  // A full disk: nothing is removed without a copy.
  const full =
    "mount -t tmpfs -o size=4k none /mnt; cd /mnt; head -c 1M /dev/zero > full";
  const { status } = await machine.run(full, edit("s/Ficus//"), correct);
  assert.notEqual(status, 0);
  assert.equal(await machine.succeed("plants export 42"), corrected);
});

onMachine.test("a start fails if another program answers at its port, and one that is not ready in time says why, once", async () => {
  await using machine = await Machine.start();
  const drop = "/etc/systemd/system/plant-store@8000.service.d";
  const start = await machine.run(
    "cp deploy/plant-store.service /etc/systemd/system/plant-store@.service",
    "systemctl start plant-store@8000",
  );
  assert.notEqual(start.status, 0);
  const late = await machine.run(
    `mkdir ${drop}; printf '[Service]\nExecStart=\nExecStart=/bin/sleep 600\nTimeoutStartSec=5\n' > ${drop}/late.conf`,
    "plants stop; systemctl daemon-reload; systemctl start plant-store@8000",
  );
  assert.notEqual(late.status, 0);
  const said = await machine.succeed(
    "systemctl stop plant-store@8000; journalctl -u plant-store@8000 -p err -o cat | grep 'no answer'",
  );
  assert.match(said, /^no answer from 127\.0\.0\.1 port 8000: [^<\n]*\n$/);
  // The port answers 503.
  const { status, stderr } = await machine.run(
    "sed -i 's/TimeoutStartSec=5/TimeoutStartSec=infinity/' " +
      `${drop}/late.conf; systemctl daemon-reload`,
    "sed -i 's/-lt 60/-lt 1/' /usr/local/bin/plant-store-ready",
    "echo 'echo it answers /readyz with 503: see >&2; exit 1' > /usr/local/bin/plant-store",
    "timeout 30 systemctl start plant-store@8000",
  );
  assert.equal(status, 1, stderr);
  const unready = await machine.succeed(
    "systemctl stop plant-store@8000; journalctl -u plant-store@8000 -o cat | grep -c 'with 503'",
  );
  assert.equal(unready, "1\n");
});
