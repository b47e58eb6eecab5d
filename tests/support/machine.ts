/** A machine with the service as the handbook deploys it, but without systemd. */
import assert from "node:assert/strict";
import { BackgroundProcess, type Ended } from "./background.ts";
import { Ledger, newPlants, range } from "./load.ts";
import { needs } from "./needs.ts";
import {
  Program,
  type ProgramOptions,
  STACK,
  TOKEN,
  writeScript,
} from "./program.ts";
import { blockOf, read } from "./readme.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { freePort } from "./tools.ts";

/** The tools of a server. */
export const SERVER_TOOLS = ["Linux", "bash", "curl"] as const;

/** For tests of the commands of the handbook. */
export const onMachine = needs(...SERVER_TOOLS);

const SERVICE_UNIT = read("src/deploy/plant-store.service");
const BACKUP_UNIT = read("src/deploy/plant-store-backup.service");

interface MachineOptions {
  /** The file system of everything. */
  readonly disk?: TemporaryDirectory;
  /** Whether the path of the store is a link to `real.db`. */
  readonly isLink?: boolean;
  /** How to start the first service. */
  readonly first?: ProgramOptions;
}

/** A directory in place of the root directory, and the services in it. */
export class Machine implements AsyncDisposable {
  /** For what is sent to the services. */
  readonly ledger = new Ledger();
  /** What runs, by its unit. */
  readonly #running = new Map<string, Program>();
  /** Everything that has written to the journal. */
  readonly #journal: { readonly stderr: string }[] = [];
  readonly #disk: TemporaryDirectory;
  readonly #root: string;
  readonly #port = freePort();
  readonly #systemd: Deno.HttpServer<Deno.NetAddr>;
  /** How to start the next service. */
  #options: ProgramOptions | undefined;

