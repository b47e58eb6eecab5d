/**
 * The page about containers: its blocks under load, with the real Docker Compose on
 * Podman. What differs from Docker: Podman needs a timer of systemd for its health
 * checks, so a loop runs them; BuildKit is missing; a kill by the API is no stop.
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
  while sleep 1; do docker healthcheck run plant-store-plant-store-1; done > /dev/null 2>&1 &
  cp -r $1/src/deploy $2 version; echo made >&2; exec sleep infinity`;

/** The files of the store on the server. */
const DATA = "$(docker volume inspect -f '{{.Mountpoint}}' plant-store_store)";

/** Prints the number of the process of the service. */
const PID =
  "docker inspect -f '{{.State.Pid}}' plant-store-plant-store-1";

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
    // There is no store to start with.
    await this.fail(CONTAINER.START);
    assert.match(await this.log(), /\/data\/plants\.db: no such file: /);
    const created = await this.succeed(
      "docker compose down",
      CONTAINER.CREATE_STORE,
    );
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
    "a container is deployed, configured, backed up, killed and upgraded, and loses nothing",
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
      // The second day: nothing that is pasted again changes anything.
      const pid = await server.succeed(PID);
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
      assert.doesNotMatch(again, /created a new store/);
      assert.match(again, /-rw------- .*\/?plants-[\d-]+\.jsonl\.gz$/m);
      assert.equal(await server.succeed(PID), pid);
      await server.ledger.acknowledges(100);
      // A backup that fails has no final name.
      await server.fail(
        "rm /var/backups/plant-store/*; docker compose pause",
        `mv ${DATA} ${DATA}.away; docker compose unpause`,
        CONTAINER.BACK_UP,
      );
      await server.succeed(`mv ${DATA}.away ${DATA}`);
    });
    await server.assertHasAll();
  },
});
