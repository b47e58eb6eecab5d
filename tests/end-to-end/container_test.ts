/**
 * The page about containers: its blocks under load, with the real Docker Compose and
 * Podman. What differs from Docker:
 *
 * - A timer of systemd runs the health checks of Podman; here a loop does.
 * - Podman's API has no BuildKit, and no exit status of `run --rm`: no block uses it.
 * - `up` makes the container again, also if nothing has changed.
 * - A container with `ulimits` needs `nproc`, too, if root may not raise limits.
 * - `stop` does not end a container that fails at each start.
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
import { BINARY, type Target, TOKEN } from "../support/program.ts";
import { ROOT } from "../support/readme.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { freePort } from "../support/tools.ts";

/**
 * Makes a place for root whose files and containers are its own. It has the images of
 * this machine, and an unpacked release.
 */
const PLACE = `set -e; cd $0; mkdir bin etc storage work
  mount -t tmpfs tmpfs work; mkdir work/etc work/upper; mount --bind storage storage
  mount -t overlay -o lowerdir=/etc,upperdir=$PWD/work/upper,workdir=$PWD/work/etc overlay /etc
  images=$(docker info -f '{{.Store.GraphRoot}}')
  printf '%s\\n' '#!/bin/sh' "[ \\$1 = compose ] ||
    set -- --root $PWD/storage --storage-opt additionalimagestore=$images \\"\\$@\\"
    exec $(command -v docker) \\"\\$@\\"" > bin/docker
  chmod 755 bin/docker
  for dir in /run /srv /mnt; do mount -t tmpfs tmpfs $dir; done
  mkdir -p /srv/plant-store /etc/cron.daily /mnt/plants /mnt/version
  mount -t tmpfs tmpfs /mnt/plants
  PATH=$PWD/bin:$PATH
  docker system service -t 0 unix:///run/docker.sock > /dev/null 2>&1 &
  until [ -e /run/docker.sock ]; do sleep 0.1; done
  while sleep 1; do docker healthcheck run plant-store-plant-store-1 || :; done > /dev/null 2>&1 &
  cp -r $1/src/deploy $2 /mnt/version; echo made >&2; exec sleep infinity`;

/** Runs a script in namespaces of its own. */
const UNSHARE =
  'exec unshare --mount --pid --fork --mount-proc --kill-child bash -c "$0" "$@"';

/** Enters the directory of a version. Its first block enters that of the service. */
const IN_VERSION = "cd /mnt/version";

/** The container of the service. */
const NAME = "plant-store-plant-store-1";

/** The directory of the store on the server. */
const DATA = "$(. ./.env; docker volume inspect -f '{{.Mountpoint}}' $STORE)";

/** A server whose services run in containers. */
class Server implements AsyncDisposable {
  readonly ledger = new Ledger();
  readonly #port = freePort();
  /** The service. */
  readonly target: Target = { origin: `http://127.0.0.1:${this.#port}` };
  readonly #stack = new AsyncDisposableStack();
  readonly #path = this.#stack.use(new TemporaryDirectory()).path;
  readonly #place = this.#stack.use(
    new BackgroundProcess("sh", {
      args: ["-c", UNSHARE, PLACE, this.#path, ROOT.pathname, BINARY ?? ""],
    }),
  );

