/** The page about containers: its blocks, and what a tired operator does to them. */
import assert from "node:assert/strict";
import {
  BackgroundProcess,
  type Ended,
  outputOf,
} from "../support/background.ts";
import { createDuring } from "../support/instances.ts";
import { Ledger } from "../support/ledger.ts";
import { ACCIDENTS, CONTAINER, olderStores } from "../support/handbook.ts";
import { interrupted, IS_COPYING, LET_CP_WAIT } from "../support/machine.ts";
import { isMissing } from "../support/needs.ts";
import {
  assertSucceeded,
  BINARY,
  occurrences,
  type Target,
  TOKEN,
} from "../support/program.ts";
import { read, ROOT } from "../support/readme.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { freePort } from "../support/tools.ts";

/**
 * Makes a place for root whose changes to the system and whose containers are its
 * own. It has the images of this machine, and an unpacked release.
 */
const PLACE = `set -e; cd $0; mkdir storage system version
  mount -t tmpfs tmpfs system; mount --bind storage storage
  for dir in etc var/lib usr/local/bin; do
    mkdir -p system/$dir system/work/$dir
    mount -t overlay -o lowerdir=/$dir,upperdir=$PWD/system/$dir,workdir=$PWD/system/work/$dir overlay /$dir
  done
  images=$(docker info -f '{{.Store.GraphRoot}}')
  printf '%s\\n' '#!/bin/sh' "exec $(command -v docker) --root $PWD/storage \\
    --storage-opt additionalimagestore=$images \\"\\$@\\"" > /usr/local/bin/docker
  chmod 755 /usr/local/bin/docker; mount -t tmpfs tmpfs /run
  cp -r $1/src/deploy $2 version; echo made >&2; exec sleep infinity`;

