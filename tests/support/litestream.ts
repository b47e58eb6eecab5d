/** Litestream with the configuration in src/deploy/litestream/. */
import assert from "node:assert/strict";
import { BackgroundProcess, type Ended } from "./background.ts";
import { eventually } from "./load.ts";
import { has } from "./program.ts";
import { runTool } from "./tools.ts";

/** The path of litestream; without it tests are ignored. */
export const LITESTREAM = Deno.env.get("LITESTREAM") ?? "";

const CONFIGURATION = new URL(
  "../../src/deploy/litestream/litestream.yml",
  import.meta.url,
);

/** Where the copy is; the configuration has all but the directory as comments. */
type CopyPlace = "directory" | "sftp" | "s3";

/** Returns the configuration in src/deploy/ for a place. */
function configuration(place: CopyPlace): string {
  const text = Deno.readTextFileSync(CONFIGURATION);
  if (place === "directory") return text;
  // The lines of a place begin with its URL.
  const lines = new RegExp(` +#url: ${place}:.*\n(?: +#(?!url:)[a-z].*\n)*`);
  const [example = ""] = lines.exec(text) ?? [];
  assert.ok(example !== "", `no example of ${place}`);
  return text.replace(/^ +path: \S+-litestream\n/m, example.replace(/#/g, ""));
}

/** Where the copy of a {@link Litestream} is, and changes of its configuration. */
export interface LitestreamOptions {
  readonly place?: CopyPlace;
  readonly edit?: (text: string) => string;
}

/** A Litestream, and the copy of a store that it makes. */
export class Litestream implements AsyncDisposable {
  /** The variables of all its commands. */
  readonly env: { readonly LITESTREAM_CONFIG: string };
  readonly #store: string;
  readonly #socket: string;
  #running: BackgroundProcess | undefined;

  /** @param directory for its files, and for the copy if that is a directory */
  constructor(
    directory: string,
    store: string,
    { place = "directory", edit = (text) => text }: LitestreamOptions = {},
  ) {
    this.#store = store;
    this.#socket = `${directory}/socket`;
    this.env = { LITESTREAM_CONFIG: `${directory}/litestream.yml` };
    const text = edit(configuration(place))
      .replace("/var/lib/plant-store/plants.db", store)
      .replace("/var/lib/plant-store-litestream", `${directory}/copy`)
      .replace("/run/plant-store-litestream/socket", this.#socket);
    Deno.writeTextFileSync(this.env.LITESTREAM_CONFIG, text);
  }

  /** The id of its process, if it was started. */
  get pid(): number | undefined {
    return this.#running?.process.pid;
  }

  /** Starts it, and waits until it has copied the store. */
  async start(): Promise<void> {
    const { env } = this;
    const args = ["replicate"];
    this.#running = new BackgroundProcess(LITESTREAM, { args, env });
    await this.#running.causes(this.synced());
  }

  /** Makes it copy what the store has now, and waits for that. */
  async synced(): Promise<void> {
    const args = ["sync", "-wait", "-socket", this.#socket, this.#store];
    await eventually((it) => it, () => has(LITESTREAM, ...args));
  }

  /** Returns when it began the parts of the copy, rounded down to seconds. */
  async copiedAt(): Promise<number[]> {
    const text = await this.run("ltx", "-json", this.#store);
    const parts: { timestamp: string }[] = JSON.parse(text);
    return parts.map(({ timestamp }) => Date.parse(timestamp));
  }

  /** Restores the copy to a new file. */
  async restore(file: string): Promise<void> {
    await this.run("restore", "-o", file, this.#store);
  }

  /** Runs one of its commands. */
  run(...args: string[]): Promise<string> {
    return runTool(LITESTREAM, args, { env: this.env });
  }

  /** Stops it; it has written nothing if it found no problem. */
  async stop(): Promise<Ended> {
    assert.ok(this.#running !== undefined);
    return await this.#running.stop();
  }

  async kill(): Promise<void> {
    await this.#running?.stop("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
