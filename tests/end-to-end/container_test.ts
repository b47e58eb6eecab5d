/**
 * The page about containers: its blocks under load, with the real Docker Compose and
 * Podman. What differs from Docker:
 *
 * - A timer of systemd runs the health checks of Podman; here a loop does.
 * - Podman's API has no BuildKit, and no exit status of `run --rm`: no block uses it.
 * - `up` makes the container again, also if nothing has changed.
 */
import assert from "node:assert/strict";
import {
  BackgroundProcess,
  type Ended,
  outputOf,
} from "../support/background.ts";
import { CONTAINER } from "../support/handbook.ts";
import { createDuring } from "../support/instances.ts";
import { Ledger } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import {
  assertSucceeded,
  BINARY,
  type Target,
  TOKEN,
} from "../support/program.ts";
import { ROOT } from "../support/readme.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { freePort } from "../support/tools.ts";

/**
 * Makes a place for root whose files and containers are its own. It has the images of
 * this machine, and an unpacked release.
 */
const PLACE = `set -e; cd $0; mkdir bin etc storage version work
  mount -t tmpfs tmpfs work; mkdir work/etc work/upper; mount --bind storage storage
  mount -t overlay -o lowerdir=/etc,upperdir=$PWD/work/upper,workdir=$PWD/work/etc overlay /etc
  images=$(docker info -f '{{.Store.GraphRoot}}')
  printf '%s\\n' '#!/bin/sh' "[ \\$1 = compose ] ||
    set -- --root $PWD/storage --storage-opt additionalimagestore=$images \\"\\$@\\"
    exec $(command -v docker) \\"\\$@\\"" > bin/docker
  chmod 755 bin/docker
  for dir in /run /srv /var/backups; do mount -t tmpfs tmpfs $dir; done
  mkdir -p /srv/plant-store /etc/cron.daily
  PATH=$PWD/bin:$PATH
  docker system service -t 0 unix:///run/docker.sock > /dev/null 2>&1 &
  until [ -e /run/docker.sock ]; do sleep 0.1; done
  while sleep 1; do docker healthcheck run plant-store-plant-store-1 || :; done > /dev/null 2>&1 &
  cp -r $1/src/deploy $2 version; echo made >&2; exec sleep infinity`;

/** The files of the store on the server. */
const DATA = "$(docker volume inspect -f '{{.Mountpoint}}' plant-store_store)";

