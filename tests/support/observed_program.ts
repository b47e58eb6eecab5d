import assert from "node:assert/strict";
import { entriesOf, type Entry } from "./entries.ts";
import { Program, type ProgramOptions } from "./program.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { exchange, type Reply } from "./wire.ts";

/** A running service with a store of its own, and a view into that store. */
export class ObservedProgram implements AsyncDisposable {
  readonly program: Program;
  readonly #directory: TemporaryDirectory;
  readonly #kv: Deno.Kv;

  private constructor(
    program: Program,
    directory: TemporaryDirectory,
    kv: Deno.Kv,
  ) {
    this.program = program;
    this.#directory = directory;
    this.#kv = kv;
  }

  static async start(options: ProgramOptions = {}): Promise<ObservedProgram> {
    const directory = new TemporaryDirectory();
    const file = directory.file("plants.db");
    const program = await Program.start(["--kv", file], options);
    return new ObservedProgram(program, directory, await Deno.openKv(file));
  }

  get port(): number {
    return this.program.port;
  }

  /** Returns everything that is stored. */
  stored(): Promise<Entry[]> {
    return entriesOf(this.#kv);
  }

  /** Sends bytes on a new connection and reads the reply. */
  exchange(bytes: string | Uint8Array): Promise<Reply | undefined> {
    return exchange(this.port, bytes);
  }

  /** Stops the service; asserts that it ended well and logged no error. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#kv.close();
    const { status, stderr } = await this.program.stop();
    this.#directory[Symbol.dispose]();
    assert.equal(status, 0, stderr);
    assert.doesNotMatch(stderr, /error/);
  }
}

/** What a test does with a service, and what it stores there. */
type Run = (service: ObservedProgram) => Promise<readonly Entry[] | void>;

/** Starts a service for all tests of a file, which it returns a function for. */
export function testsOfOneService() {
  let service: ObservedProgram;
  Deno.test.beforeAll(async () => {
    service = await ObservedProgram.start();
  });
  Deno.test.afterAll(() => service?.[Symbol.asyncDispose]());
  return {
    /** Registers a test, which stores exactly the entries that it returns. */
    test: (name: string, run: Run) =>
      Deno.test(name, async () => {
        const before = await service.stored();
        const added = await run(service) ?? [];
        assert.deepEqual(await service.stored(), [...before, ...added]);
      }),
  };
}
