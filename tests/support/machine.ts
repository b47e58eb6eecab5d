/** A Debian with its own systemd, and the service as the handbook deploys it. */
import assert from "node:assert/strict";
import { basename } from "node:path";
import { BackgroundProcess, type Ended } from "./background.ts";
import { Ledger } from "./ledger.ts";
import { newPlants, range } from "./plants.ts";
import { eventually, inParallel, pause } from "./waiting.ts";
import { needs, NSPAWN } from "./needs.ts";
import { STACK, type Target, TOKEN, writeScript } from "./program.ts";
import { blocksIn, ROOT } from "./readme.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { freePort, makeTls } from "./tools.ts";

/** For tests of the commands of the handbook. */
export const onMachine = needs("MACHINE");

/**
 * Returns a block of the handbook, or of a page beside it.
 * @param heading the start of its heading
 * @param index its place below that
 */
export function block(heading: string, index = 0, page = ""): string {
  const blocks = blocksIn(`src/deploy/${page}README.md`);
  const found = blocks.find((it) =>
    it.heading.startsWith(heading) && it.index === index
  );
  assert.ok(found !== undefined, `no block ${index} below ${heading}`);
  return found.text;
}

/** Returns the commands of lines of a crontab. */
export function cronJobs(text: string): string {
  return text.replaceAll(/^ +([\d*/]+ ){5}root /gm, "");
}

/** What a login of root has. */
const LOGIN = {
  HOME: "/root",
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
};

/** Where the machine has the program: the service sees no home. */
const PROGRAM = "/opt/plant-store";

/**
 * Boots a machine that ends with its first process, beside others: nspawn puts all
 * machines into its own control group.
 */
const BOOT = `mount -t tmpfs tmpfs /run
  for top in /sys/fs/cgroup{,/systemd,/unified}; do
    [ ! -e $top/cgroup.procs ] || { mkdir $top/$0 && echo 0 > $top/$0/cgroup.procs; }
  done
  exec systemd-nspawn --machine "$0" "$@"`;

/** A container whose changes are in memory: nothing remains after its end. */
export class Machine implements AsyncDisposable {
  /** For what is sent to the services. */
  readonly ledger = new Ledger();
  readonly #parts = new AsyncDisposableStack();
  readonly #shared = this.#parts.use(new TemporaryDirectory());
  /** The service, for clients on other machines. */
  service: Target = { origin: "" };
  /** The creates of {@link underLoad} that were not answered 200. */
  failures = 0;
  /** The process 1 of the machine. */
  #leader = "";
  #journal: BackgroundProcess | undefined;