/** Prints the number of the process of the service. */
const PID = "docker inspect -f '{{.State.Pid}}' plant-store-plant-store-1";

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
      await this.run("docker compose down");
    });
    await this.putVersion();
    await this.succeed(
      `sed -i s/127.0.0.1:8000/127.0.0.1:${this.#port}/ compose.yaml`,
      CONTAINER.MAKE_TOKEN,
      "[ $(stat -c '%a %s' secrets/token) = '644 65' ]",
      `echo ${TOKEN} > secrets/token`,
      CONTAINER.BUILD,
    );
    const created = await this.succeed(CONTAINER.CREATE_STORE);
    assert.match(created, /^created a new store in \/data\/plants\.db$/m);
    await this.succeed(CONTAINER.START);
  }

  /** Runs the first block of the page in the directory of a version. */
  async putVersion(): Promise<void> {
    await this.succeed(`cd ${this.#path}/version`, CONTAINER.PUT);
  }

  /** Runs commands in one shell of root, in the directory of the service. */
  run(...commands: readonly string[]): Promise<Ended> {
    const enter = `exec nsenter --mount --pid --wdns=/srv/plant-store \
      -t $(pgrep -P ${this.#place.process.pid}) bash -c "$0"`;
    return new BackgroundProcess("sh", {
      args: ["-c", enter, commands.join("\n")],
      env: {
        PATH: `${this.#path}/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
        DOCKER_HOST: "unix:///run/docker.sock",
        DOCKER_BUILDKIT: "0",
      },
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

  /** Returns the log of the service. */
  log(): Promise<string> {
    return this.succeed("docker compose logs --no-log-prefix");
  }

  /** Waits until the log reports something. */
  async reports(text: string): Promise<void> {
    const find = `docker compose logs | grep '${text}'`;
    await this.succeed(`until ${find}; do sleep 0.2; done`);
  }

  /** Kills the service, which its container restarts. */
  async kill(): Promise<void> {
    await this.succeed(`kill -KILL $(${PID})`);
  }

  /** Returns commands that damage the store, with the service stopped. */
  damage(): string {
    return `docker compose stop; cd ${DATA}
      # The last one: the root of the tree has copies that SQLite no longer uses.
      at=$(grep -obUaP 'Monstera 120(?!\\d)' plants.db | tail -n 1 | cut -d : -f 1)
      dd if=/dev/urandom of=plants.db bs=4096 count=1 seek=$((at / 4096)) conv=notrunc
      cd /srv/plant-store; docker compose start`;
  }

  /** Asserts that the start after an accident is refused, and creates no store. */
  async refusesStart(accident: string): Promise<void> {
    await this.fail(
      accident,
      CONTAINER.START.replace("--wait-timeout 60", "--wait-timeout 5"),
    );
    assert.match(await this.log(), /\/data\/plants\.db: no such file: /);
    assert.equal(await this.succeed(`ls ${DATA}`), "");
  }

  /** Asserts that the store has every acknowledged plant, and no strange one. */
  async assertHasAll(): Promise<void> {
    const exported = await this.run(
      "docker compose exec -T plant-store /plant-store export < /dev/null",
    );
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
    "a container is deployed, configured, backed up, upgraded and killed, and loses nothing",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    server.ledger.mayStore({ id: -1n, plant: { name: "Monstera" } });
    const reply = await server.succeed(
      CONTAINER.CREATE_PLANT.replace('"id": 1', '"id": -1')
        .replace("http://127.0.0.1:8000", server.target.origin),
    );
    assert.match(reply, /^HTTP\/1\.1 200 OK$/m);
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(100);
      // The second day: nothing that is pasted again changes the store or the token.
      await server.putVersion();
      const again = await server.succeed(
        CONTAINER.MAKE_TOKEN,
        CONTAINER.CREATE_STORE,
        CONTAINER.START,
        CONTAINER.INSTALL_BACKUP,
        CONTAINER.INSTALL_BACKUP,
        CONTAINER.BACK_UP,
        CONTAINER.BACK_UP,
        `[ "$(cat secrets/token)" = ${TOKEN} ]`,
      );
      assert.match(again, /^0 created, 0 already stored/m);
      assert.doesNotMatch(again, /created a new store/);
      assert.match(again, / plants-[\d-]+\.jsonl\.gz$/m);
      await server.ledger.acknowledges(100);
      // A token is rotated with an editor, which replaces the file.
      const loaded = await server.succeed(
        "cp secrets/token new; echo second >> new; mv new secrets/token",
        CONTAINER.LOAD_TOKENS,
      );
      assert.match(loaded, /reloaded 2 tokens from \/secrets\/token: /m);
      await server.kill();
      await server.ledger.acknowledges(100);
      // A setting that is wrong stops nothing.
      const setting = "s/^ *# BASE_URL:.*/      LOG_FORMAT: FORMAT/";
      const refused = await server.fail(
        `sed -i '${setting}' compose.yaml`,
        CONTAINER.APPLY_SETTINGS,
      );
      assert.match(refused, /LOG_FORMAT/);
      await server.ledger.acknowledges(100);
      const applied = await server.succeed(
        "sed -i 's/LOG_FORMAT: .*/LOG_FORMAT: json/' compose.yaml",
        CONTAINER.APPLY_SETTINGS,
      );
      assert.match(applied, /^logs as json \(LOG_FORMAT\)$/m);
      await server.ledger.acknowledges(100);
      await server.putVersion();
      await server.succeed(CONTAINER.UPGRADE);
      await server.ledger.acknowledges(100);
      await server.kill();
      await server.ledger.acknowledges(100);
    });
    await server.assertHasAll();
    const corrected = await server.succeed(
      CONTAINER.CORRECT.replace('"id": 1', '"id": -1'),
    );
    assert.match(corrected, /^1 plant replaced$/m);
  },
});

Deno.test({
  name: "a backup that fails does not get its final name",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(300);
    });
    await server.succeed(CONTAINER.INSTALL_BACKUP);
    // The export fails after some plants, and then before the first one.
    for (
      const [accident, hasPlants] of [
        [server.damage(), true],
        ["docker compose down", false],
      ] as const
    ) {
      await server.fail(accident, CONTAINER.BACK_UP);
      const found = await server.succeed(
        "cd /var/backups/plant-store; ls; zcat < *.partial",
      );
      assert.doesNotMatch(found, /gz$/m);
      assert.equal(found.includes("Monstera"), hasPlants);
    }
  },
});

Deno.test({
  name:
    "a store that is whole is moved to a new file, and the service goes on with all plants",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(100);
      await server.succeed(CONTAINER.INSTALL_BACKUP, CONTAINER.BACK_UP);
      await server.ledger.acknowledges(100);
      for (let pasted = 0; pasted < 2; pasted++) {
        const restored = await server.succeed(
          CONTAINER.EXPORT_OLD_STORE,
          CONTAINER.IMPORT,
          CONTAINER.USE_NEW_STORE,
        );
        assert.match(restored, /^created a new store in \/data\/plants-/m);
        await server.ledger.acknowledges(100);
      }
    });
    await server.assertHasAll();
  },
});

Deno.test({
  name: "a damaged store is restored with its backup",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(200);
      await server.succeed(CONTAINER.INSTALL_BACKUP, CONTAINER.BACK_UP);
      await server.ledger.acknowledges(200);
      await server.succeed(server.damage());
      assert.match(await server.fail(CONTAINER.BACK_UP), /corrupt/);
      const restored = await server.succeed(
        CONTAINER.EXPORT_OLD_STORE,
        CONTAINER.IMPORT,
        CONTAINER.USE_NEW_STORE,
      );
      assert.match(restored, /cannot be read: the database is corrupt/);
      await server.ledger.acknowledges(100);
    });
    await server.assertHasAll();
  },
});

Deno.test({
  name:
    "a volume that was removed is no empty store after a start, and its backup is restored",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      await server.ledger.acknowledges(200);
    });
    await server.succeed(CONTAINER.INSTALL_BACKUP, CONTAINER.BACK_UP);
    await server.refusesStart("docker compose down -v");
    await server.refusesStart("docker compose restart");
    const restored = await server.succeed(
      `${CONTAINER.EXPORT_OLD_STORE}`,
      CONTAINER.IMPORT,
      CONTAINER.USE_NEW_STORE,
    );
    assert.match(restored, /^0 old\.jsonl$/m);
    await server.assertHasAll();
  },
});

Deno.test({
  name:
    "the plants of files that were deleted are saved by the service, and imported",
  ignore: isMissing("container"),
  async fn() {
    await using server = await Server.deploy();
    await createDuring([server.target], server.ledger, async () => {
      // Of these files, one or all are deleted; the second loss is of the new store.
      for (const files of ["*", "*.db-wal", "*.db"]) {
        await server.ledger.acknowledges(100);
        await server.succeed(`rm ${DATA}/${files}`);
        await server.reports("saved .* plants of");
        await server.succeed(
          CONTAINER.IMPORT_SAVED,
          // Pasted again.
          "sleep 1",
          CONTAINER.IMPORT_SAVED,
          CONTAINER.USE_NEW_STORE,
        );
      }
      await server.ledger.acknowledges(100);
    });
    await server.assertHasAll();
  },
});
