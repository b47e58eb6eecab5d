import { eventually } from "./load.ts";

/** The path of denokv, a KV Connect server; without it tests are ignored. */
export const DENOKV = Deno.env.get("DENOKV");

const KV_TOKEN = "a-token-for-tests";

/** The environment of a program that uses the server. */
export const KV_ENV = { DENO_KV_ACCESS_TOKEN: KV_TOKEN };

/** Many times what the server needs, for busy machines. */
const START_MS_MAX = 15_000;

/** A KV Connect server on a free port, which it keeps over restarts. */
export class KvServer implements AsyncDisposable {
  readonly port: number;
  readonly #file: string;
  #process: Deno.ChildProcess;

  private constructor(file: string) {
    this.#file = file;
    this.port = freePort();
    this.#process = this.#spawn();
  }

  static async start(file: string): Promise<KvServer> {
    const server = new KvServer(file);
    await server.#answers();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async kill(): Promise<void> {
    try {
      this.#process.kill("SIGKILL");
    } catch {
      // It has ended already.
    }
    await this.#process.status;
  }

  async restart(): Promise<void> {
    this.#process = this.#spawn();
    await this.#answers();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #spawn(): Deno.ChildProcess {
    const serve = ["serve", "--access-token", KV_TOKEN];
    return new Deno.Command(DENOKV ?? "", {
      args: ["--sqlite-path", this.#file, ...serve, "--addr", this.#address],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
  }

  get #address(): string {
    return `127.0.0.1:${this.port}`;
  }

  async #answers(): Promise<void> {
    await eventually((it) => it, async () => {
      try {
        const { body } = await fetch(this.url);
        await body?.cancel();
        return true;
      } catch {
        return false;
      }
    }, { withinMs: START_MS_MAX });
  }
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}
