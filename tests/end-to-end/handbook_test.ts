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
    assert.match(missing.stderr, /^(plants: cannot read .*: run it as root, .*\n){2}$/);
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
    assert.equal(
      await machine.succeed(
        `systemctl show -P SubState plant-store; ! ls ${PLACE}/current/plant.db`,
      ),
      "failed\n",
    );
    await machine.succeed("cp before /etc/plant-store.env", RESTART);
    await machine.assertHasAll();
  },
});
