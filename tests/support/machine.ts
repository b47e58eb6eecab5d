/** A Debian with its own systemd, and the service as the handbook deploys it. */
import assert from "node:assert/strict";
import { basename } from "node:path";
import project from "../../deno.json" with { type: "json" };
import { BackgroundProcess, type Ended, outputOf } from "./background.ts";
import { HANDBOOK } from "./handbook.ts";
import { Ledger } from "./ledger.ts";
import { NSPAWN } from "./needs.ts";
import { BINARY, STACK, type Target, TOKEN } from "./program.ts";
import { ROOT } from "./readme.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { freePort } from "./tools.ts";
import { eventually, pause } from "./waiting.ts";

/** The directory of the version that was unpacked last. */
export const IN_VERSION = 'cd "$(ls -d /root/plant-store-2* | tail -n 1)"';

/** Prints the process of the service, which a restart changes. */
export const MAIN_PID = "systemctl show -P MainPID plant-store";

/** The steps of the handbook that make a running service. */
export const DEPLOY = HANDBOOK.GET + HANDBOOK.INSTALL + HANDBOOK.CREATE_STORE +
  HANDBOOK.START;

/** Ends commands with Ctrl-C, as a terminal does, as soon as something is true. */
export function interrupted(commands: string, when: string): string {
  // A terminal sends SIGINT to every process of its group.
  return `env --default-signal=INT setsid bash -c '${commands}' & command=$!
  until ${when}; do sleep 0.02; done
  kill -INT -- -$command; wait $command`;
}

/** Where the machine has the program: the service sees no home. */
const PROGRAM = "/opt/plant-store";

/** Makes the archive of a release, as the workflow of a release does. */
const RELEASE = `tar=plant-store-x86_64-linux.tar.gz
  tar -czf $tar -C /media plant-store -C ${PROGRAM}/src deploy
  sha256sum $tar > SHA256SUMS`;

/** Returns a script that runs the program: the binary, or `deno task serve`. */
function programScript(): string {
  const [variables, run = ""] = project.tasks.serve.command.split(" deno ");
  const args = BINARY !== undefined
    ? ""
    : run.replace("main.ts", `${PROGRAM}/main.ts`);
  return `#!/bin/sh\nexport ${variables}\nexec /opt/program ${args} "$@"\n`;
}

/**
 * Boots a machine that ends with its first process, beside others: nspawn puts all
 * machines into its own control group.
 */
const BOOT = `mount -t tmpfs tmpfs /run
  for top in /sys/fs/cgroup{,/systemd,/unified}; do
    [ ! -e $top/cgroup.procs ] || { mkdir $top/$0 && echo 0 > $top/$0/cgroup.procs; }
  done
  exec systemd-nspawn --machine "$0" "$@"`;

/**
 * A container whose changes are in memory: nothing remains after its end. Its
 * clients create plants all the time.
 */
export class Machine implements AsyncDisposable {
  /** For what is sent to the service. */
  readonly ledger = new Ledger();
  /** The service, for clients on other machines. */
  service: Target = { origin: "" };
  readonly #parts = new AsyncDisposableStack();
  /** The directory `/media` of the machine. */
  readonly media = this.#parts.use(new TemporaryDirectory());
  /** The process 1 of the machine. */
  #leader = "";
  #journal: BackgroundProcess | undefined;
  #areClientsRunning = false;
  #clients: readonly Promise<void>[] = [];

  /** Boots a machine, deploys the service, and starts its clients. */
  static async deploy(): Promise<Machine> {
    await using parts = new AsyncDisposableStack();
    const machine = parts.use(new Machine());
    await machine.#boot();
    const token = `echo ${TOKEN} > /etc/plant-store.token`;
    const reload = "systemctl reload plant-store";
    // At 05:30, a test would find one more backup.
    const stop = "systemctl stop plant-store-backup.timer";
    await machine.succeed(RELEASE, DEPLOY, token, reload, stop);
    await machine.reports(/^reloaded 1 token /m);
    machine.#startClients();
    await machine.ledger.acknowledges(100);
    parts.move();
    return machine;
  }

  /** Everything that the service and the backups have logged. */
  get journal(): string {
    return this.#journal?.stderr ?? "";
  }