  /** Deploys a service as the page says. */
  static async deploy(): Promise<Server> {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(new Server());
    await server.#place.printed(/^made$/m);
    await server.succeed(
      IN_VERSION,
      CONTAINER.PUT,
      `sed -i 's/127.0.0.1:8000/127.0.0.1:${server.#port}/
        s/ulimits:/&\\n      nproc: 8192/' compose.yaml`,
      CONTAINER.MAKE_TOKEN,
      "stat -c '%a %s' secrets/token | grep -x '644 65' &&",
      `echo ${TOKEN} > secrets/token &&`,
      CONTAINER.BUILD,
    );
    const created = await server.succeed(CONTAINER.CREATE_STORE);
    assert.match(created, /^created a new store in \/data\/plants\.db$/m);
    await server.succeed(CONTAINER.START);
    stack.move();
    return server;
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

  /** Makes a new store as the page says. */
  restore(
    imports: readonly string[],
    volume = CONTAINER.MAKE_VOLUME,
  ): Promise<string> {
    return this.succeed(
      CONTAINER.READ_OLD_STORE,
      volume,
      ...imports,
      CONTAINER.USE_NEW_STORE,
    );
  }

  /** Kills the service, which its container restarts, and waits for creates. */
  async kill(): Promise<void> {
    await this.succeed(
      `kill -KILL $(docker inspect -f '{{.State.Pid}}' ${NAME})`,
    );
    await this.ledger.acknowledges(100);
  }

  /** Asserts that the store has every acknowledged plant, and no strange one. */
  async assertHasAll(): Promise<void> {
    const lines = await this.run(
      "docker compose exec -T plant-store /plant-store export < /dev/null",
    );
    this.ledger.assertLines(outputOf(lines, "an export"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.run("docker compose down");
    await this.#stack.disposeAsync();
  }
}

/** Damages a store of more than 120 plants, with its service stopped. */
const DAMAGE = `docker compose stop; cd ${DATA}
  # The last one: the root of the tree has copies that SQLite no longer uses.
  at=$(grep -obUaP 'Monstera 120(?!\\d)' plants.db | tail -n 1 | cut -d : -f 1)
  dd if=/dev/urandom of=plants.db bs=4096 count=1 seek=$((at / 4096)) conv=notrunc
  cd /srv/plant-store; docker compose start`;

/** Returns each block two times, as if it were pasted again. */
function twice(...blocks: readonly string[]): string[] {
  return blocks.flatMap((block) => [block, block]);
}

/** Tests what happens to a service that was deployed as the page says. */
function test(name: string, run: (server: Server) => Promise<void>): void {
  Deno.test({
    name,
    ignore: isMissing("container"),
    async fn() {
      await using server = await Server.deploy();
      await run(server);
    },
  });
}

test("a container is deployed, configured, backed up, upgraded and killed, and loses nothing", async (server) => {
  const { ledger } = server;
  ledger.mayStore({ id: -1n, plant: { name: "Monstera", tag: "climber" } });
  const reply = await server.succeed(
    CONTAINER.CREATE_PLANT.replace('"id": 1', '"id": -1')
      .replace("http://127.0.0.1:8000", server.target.origin),
  );
  assert.match(reply, /^HTTP\/1\.1 200 OK$/m);
  await createDuring([server.target], ledger, async () => {
    await ledger.acknowledges(100);
    // Nothing that is pasted on the second day changes the store or the token.
    const again = await server.succeed(
      IN_VERSION,
      CONTAINER.PUT,
      CONTAINER.MAKE_TOKEN,
      CONTAINER.CREATE_STORE,
      "docker compose down --volumes",
      ...twice(CONTAINER.START, CONTAINER.INSTALL_BACKUP, CONTAINER.BACK_UP),
      `[ "$(cat secrets/token)" = ${TOKEN} ]`,
    );
    assert.doesNotMatch(again, /created a new store/);
    assert.match(again, / plants-[\d-]{17}\.jsonl\.gz$/m);
    await ledger.acknowledges(100);
    const loaded = await server.succeed(
      ...twice(CONTAINER.ADD_TOKEN),
      CONTAINER.LOAD_TOKENS,
    );
    assert.match(loaded, /reloaded 3 tokens from \/secrets\/token: /m);
    await server.kill();
    // A setting that is wrong stops nothing.
    const refused = await server.fail(
      "sed -i 's/LOG_FORMAT: .*/LOG_FORMAT: FORMAT/' compose.yaml",
      CONTAINER.APPLY_SETTINGS,
    );
    assert.match(refused, /LOG_FORMAT/);
    await ledger.acknowledges(100);
    await server.succeed(
      "sed -i 's/LOG_FORMAT: .*/LOG_FORMAT: json/' compose.yaml",
      ...twice(CONTAINER.APPLY_SETTINGS),
    );
    await ledger.acknowledges(100);
    await server.succeed(
      IN_VERSION,
      CONTAINER.PUT,
      ...twice(CONTAINER.BUILD, CONTAINER.START),
    );
    await ledger.acknowledges(100);
    await server.kill();
  });
  await server.assertHasAll();
  const corrected = await server.succeed(
    ...twice(CONTAINER.CORRECT.replace('"id": 1', '"id": -1')),
  );
  assert.match(corrected, /^1 plant replaced$/m);
  const status = await server.succeed(CONTAINER.PRINT_STATUS);
  assert.match(status, /^logs as json \(LOG_FORMAT\)\nplants-.*\.gz\n\d+$/m);
});

test("a store that is whole is moved to a new volume, and to another disk", async (server) => {
  const volumes = [CONTAINER.MAKE_VOLUME, CONTAINER.MAKE_VOLUME_ON_DISK];
  const imports = twice(CONTAINER.IMPORT_OLD_STORE);
  await createDuring([server.target], server.ledger, async () => {
    for (const volume of volumes) {
      await server.ledger.acknowledges(100);
      await server.restore(imports, volume);
    }
    await server.ledger.acknowledges(100);
  });
  await server.assertHasAll();
  await server.succeed("[ -s /mnt/plants/$(cut -d = -f 2 .env)/plants.db ]");
});

test("a damaged store has no new backup, and is restored with the last of 30", async (server) => {
  await createDuring([server.target], server.ledger, async () => {
    await server.ledger.acknowledges(200);
    await server.succeed(
      "mkdir backups; touch backups/plants-1999-{1..40}.jsonl.gz",
      CONTAINER.INSTALL_BACKUP,
      CONTAINER.BACK_UP,
    );
    await server.ledger.acknowledges(200);
    await server.fail(DAMAGE, CONTAINER.BACK_UP);
    assert.equal(await server.succeed("ls backups | wc -l"), "30\n");
    const restored = await server.restore(
      twice(CONTAINER.IMPORT_OLD_STORE, CONTAINER.IMPORT_BACKUP),
    );
    assert.match(
      restored,
      /cannot be read \(corrupt\): the database is corrupt/,
    );
    await server.ledger.acknowledges(100);
  });
  await server.assertHasAll();
});

test("another machine starts with the last backup, and not without it", async (server) => {
  await createDuring([server.target], server.ledger, async () => {
    await server.ledger.acknowledges(200);
  });
  const refused = await server.fail(
    ...twice(CONTAINER.INSTALL_BACKUP, CONTAINER.BACK_UP),
    "docker compose down; docker volume rm plant-store",
    CONTAINER.CREATE_STORE,
    CONTAINER.START,
  );
  assert.match(refused, /external volume "plant-store" not found/);
  await server.succeed(
    CONTAINER.BUILD,
    CONTAINER.READ_BACKUP.replace("FILE", "plants-2*"),
    CONTAINER.MAKE_VOLUME,
    // Without its plants, a new volume is no store.
    CONTAINER.IMPORT_BACKUP,
    CONTAINER.IMPORT_OLD_STORE,
    CONTAINER.USE_NEW_STORE,
  );
  await server.assertHasAll();
});

test("a service whose files were deleted saves its plants at a stop, for a restore", async (server) => {
  await createDuring([server.target], server.ledger, async () => {
    for (const files of ["*", "*.db-wal", "*.db"]) {
      await server.ledger.acknowledges(100);
      await server.succeed(`rm ${DATA}/${files}; docker stop ${NAME}`);
      await server.restore([CONTAINER.IMPORT_OLD_STORE]);
    }
    await server.ledger.acknowledges(100);
  });
  await server.assertHasAll();
});
