/** A machine with the service as the README deploys it, but without systemd. */
import assert from "node:assert/strict";
import { BackgroundProcess, type Ended } from "./background.ts";
import { Ledger, newPlants, range } from "./load.ts";
import { Program, type ProgramOptions, STACK, writeScript } from "./program.ts";
import { blockOf, read } from "./readme.ts";
import { TemporaryDirectory } from "./temporary.ts";

const BACKUP_UNIT = read("src/deploy/plant-store-backup.service");

/** Commands in a message before its problem is solved: no walk has more. */
const STEPS_MAX = 5;

/** What stands for the tools of root: the user of the tests runs everything. */
const TOOLS = `
runuser() { shift 3; "$@"; }
install() { command install "\${@:1:3}" "\${@: -1}"; }
journalctl() { grep '^<3>' <<< "$JOURNAL" | tail -n "\${@: -1}"; }
`;

/** Runs commands of the README and of messages as they are printed. */
export class Machine implements AsyncDisposable {
  /** What is `/var/lib` in the commands. */
  readonly #lib: string;
  readonly #disk: TemporaryDirectory;
  readonly #bin = new TemporaryDirectory();
  /** The instances that run, and those that were stopped last. */
  services: Program[] = [];
  #stopped: Program[] = [];
  readonly store: string;
  /** For what is sent to the services. */
  readonly ledger = new Ledger();