  constructor(
    { disk = new TemporaryDirectory(), isLink, first }: MachineOptions = {},
  ) {
    this.#disk = disk;
    this.#root = Deno.realPathSync(disk.path);
    this.#options = first;
    for (
      const path of [
        ...["bin", "etc/systemd/system", "usr/local/bin"],
        ...["var/lib/plant-store", "var/lib/plant-store-backups"],
      ]
    ) Deno.mkdirSync(this.path(path), { recursive: true });
    Deno.writeTextFileSync(this.path("etc/plant-store.env"), "");
    Deno.writeTextFileSync(this.path("etc/plant-store.token"), `${TOKEN}\n`);
    writeScript(this.path("usr/local/bin/plant-store"));
    if (isLink) Deno.symlinkSync("real.db", this.store);

    this.#systemd = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      async (request) => {
        const command = await request.text();
        if (command.startsWith("journalctl")) {
          return new Response(this.#read(command));
        }
        const status = await this.#control(command) ? 200 : 500;
        return new Response(null, { status });
      },
    );
    const url = `http://127.0.0.1:${this.#systemd.addr.port}/`;
    for (const tool of ["systemctl", "journalctl"]) {
      this.addTool(tool, `exec curl -sf -d "${tool} $*" ${url}`);
    }
    // The user is known.
    this.addTool("getent", ":");
  }

  /** Returns a machine with a service that has acknowledged 100 plants. */
  static async start(options?: MachineOptions): Promise<Machine> {
    const machine = new Machine(options);
    await machine.succeed("systemctl start $service");
    await machine.ledger.store(machine.service, newPlants(range(1n, 100)));
    return machine;
  }

  /** Returns where a path of the handbook is, without its first slash. */
  path(path: string): string {
    return `${this.#root}/${path}`;
  }

  /** The path of the store. */
  get store(): string {
    return this.path("var/lib/plant-store/plants.db");
  }

  /** Everything in the journal, with the levels. */
  get journal(): string {
    return this.#journal.map(({ stderr }) => stderr).join("");
  }

  /** The services that run. */
  get services(): Program[] {
    return [...this.#running.values()];
  }

  /** The first of them. */
  get service(): Program {
    const [service] = this.services;
    assert.ok(service !== undefined, this.journal);
    return service;
  }

  /** Adds a program to the path of the shell. */
  addTool(name: string, script: string): void {
    const text = `#!/bin/sh\n${script}\n`;
    Deno.writeTextFileSync(this.path(`bin/${name}`), text, { mode: 0o755 });
  }

  /** Runs commands in one shell, after the block of the section "Commands". */
  async run(...commands: string[]): Promise<Ended> {
    const bins = [this.path("bin"), this.path("usr/local/bin")];
    const ended = await new BackgroundProcess("bash", {
      args: ["-c", this.#toHere([blockOf("## Commands"), ...commands])],
      cwd: this.#root,
      clearEnv: true,
      env: { PATH: [...bins, Deno.env.get("PATH")].join(":") },
    }).ended();
    assert.doesNotMatch(ended.stderr, STACK);
    return ended;
  }

  /** Runs commands, of which the last one succeeds. */
  async succeed(...commands: string[]): Promise<Ended> {
    const ended = await this.run(...commands);
    const output = ended.stderr + this.journal;
    assert.equal(ended.status, 0, `${commands.join("\n")}\n${output}`);
    return ended;
  }

  /** Runs the command at the end of a message. */
  obey(message: string): Promise<Ended> {
    const [, command] = /.*: ((?:plant-store|mv) .+)\n?$/.exec(message) ?? [];
    assert.ok(command !== undefined, `no command in: ${message}`);
    return this.run(command);
  }

  /** Starts a service; returns why that is refused, if it is. */
  async refusal(unit = "plant-store"): Promise<string | undefined> {
    if (await this.#start(unit)) return undefined;
    return this.#journal.at(-1)?.stderr;
  }

  /** Kills every service. */
  kill(): Promise<void> {
    return this.#end([...this.#running.keys()], "SIGKILL");
  }

  /** Asserts that every service has every acknowledged plant. */
  async assertHasAll(): Promise<void> {
    await this.ledger.assertFile(this.store);
    assert.ok(this.services.length > 0, this.journal);
    for (const service of this.services) {
      await this.ledger.replay(service);
      await this.ledger.settle(service);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await this.#systemd.shutdown();
    this.#disk[Symbol.dispose]();
  }

  /**
   * Returns commands with the paths and the port of this machine, for the user
   * of the tests.
   */
  #toHere(commands: readonly string[]): string {
    return commands.join("\n")
      .replaceAll(/(?<=\binstall .*) -[og] \S+/g, "")
      .replaceAll(/\brunuser -u \S+ -- /g, "")
      .replaceAll(/(?<!\w)\/(?=(?:etc|usr\/local|var\/lib)\/)/g, this.path(""))
      .replaceAll("127.0.0.1:8000", `127.0.0.1:${this.#port}`);
  }

  /** Returns lines of the journal, without their levels. */
  #read(command: string): string {
    const levels = command.includes(" -p err") ? "3" : "346";
    const [, count = Infinity] = / -n (\d+)/.exec(command) ?? [];
    const lines = this.journal.match(new RegExp(`^<[${levels}]>.*\n`, "gm"));
    const last = (lines ?? []).slice(-count);
    return last.map((line) => line.slice(3)).join("");
  }

  /** Does what systemd does; returns whether that succeeds. */
  async #control(command: string): Promise<boolean> {
    if (/ plant-store-backup$/.test(command)) return await this.#backUp();
    const units = command.match(/(?<= )plant-store(@\d+)?(?= |$)/g) ?? [];
    const [, verb = ""] = command.split(" ");
    if (verb === "reload") {
      for (const unit of units) await this.#running.get(unit)?.reload();
    }
    if (verb === "kill") await this.#end(units, "SIGKILL");
    if (/stop|restart|disable/.test(verb)) await this.#end(units, "SIGTERM");
    if (!/start|enable/.test(verb)) return true;
    const started = await Promise.all(units.map((unit) => this.#start(unit)));
    return started.every((it) => it);
  }

  /** Starts a service, unless it runs; returns whether it runs. */
  async #start(unit: string): Promise<boolean> {
    if (this.#running.has(unit)) return true;
    const { shell = 'exec "$0" "$@"', env = {} } = this.#options ?? {};
    this.#options = undefined;
    const port = unit === "plant-store" ? this.#port : 0;
    const settings = this.#settingsOf(SERVICE_UNIT).replace("%i", `${port}`);
    const script = `${settings}\n${shell}`;
    const service = Program.spawn([], { env, shell: script, ownToken: true });
    this.#journal.push(service);
    try {
      [, service.origin = ""] = await service.printed(/listens on (\S+)\n/);
      this.#running.set(unit, service);
      return true;
    } catch {
      const { status, stderr } = await service.ended();
      assert.match(stderr, /^<3>[^\n]+\n$/);
      assert.ok(status === 1 || status === 2, stderr);
      return false;
    }
  }

  async #end(units: readonly string[], signal: Deno.Signal): Promise<void> {
    await Promise.all(units.map(async (unit) => {
      const ended = await this.#running.get(unit)?.stop(signal);
      this.#running.delete(unit);
      if (signal === "SIGTERM") assert.equal(ended?.status ?? 0, 0);
    }));
  }

  /** Runs the commands of the unit of the nightly backup. */
  async #backUp(): Promise<boolean> {
    const commands = [...BACKUP_UNIT.matchAll(/^ExecStart=(-?)(.+)$/gm)]
      .map(([, mayFail, command = ""]) =>
        `${command.replaceAll("%%", "%")} || ${mayFail ? "true" : "exit"}`
      );
    const ended = await this.run(this.#settingsOf(BACKUP_UNIT), ...commands);
    this.#journal.push(ended);
    return ended.status === 0;
  }

  /** Returns commands that set the variables of a unit. */
  #settingsOf(unit: string): string {
    const variables = unit.match(/(?<=^Environment=).*/gm) ?? [];
    const file = ". /etc/plant-store.env";
    return this.#toHere(["set -a", ...variables, file]);
  }
}
