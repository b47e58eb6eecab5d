/** Litestream with the configuration in src/deploy/litestream/. */
import { BackgroundProcess } from "./background.ts";
import { eventually } from "./load.ts";
import { has } from "./program.ts";
import { read } from "./readme.ts";
import { runTool } from "./tools.ts";

/** The path of litestream; without it tests are ignored. */
const LITESTREAM = Deno.env.get("LITESTREAM") ?? "";

const CONFIGURATION = "src/deploy/litestream/litestream.yml";

/** A Litestream, and the copy of a store that it makes in a directory. */
export class Litestream implements AsyncDisposable {
  readonly #env: Readonly<Record<string, string>>;
  readonly #store: string;
  readonly #socket: string;
  #running: BackgroundProcess | undefined;

  /** @param directory for its files, and for the copy */
  constructor(directory: string, store: string) {
    this.#store = store;
    this.#socket = `${directory}/socket`;
    this.#env = { LITESTREAM_CONFIG: `${directory}/litestream.yml` };
    const text = read(CONFIGURATION)
      .replace("/var/lib/plant-store/plants.db", store)
      .replace("/var/lib/plant-store-litestream", `${directory}/copy`)
      .replace("/run/plant-store-litestream/socket", this.#socket);
    Deno.writeTextFileSync(`${directory}/litestream.yml`, text);
  }

  /** Starts it, and waits until it has copied the store. */
  async start(): Promise<void> {
    const args = ["replicate"];
    const env = this.#env;
    this.#running = new BackgroundProcess(LITESTREAM, { args, env });
    await this.#running.causes(this.synced());
  }

  /** Makes it copy what the store has now, and waits for that. */
  async synced(): Promise<void> {
    const args = ["sync", "-wait", "-socket", this.#socket, this.#store];
    await eventually((it) => it, () => has(LITESTREAM, ...args));
  }

  /** Restores the copy to a new file. */
  async restore(file: string): Promise<void> {
    const args = ["restore", "-o", file, this.#store];
    await runTool(LITESTREAM, args, { env: this.#env });
  }

  async kill(): Promise<void> {
    await this.#running?.stop("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