  constructor(disk = new TemporaryDirectory()) {
    this.#disk = disk;
    this.#lib = Deno.realPathSync(disk.path);
    for (const name of ["plant-store", "plant-store-backups"]) {
      Deno.mkdirSync(`${this.#lib}/${name}`);
    }
    this.store = `${this.#lib}/plant-store/plants.db`;
    writeScript(this.#bin.file("plant-store"));
  }

  /** Returns a machine with a service that has acknowledged 100 plants. */
  static async start({ disk, isLink = false, options }: {
    readonly disk?: TemporaryDirectory;
    /** Whether the path of the store is a link. */
    readonly isLink?: boolean;
    readonly options?: ProgramOptions;
  } = {}): Promise<Machine> {
    const machine = new Machine(disk);
    if (isLink) Deno.symlinkSync("real.db", machine.store);
    assert.equal(await machine.tryToStart(options), undefined);
    await machine.ledger.store(machine.service, newPlants(range(1n, 100)));
    return machine;
  }

  /** The first service. */
  get service(): Program {
    const [service] = this.services;
    assert.ok(service !== undefined, "no service runs");
    return service;
  }

  /** Runs commands in bash, in a shell that is prepared as the README says. */
  async bash(commands: string): Promise<Ended> {
    const script = [TOOLS, blockOf("## Operate it"), commands];
    const ended = await new BackgroundProcess("bash", {
      args: ["-c", this.#toHere(script.join("\n"))],
      cwd: this.#lib,
      clearEnv: true,
      env: {
        PATH: `${this.#bin.path}:${Deno.env.get("PATH")}`,
        JOURNAL: [...this.#stopped, ...this.services]
          .map(({ stderr }) => stderr).join(""),
      },
    }).ended();
    assert.doesNotMatch(ended.stderr, STACK);
    return ended;
  }

  /** Runs commands in bash, which succeed. */
  async succeed(commands: string): Promise<Ended> {
    const ended = await this.bash(commands);
    assert.equal(ended.status, 0, `${commands}\n${ended.stderr}`);
    return ended;
  }

  /** Starts an instance; returns the message if it is refused. */
  async tryToStart(options: ProgramOptions = {}): Promise<string | undefined> {
    const service = Program.spawn(["--port", "0"], {
      ...options,
      env: { ...options.env, KV_PATH: this.store, LOG_FORMAT: "journal" },
    });
    try {
      const [, origin = ""] = await service.printed(/listens on (\S+)\n/);
      service.origin = origin;
      this.services.push(service);
      return undefined;
    } catch {
      const { status, stderr } = await service.ended();
      assert.match(stderr, /^<3>cannot [^\n]+\n$/);
      assert.ok(status === 1 || status === 2, stderr);
      return stderr;
    }
  }

  /** Stops or kills every instance. */
  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    for (const { status, stderr } of await this.#end(signal)) {
      if (signal === "SIGTERM") assert.equal(status, 0, stderr);
    }
  }

  /** Starts the service, and does what each message says that refuses it. */
  async start(): Promise<void> {
    for (let step = 0; step < STEPS_MAX; step++) {
      const refusal = await this.tryToStart();
      if (refusal === undefined) return;
      await this.obey(refusal);
    }
    assert.fail(`no start after ${STEPS_MAX} messages`);
  }

  /** Runs the command at the end of a message. */
  async obey(message: string, steps = STEPS_MAX): Promise<void> {
    const [, command] = /.*: ((?:plant-store|mv) .+)\n$/.exec(message) ?? [];
    assert.ok(command !== undefined, `no command in: ${message}`);
    await this.#run(command, steps);
  }

  /** Does what the first block of commands below a heading of the README says. */
  async follow(heading: string, { isSetAside = false }: {
    /** Whether the service has saved its plants, and set the store aside. */
    readonly isSetAside?: boolean;
  } = {}): Promise<void> {
    let seen = "";
    const lines = blockOf(heading).trim().split("\n");
    for (const line of lines.map((line) => line.trim())) {
      if (line === "systemctl stop plant-store") {
        await this.stop();
      } else if (line === "systemctl start plant-store") {
        if (isSetAside) await this.start();
        else assert.equal(await this.tryToStart(), undefined);
      } else if (!isSetAside || !line.includes(".replaced-TIME")) {
        for (const command of this.#fillIn(line, seen)) {
          const { stdout, stderr } = await this.#run(command, STEPS_MAX);
          seen += stdout + stderr;
        }
      }
    }
  }

  /** Starts the backup that the timer starts every night. */
  backUp(): Promise<Ended> {
    const lines = [...BACKUP_UNIT.matchAll(/^ExecStart=(-?)(.+)$/gm)]
      .map(([, mayFail, command = ""]) =>
        `${command.replaceAll("%%", "%")} || ${mayFail ? "true" : "exit"}`
      );
    const environment = 'export KV_PATH="$store" LOG_FORMAT=journal';
    return this.bash([environment, ...lines].join("\n"));
  }

  /** Asserts that the store has every acknowledged plant, and can be used. */
  async assertHasAll(): Promise<void> {
    const { ledger } = this;
    // First: a repeated create would store a plant that is missing.
    await ledger.assertFile(this.store);
    await ledger.replay(this.service);
    await ledger.settle(this.service);
    await this.stop();
    await ledger.assertFile(this.store);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end("SIGKILL");
    for (const directory of [this.#disk, this.#bin]) {
      directory[Symbol.dispose]();
    }
  }

  #end(signal: Deno.Signal): Promise<Ended[]> {
    this.#stopped = this.services;
    this.services = [];
    return Promise.all(this.#stopped.map((service) => service.stop(signal)));
  }

  /** Repeats a command that is refused, after doing what the message says. */
  async #run(command: string, steps: number): Promise<Ended> {
    const ended = await this.bash(command);
    if (ended.status === 0) return ended;
    assert.ok(steps > 0, `${STEPS_MAX} steps do not suffice: ${ended.stderr}`);
    await this.obey(ended.stderr, steps - 1);
    return this.#run(command, steps - 1);
  }

  /** Fills in what the README leaves open, from what the commands have shown. */
  #fillIn(line: string, seen: string): string[] {
    const [, kind] = /\.(\w+)-TIME/.exec(line) ?? [];
    if (kind === undefined) return [line];
    // A file that could not be written has another time.
    const times = seen.replaceAll(/^.*cannot save.*$/gm, "")
      .matchAll(new RegExp(`\\.${kind}-([-\\dT.]+Z)`, "g"));
    const found = new Set([...times].map(([, time = ""]) => time));
    assert.ok(found.size > 0, `no time for ${line} in: ${seen}`);
    return [...found].map((time) => line.replace("TIME", time));
  }

  /** Replaces the paths of a deployed service. */
  #toHere(script: string): string {
    return script.replaceAll(/(?<= )\/usr\/local\/bin\b/g, this.#bin.path)
      .replaceAll(/\/var\/lib\b/g, this.#lib);
  }
}