  /**
   * Returns an address at which clients on other machines reach a port.
   * @param cert that of a server with https
   */
  async connect(port: number, cert?: string): Promise<Target> {
    const address = `127.0.0.1:${freePort()}`;
    const proxy = ["/lib/systemd/systemd-socket-proxyd", `127.0.0.1:${port}`];
    const enter = ["nsenter", "-n", "-t", this.#leader, ...proxy];
    const args = ["-l", address, ...enter];
    const process = new BackgroundProcess("systemd-socket-activate", { args });
    await this.#parts.use(process).printed(/^Listening /);
    if (cert === undefined) return { origin: `http://${address}` };
    const httpClient = this.#parts.use(
      Deno.createHttpClient({ caCerts: [cert] }),
    );
    return { origin: `https://${address}`, httpClient };
  }

  /** Runs commands in one shell of root, as if they were pasted. */
  async run(...commands: string[]): Promise<Ended> {
    const ended = await this.#spawn(commands.join("\n")).ended();
    assert.doesNotMatch(ended.stderr, STACK);
    return ended;
  }

  /** Runs commands, of which the last one succeeds; returns what they print. */
  async succeed(...commands: string[]): Promise<string> {
    const ended = await this.run(...commands);
    return outputOf(ended, `${commands.join("\n")}\n${this.journal}`);
  }

  /** Waits for something in the journal. */
  async reports(pattern: RegExp, from = 0): Promise<void> {
    await this.#journal?.printed(pattern, from);
  }

  /** Asserts that the store has every acknowledged plant, and no strange one. */
  async assertHasAll(): Promise<void> {
    await this.#stopClients();
    assert.doesNotMatch(this.journal, STACK);
    this.ledger.assertLines(await this.succeed("plants export"));
    await this.ledger.settle(this.service);
    this.#startClients();
  }

  /** Stops the clients, then cuts the power. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stopClients();
    await this.#parts.disposeAsync();
  }

  #startClients(): void {
    this.#areClientsRunning = true;
    this.#clients = Array.from({ length: 4 }, async () => {
      while (this.#areClientsRunning) {
        const [id = 0n] = crypto.getRandomValues(new BigInt64Array(1));
        const newPlant = { id, plant: { name: `Ficus ${id}` } };
        const { status } = await this.ledger.send(this.service, newPlant);
        await pause(status === 200 ? 20 : 50);
      }
    });
  }

  async #stopClients(): Promise<void> {
    this.#areClientsRunning = false;
    await Promise.all(this.#clients);
  }

  #spawn(script: string): BackgroundProcess {
    const enter = ["-a", "-t", this.#leader, "--wdns=/root"];
    const args = [...enter, "bash", "-l", "-c", script];
    const env = { HOME: "/root" };
    return new BackgroundProcess("nsenter", { args, clearEnv: true, env });
  }

  async #boot(): Promise<void> {
    const name = basename(this.media.path);
    const groups = `find /sys/fs/cgroup -depth -path '*/${name}*' -type d`;
    const remove = ["-c", `until ${groups} -delete; do :; done`];
    this.#parts.defer(async () => {
      await new BackgroundProcess("sh", { args: remove }).ended();
    });
    const program = BINARY ?? Deno.execPath();
    const script = this.media.file("plant-store");
    Deno.writeTextFileSync(script, programScript(), { mode: 0o755 });
    const process = this.#parts.use(
      new BackgroundProcess("unshare", {
        args: [
          "--fork",
          "--pid",
          "--mount-proc",
          "--kill-child",
          "bash",
          "-c",
          BOOT,
          name,
          ...NSPAWN,
          "--boot",
          "--console=pipe",
          "--private-network",
          `--bind=${this.media.path}:/media`,
          `--bind-ro=${ROOT.pathname}:${PROGRAM}`,
          `--bind-ro=${program}:/opt/program`,
        ],
        env: { SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: "1" },
      }),
    );
    const find =
      `leader=$(pgrep -x systemd -P $(pgrep -P ${process.process.pid}))
      nsenter -a -t $leader systemctl is-system-running && echo $leader`;
    const { stdout } = await process.causes(eventually(
      () => new BackgroundProcess("bash", { args: ["-c", find] }).ended(),
      ({ status }) => status === 0,
    ));
    [, this.#leader = ""] = stdout.trimEnd().split("\n");
    this.#journal = this.#spawn(
      "exec journalctl -f --no-tail -o cat -t plant-store -t plant-store-backup >&2",
    );
    this.service = await this.connect(8000);
  }
}
