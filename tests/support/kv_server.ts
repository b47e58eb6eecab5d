import { BackgroundProcess } from "./background.ts";
import { pathOf } from "./needs.ts";
import { freePort, listens } from "./tools.ts";

const KV_TOKEN = "a-token-for-tests";

/** The environment of a program that uses the server. */
export const KV_ENV = { DENO_KV_ACCESS_TOKEN: KV_TOKEN };

/** A KV Connect server on a free port, which it keeps over restarts. */
export class KvServer implements AsyncDisposable {
  readonly port = freePort();
  readonly url = `http://127.0.0.1:${this.port}`;
  readonly #file: string;
  #running: BackgroundProcess | undefined;

  private constructor(file: string) {
    this.#file = file;
  }

  static async start(file: string): Promise<KvServer> {
    await using unstarted = new AsyncDisposableStack();
    const server = unstarted.use(new KvServer(file));
    await server.restart();
    unstarted.move();
    return server;
  }

  async kill(): Promise<void> {
    await this.#running?.stop("SIGKILL");
  }

  /** Stops the process without closing its connections. */
  freeze(): void {
    this.#running?.process.kill("SIGSTOP");
  }

  /** Continues after {@link freeze}. */
  thaw(): void {
    this.#running?.process.kill("SIGCONT");
  }

  /** Starts its process, at first and after {@link kill}. */
  async restart(): Promise<void> {
    const address = `127.0.0.1:${this.port}`;
    this.#running = new BackgroundProcess(pathOf("DENOKV"), {
      args: [
        "--sqlite-path",
        this.#file,
        "serve",
        "--access-token",
        KV_TOKEN,
        "--addr",
        address,
      ],
    });
    await this.#running.causes(listens(this.port));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