/** A server whose services run in containers. */
class Server implements AsyncDisposable {
  readonly ledger = new Ledger();
  readonly #port = freePort();
  /** The service. */
  readonly target: Target = { origin: `http://127.0.0.1:${this.#port}` };
  readonly #stack = new AsyncDisposableStack();
  readonly #path = this.#stack.use(new TemporaryDirectory()).path;
  readonly #place = this.#stack.use(
    new BackgroundProcess("unshare", {
      args: [
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "bash",
        "-c",
        PLACE,
        this.#path,
        ROOT.pathname,
        BINARY ?? "",
      ],
    }),
  );

  private constructor() {}

  /** Deploys a service as the page says. */
  static async deploy(): Promise<Server> {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(new Server());
    await server.#deploy();
    stack.move();
    return server;
  }

  async #deploy(): Promise<void> {
    await this.#place.printed(/^made$/m);
    this.#stack.defer(async () => {
      await this.run("docker rm -f plant-store");
    });
    const installed = await this.succeed(
      CONTAINER.INSTALL,
      `sed -i s/PORT=.*/PORT=${this.#port}/ /etc/plant-store/env`,
      `echo ${TOKEN} > /etc/plant-store/token`,
      // Replaces neither.
      CONTAINER.INSTALL,
    );
    assert.equal(occurrences(installed, /^created a new token in /m), 1);
    // There is no store to start with.
    assert.match(
      await this.fail(CONTAINER.SERVE),
      /plants\.db: no such file: /,
    );
    const created = await this.succeed(CONTAINER.CREATE_STORE);
    assert.match(created, /^created a new store in \/var\/lib\/plant-store\//m);
    assert.match(await this.succeed(CONTAINER.SERVE), /^ready$/m);
  }

  /** Runs commands in one shell of root, in the directory of the version. */
  run(...commands: readonly string[]): Promise<Ended> {
    const enter = `exec nsenter --mount --pid --wdns=${this.#path}/version \
      -t $(pgrep -P ${this.#place.process.pid}) bash -c "$0"`;
    return new BackgroundProcess("sh", {
      args: ["-c", enter, commands.join("\n")],
      env: { PATH: "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
    }).ended();
  }

  /** Runs commands, of which the last one succeeds; returns what they print. */
  async succeed(...commands: readonly string[]): Promise<string> {
    return outputOf(await this.run(...commands), commands.join("\n"));
  }

  /** Runs commands, of which the last one fails; returns what they print. */
  async fail(...commands: readonly string[]): Promise<string> {
    const { status, stdout, stderr } = await this.run(...commands);
    assert.notEqual(status, 0, `${commands.join("\n")}\n${stdout}${stderr}`);
    return stdout + stderr;
  }

  /** Waits until the log reports something. */
  async reports(text: string): Promise<void> {
    const find = `docker logs plant-store 2>&1 | grep '${text}'`;
    await this.succeed(`until ${find}; do sleep 0.2; done`);
  }

  /** Asserts that the store has every acknowledged plant, and no strange one. */
  async assertHasAll(): Promise<void> {
    const exported = await this.run("plants export");
    assertSucceeded(exported);
    this.ledger.assertLines(exported.stdout);
  }

  /** Removes the container. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

Deno.test({
  name:
    "a container is deployed, backed up, corrected, upgraded and moved, and loses nothing",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    server.ledger.mayStore({ id: -1n, plant: { name: "Monstera" } });
    const first = CONTAINER.CREATE_PLANT.replace(
      '"id": 1',
      '"id": -1',
    );
    const reply = await server.succeed(
      first.replace("http://127.0.0.1:8000", server.target.origin),
    );
    assert.match(reply, /^HTTP\/1\.1 200 OK$/m);
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(100);
      assert.match(
        await server.succeed(CONTAINER.BACK_UP),
        /-rw------- .*\.jsonl\.gz$/m,
      );
      // The second day: nothing that is pasted again changes the store.
      assert.match(
        await server.succeed(CONTAINER.CREATE_STORE),
        /^\/var\/lib\/.*\.jsonl\.gz$/m,
      );
      await server.succeed(
        CONTAINER.BACK_UP_BEFORE,
        CONTAINER.UPGRADE,
        CONTAINER.READ_EVERY_PLANT,
        `[ "$(cat /etc/plant-store/token)" = ${TOKEN} ]`,
      );
      await server.ledger.acknowledges(100);
      // The words of the page for a reload.
      const page = read("src/deploy/container/README.md");
      const words = /^\| `systemctl reload plant-store` +\| `(.*)` +\|$/m;
      const [, reload = ""] = words.exec(page) ?? [];
      await server.succeed(`echo another >> /etc/plant-store/token; ${reload}`);
      await server.reports("reloaded 2 tokens");
      // A setting that is wrong stops nothing.
      const env = "/etc/plant-store/env";
      await server.succeed(`cp ${env} /etc/env; echo LOG_FORMAT=x >> ${env}`);
      assert.match(await server.fail(CONTAINER.SERVE), /LOG_FORMAT/);
      // Lines that end as on Windows have the same path.
      await server.succeed(
        `cp /etc/env ${env}; sed -i 's/$/\\r/' ${env}`,
        "plants check",
      );
      await server.ledger.acknowledges(100);
      // A port that another program has stops the service until it is corrected.
      {
        using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
        await server.succeed(
          `cp /etc/env ${env}; sed -i s/PORT=.*/PORT=${other.addr.port}/ ${env}`,
        );
        assert.match(
          await server.fail(CONTAINER.SERVE),
          /Address already in use[^]*\nplants: the service is not ready: see the lines above$/m,
        );
      }
      await server.succeed(`cp /etc/env ${env}`, CONTAINER.SERVE);
      await server.ledger.acknowledges(100);
      // Only an import reads what is pasted after a command.
      assert.match(
        await server.succeed("printf 'plants check\\necho read\\n' | bash"),
        /^read$/m,
      );
      // A correction, with the command of the handbook.
      server.ledger.mayStore({ id: 0n, plant: { name: "Ficus" } });
      const corrected = await server.succeed(
        `echo '{"id":0,"name":"Fern"}' | plants import -`,
        `HOME=/root EDITOR='sed -i s/Fern/Ficus/' plants-correct 0`,
      );
      assert.match(corrected, /^corrected$/m);
      // Another machine has nothing but the settings, the token and the backups.
      const last = await server.succeed(
        CONTAINER.STOP_FOR_GOOD,
        // Pasted twice.
        CONTAINER.STOP_FOR_GOOD,
      );
      await server.succeed(
        "mv /var/lib/plant-store /var/lib/old",
        CONTAINER.RESTORE_ELSEWHERE
          .replace("FILE", /plants-[\d-]+\.jsonl\.gz/.exec(last)?.[0] ?? ""),
      );
      await server.ledger.acknowledges(100);
      // Neither step ends a service whose disk is out of sight, or saves another store.
      for (const block of [CONTAINER.STOP_FOR_GOOD, CONTAINER.BACK_UP]) {
        assert.match(
          await server.fail(
            `mount -t tmpfs none /var/lib/plant-store && { ${block} }`,
          ),
          /do NOT stop it: run plants-restore, /,
        );
        await server.succeed("umount /var/lib/plant-store");
      }
      await server.ledger.acknowledges(100);
    });
    await server.assertHasAll();
    // Files of https that only root can read, until their owner is set.
    const checked = await server.succeed(
      "cd /etc/plant-store; sed -i 's/^#TLS/TLS/' env",
      `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
        -subj /CN=localhost -keyout key -out crt`,
      "! plants check",
      CONTAINER.SET_OWNER,
      "plants check",
    );
    assert.match(checked, /^serves https with the certificate in /m);
  },
});

Deno.test({
  name:
    "the store moves to another disk and back, also if a step is forgotten or pasted twice, and no start goes on without the disk",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    const disk = "/var/lib/plant-store/disk";
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(100);
      await server.succeed(CONTAINER.BACK_UP, `mkdir ${disk}`);
      const unmounted = await server.fail(CONTAINER.MOVE_STORE);
      assert.match(unmounted, /no disk is mounted at .*\/current$/m);
      const unnamed = await server.fail(
        `mount -t tmpfs none ${disk}`,
        CONTAINER.MOVE_STORE,
      );
      assert.match(unnamed, /fstab does not name .*\/current$/m);
      const unseen = await server.fail("plants-move /mnt/plants");
      assert.match(unseen, /sees only \/var\/lib\/plant-store: .*\/current$/m);
      const moved = await server.succeed(
        `echo none ${disk} tmpfs nofail >> /etc/fstab`,
        CONTAINER.MOVE_STORE,
      );
      assert.match(
        moved,
        /^moved to \/var\/lib\/plant-store\/disk/m,
      );
      const again = await server.fail(CONTAINER.MOVE_STORE);
      assert.match(again, /the store is in \S+\/disk\/plants already$/m);
      await server.ledger.acknowledges(100);
      const back = "/var/lib/plant-store/current";
      const { stderr } = await server.run(
        LET_CP_WAIT,
        interrupted(`plants-move ${back}`, IS_COPYING),
      );
      assert.match(stderr, /nothing has moved: .*\/disk\/plants$/m);
      await server.ledger.acknowledges(100);
      // The connection to the terminal is lost.
      await server.succeed(
        `rm /run/copying; script -qc 'plants-move ${back}; true' /dev/null & terminal=$!`,
        `until ${IS_COPYING}; do sleep 0.02; done`,
        "kill -KILL $terminal; rm /usr/local/bin/cp",
      );
      await server.ledger.acknowledges(100);
      // The service works before the command that was interrupted has ended.
      await server.succeed(`flock /run/plants.lock true; plants-move ${back}`);
      await server.ledger.acknowledges(100);
      await server.succeed(CONTAINER.MOVE_STORE);
      await server.ledger.acknowledges(100);
    });
    await server.assertHasAll();
    // A store that is copied back below an unmounted disk would be hidden later.
    const unmounted = await server.fail(
      `rm -r ${disk}/plants/*; umount -l ${disk}`,
      `mkdir ${disk}/plants`,
      CONTAINER.RESTORE,
    );
    assert.match(unmounted, /nothing has changed: .*: mount \S+\/disk - or/);
    await server.succeed(`rmdir ${disk}/plants; mount ${disk}`);
    // A boot without the disk.
    await server.succeed(
      `docker stop plant-store; umount ${disk}`,
    );
    assert.match(await server.fail(CONTAINER.SERVE), /no such file: /);
    const restored = await server.fail(CONTAINER.RESTORE_BACKUP);
    assert.match(restored, /nothing has changed: .*: mount \S+\/disk - or/);
  },
});

Deno.test({
  name:
    "files that were deleted are copied back from the running container, and no reflex ends it before",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(100);
      await server.succeed(CONTAINER.BACK_UP);
      await server.ledger.acknowledges(100);
      await server.succeed(
        "cp -rp /var/lib/plant-store/current /var/lib/old",
        "rm -r /var/lib/plant-store/*",
      );
      await server.reports("the store fails");
      // It must not end the only copy.
      assert.doesNotMatch(
        await server.fail(CONTAINER.STOP_FOR_GOOD),
        /\.jsonl\.gz$/m,
      );
      // Not even if a copy is in their place.
      for (const copy of ["", "/var/lib/old"]) {
        const refused = await server.fail(
          `[ -z "${copy}" ] || cp -rp ${copy} /var/lib/plant-store/current`,
          CONTAINER.SERVE,
        );
        assert.match(refused, /do NOT stop it: run plants-restore, /);
      }
      assert.match(
        await server.succeed(CONTAINER.CREATE_STORE),
        /^\/var\/lib\//,
      );
      const restored = await server.succeed(CONTAINER.RESTORE);
      assert.match(restored, /^the service has the whole store again$/m);
      await server.ledger.acknowledges(100);
      // Pasted twice.
      assert.match(
        await server.succeed(CONTAINER.RESTORE),
        /^the service has the new store$/m,
      );
      await server.ledger.acknowledges(100);
      // Files that were moved are only named.
      const replaced = await server.fail(
        "cd /var/lib/plant-store; mv current moved; cp -rp moved current",
        `{ ${CONTAINER.SERVE} } || ${CONTAINER.BACK_UP}`,
      );
      assert.match(
        replaced,
        /^(plants: .* do NOT stop it: run plants-restore, .*\n){2}/m,
      );
      const moved = await server.fail(
        "rm -r /var/lib/plant-store/current",
        CONTAINER.RESTORE,
      );
      assert.match(moved, /nothing has changed: .* \S+\/moved\/plants\.db /);
      await server.succeed(
        "cd /var/lib/plant-store; mv moved current",
        CONTAINER.SERVE,
      );
      await server.ledger.acknowledges(100);
    });
    await server.assertHasAll();
  },
});

Deno.test({
  name:
    "a damaged store is restored with its backup, and an interrupted restore changes nothing",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(200);
      await server.succeed(CONTAINER.BACK_UP);
      await server.ledger.acknowledges(200);
      await server.succeed(
        "docker stop plant-store; cd /var/lib/plant-store/current",
        // The last one: the root of the tree has copies that SQLite no longer uses.
        "at=$(grep -obUaP 'Monstera 120(?!\\d)' plants.db | tail -n 1 | cut -d : -f 1)",
        "dd if=/dev/urandom of=plants.db bs=4096 count=1 seek=$((at / 4096)) conv=notrunc",
        "docker start plant-store",
      );
      assert.match(await server.fail(CONTAINER.BACK_UP), /corrupt/);
      const killed = await server.fail(
        `${CONTAINER.RESTORE.trim()} & until [ -d /var/lib/plant-store/current.new ]; do sleep 0.1; done`,
        "! docker restart plant-store; ! plants serve; ! plants remove 1",
        "kill $!; wait $!",
      );
      assert.match(
        killed,
        /^(plants: a restore, a move, a start .* runs: wait for it\n){2}/m,
      );
      const restored = await server.succeed(CONTAINER.RESTORE);
      assert.match(
        restored,
        /a part of the old store cannot be read, .* from the backup, /,
      );
      await server.ledger.acknowledges(100);
      assert.match(
        await server.succeed(
          `rm -r ${olderStores(restored)}`,
          CONTAINER.READ_LOG,
          CONTAINER.PROBE,
        ),
        /^ready$/m,
      );
    });
    await server.assertHasAll();
  },
});

Deno.test({
  name:
    "the plants of a disk that is read-only since an error are copied from it, and restored",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.succeed(CONTAINER.BACK_UP);
      await server.ledger.acknowledges(100);
      // In the words of this page.
      const save = ACCIDENTS.SAVE
        .replace("systemctl stop plant-store", "docker stop plant-store")
        .replace("/etc/plant-store.env", "/etc/plant-store/env");
      const restored = await server.succeed(
        "mount -t tmpfs tmpfs /srv; docker kill plant-store",
        "cd /var/lib; mount --bind plant-store plant-store",
        "mount -o remount,bind,ro plant-store",
        save,
        "umount plant-store",
        ACCIDENTS.RESTORE_SAVED,
      );
      assert.match(restored, /^the service has the new store$/m);
      await server.ledger.acknowledges(100);
    });
    await server.assertHasAll();
  },
});

Deno.test({
  name:
    "a restore of a file leaves out no plant of a container that is just starting",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(100);
      await server.succeed(
        "docker stop plant-store; plants export > file",
        // It has no open file yet, and stores plants as soon as the file is read.
        "docker start plant-store; pid=$(docker inspect -f {{.State.Pid}} plant-store)",
        "kill -STOP $pid; export pid",
        `zcat() { kill -CONT $pid
          until [ $(plants export | wc -l) -gt $(wc -l < file) ]; do :; done
          command zcat "$@"; }; export -f zcat`,
        "plants-restore file || plants serve",
      );
      await server.ledger.acknowledges(100);
    });
    await server.assertHasAll();
  },
});

Deno.test({
  name:
    "a restore replaces a store that is gone only when the operator asks again, and none whose path is misspelt",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(200);
    });
    // By reflex, the container is restarted. It starts again and again.
    await server.succeed(
      CONTAINER.BACK_UP,
      "rm -r /var/lib/plant-store/*; docker restart plant-store",
    );
    for (const _ of [1, 2, 3]) {
      assert.match(
        await server.fail(CONTAINER.RESTORE),
        /^plants-restore: nothing has changed: there is no store at .*plants\.db; the last start had it in \/var\/lib\/plant-store\/current\/plants\.db: see /,
      );
    }
    // Not even the directory above it is left.
    await server.succeed(
      "rm -r /var/lib/plant-store",
      CONTAINER.RESTORE_BACKUP,
    );
    await server.assertHasAll();
    const owner = await server.succeed(
      "stat -c '%u %a' /var/lib/plant-store",
    );
    assert.equal(owner, "65532 700\n");
    // No container is left that knows where the store was.
    const misspelt = await server.fail(
      "docker rm -f plant-store",
      "echo KV_PATH=/var/lib/plant-store/curent/plants.db >> /etc/plant-store/env",
      CONTAINER.RESTORE_BACKUP,
    );
    assert.match(
      misspelt,
      /^plants-restore: nothing has changed: .* there is one here: \/var\/lib\/plant-store\/current\/plants\.db .*Correct KV_PATH, or move the store back$/m,
    );
    await server.succeed(
      "sed -i /KV_PATH/d /etc/plant-store/env; ! ls /var/lib/plant-store/curent",
      CONTAINER.SERVE,
    );
    await server.assertHasAll();
  },
});
