import { Ledger } from "./ledger.ts";
import { Program, type ProgramOptions } from "./program.ts";
import { TemporaryDirectory } from "./temporary.ts";

/** What a test of the real program gets. */
export class TestPlace implements Disposable {
  /** Empty, and removed after the test. */
  readonly directory = new TemporaryDirectory();
  /** The path of a store in the directory. */
  readonly store = this.directory.file("plants.db");
  /** For what is sent to services with the store. */
  readonly ledger = new Ledger();

  /** Starts a service with the store, and with further arguments. */
  readonly start = (
    flags: readonly string[] = [],
    options?: ProgramOptions,
  ): Promise<Program> => Program.start(this.store, { flags, ...options });

  [Symbol.dispose](): void {
    this.directory[Symbol.dispose]();
  }
}

/** An object: the formatter keeps long names on the line of calls of `test`. */
export interface Tests<T> {
  test(name: string, run: (resource: T) => void | Promise<void>): void;
}

/** Returns a function for tests that not every machine can run. */
export function testsIf(isPossible: boolean): Tests<TestPlace> {
  return {
    test: (name, run) =>
      Deno.test({
        name,
        ignore: !isPossible,
        fn: async () => {
          using place = new TestPlace();
          await run(place);
        },
      }),
  };
}

export const { test } = testsIf(true);
