import { Ledger } from "./load.ts";
import { Program, type ProgramOptions } from "./program.ts";
import { TemporaryDirectory } from "./temporary.ts";

/**
 * The tests that the binary of the gate skips, by the start of their names: it is
 * compiled with Deno 2.6.10, the newest runtime part that a registry has.
 */
const SKIPPED_BY_BINARY:
  readonly (readonly [why: string, ...names: string[]])[] = [
    [
      "its runtime listens no more once it was out of descriptors",
      "a service over http",
    ],
    [
      "its runtime accepts requests that later ones refuse",
      "a request with two transfer codings",
      "a request with a length before a transfer coding",
      "a request with a length after a transfer coding",
      "a request with an offer to upgrade",
      "a request with a header of 64 KiB",
      "a request with 128 headers",
    ],
    [
      "its runtime announces no close of a connection",
      "a connection whose body follows its refusal",
      "a body that has not arrived within 10 s",
    ],
    ["its client cannot do without `ca`", "healthcheck accepts a self-signed"],
    [
      "its SQLite can corrupt a store, of which the log warns",
      "the log has one line for each event",
    ],
    ["it loads no other module", "a programmer error is logged whole"],
  ];

/** Returns whether the program under test cannot pass a test. */
export function isSkipped(name: string): boolean {
  return Deno.env.has("PLANT_STORE") && SKIPPED_BY_BINARY
    .some(([, ...starts]) => starts.some((start) => name.startsWith(start)));
}

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
    args: readonly string[] = [],
    options?: ProgramOptions,
  ): Promise<Program> => Program.start(["--kv", this.store, ...args], options);

  [Symbol.dispose](): void {
    this.directory[Symbol.dispose]();
  }
}

/** An object: the formatter keeps long names on the line of calls of `test`. */
export interface Tests<T> {
  test(name: string, run: (resource: T) => void | Promise<void>): void;
}

/**
 * Returns a function for tests that need something each.
 * @param isPossible whether this machine can run them
 */
export function testsWith<T extends Disposable>(
  acquire: () => T,
  isPossible = true,
): Tests<T> {
  return {
    test: (name, run) =>
      Deno.test({
        name,
        ignore: !isPossible || isSkipped(name),
        fn: async () => {
          using resource = acquire();
          await run(resource);
        },
      }),
  };
}

/** Returns a function for tests that not every machine can run. */
export function testsIf(isPossible: boolean): Tests<TestPlace> {
  return testsWith(() => new TestPlace(), isPossible);
}

export const { test } = testsIf(true);