  /** Boots a machine with the copies of the section "Deploy". */
  static async boot(): Promise<Machine> {
    const machine = new Machine();
    try {
      await machine.#boot();
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
    return machine;
  }

  /**
   * Returns a machine with a service that has acknowledged 100 plants.
   * @param before commands before the deployment
   */
  static async start(before = ":"): Promise<Machine> {
    const machine = await Machine.boot();
    const token = `echo ${TOKEN} > /etc/plant-store.token && ` +
      "systemctl reload plant-store";
    await machine.succeed(before, block("Deploy"), token);
    await machine.printed(/^reloaded 1 token /m);
    await machine.ledger.store(machine.service, newPlants(range(1n, 100)));
    return machine;
  }

  /** Everything that the services and the backups have logged. */
  get journal(): string {
    return this.#journal?.stderr ?? "";
  }

  /** Returns where the tests have a file of the machine's directory `/mnt`. */
  file(name: string): string {
    return this.#shared.file(name);
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
    const { status, stdout, stderr } = await this.run(...commands);
    const output = stdout + stderr + this.journal;
    assert.equal(status, 0, `${commands.join("\n")}\n${output}`);
    return stdout + stderr;
  }

  /** Does something while clients send creates with random ids. */
  async underLoad<T>(work: () => Promise<T>): Promise<T> {
    let isOver = false;
    function* ids(): Generator<bigint> {
      while (!isOver) yield* crypto.getRandomValues(new BigInt64Array(1));
    }
    const load = inParallel(ids(), async (id) => {
      const plant = { name: `Ficus ${id}` };
      const { status } = await this.ledger.send(this.service, { id, plant });
      if (status !== 200) this.failures++;
      await pause(status === 200 ? 20 : 50);
    }, 4);
    try {
      return await work();
    } finally {
      isOver = true;
      await load;
    }
  }

  /** Sends creates until 100 more are acknowledged. */
  async load(): Promise<void> {
    const { acknowledged } = this.ledger;
    const count = acknowledged.size + 100;
    await this.underLoad(() =>
      eventually((size) => size >= count, () => acknowledged.size)
    );
  }

  /** Waits for something in the journal. */
  printed(pattern: RegExp, from = 0): Promise<RegExpExecArray> {
    assert.ok(this.#journal !== undefined);
    return this.#journal.printed(pattern, from);
  }

  /** Asserts that the service has every acknowledged plant, and no other one. */
  async assertHasAll(): Promise<void> {
    this.ledger.assertLines(await this.succeed("plants export"));
    await this.ledger.replay(this.service);
    await this.ledger.settle(this.service);
  }

  /** Puts a certificate where the configurations have it; returns it. */
  async certify(): Promise<string> {
    const { cert } = await makeTls(this.#shared, "nginx");
    await this.succeed(
      "for end in crt key; do cp /mnt/nginx.$end /etc/ssl/plants.example.com.$end; done",
    );
    return cert;
  }

  /** Cuts the power. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }

  #spawn(script: string): BackgroundProcess {
    const enter = ["-a", "-t", this.#leader, "--wdns=/root"];
    const args = [...enter, "bash", "-c", script];
    return new BackgroundProcess("nsenter", {
      args,
      clearEnv: true,
      env: LOGIN,
    });
  }

  async #boot(): Promise<void> {
    const shared = this.#shared;
    const name = basename(shared.path);
    this.#parts.defer(async () => {
      const groups = `find /sys/fs/cgroup -depth -path '*/${name}*' -type d`;
      const script = `while ${groups} | grep -q .; do ${groups} -delete; done`;
      await new BackgroundProcess("sh", { args: ["-c", script] }).ended();
    });
    const binary = Deno.env.get("PLANT_STORE");
    writeScript(shared.file("plant-store"), {
      [Deno.execPath()]: "/opt/program",
      [ROOT.pathname]: `${PROGRAM}/`,
    });
    const process = this.#parts.use(
      new BackgroundProcess("unshare", {
        args: [
          ...["--fork", "--pid", "--mount-proc", "--kill-child"],
          ...["bash", "-c", BOOT, name, ...NSPAWN],
          ...["--boot", "--console=pipe", "--private-network"],
          `--bind=${shared.path}:/mnt`,
          `--bind-ro=${ROOT.pathname}:${PROGRAM}`,
          `--bind-ro=${binary ?? Deno.execPath()}:/opt/program`,
        ],
        env: { SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: "1" },
      }),
    );
    const find =
      `leader=$(pgrep -x systemd -P $(pgrep -P ${process.process.pid})) &&
      nsenter -a -t $leader systemctl is-system-running && echo $leader`;
    const { stdout } = await process.causes(eventually(
      ({ status }) => status === 0,
      () => new BackgroundProcess("bash", { args: ["-c", find] }).ended(),
    ));
    [, this.#leader = ""] = stdout.trimEnd().split("\n");
    const units = ["", "-backup", "@8001", "@8002"]
      .map((end) => `-t plant-store${end}`).join(" ");
    this.#journal = this.#spawn(
      `exec journalctl -f --no-tail -o cat ${units} >&2`,
    );
    this.service = await this.connect(8000);
    const program = binary === undefined ? "/mnt/plant-store" : "/opt/program";
    await this.succeed(
      `cp ${program} plant-store; cp -r ${PROGRAM}/src/deploy .`,
    );
  }
}
