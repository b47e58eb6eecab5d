import assert from "node:assert/strict";
import { stopSignal } from "../../src/console/signals.ts";
import { EXIT_FAILURE } from "../../src/operator_error.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { replaced } from "../support/replaced.ts";

/**
 * A process whose signals, terminal and end are those of a test: real ones would
 * reach the test itself.
 */
class FakeProcess implements Disposable {
  readonly clock = new FakeClock();
  /** The status that it has ended with. */
  exitStatus: number | undefined;
  isOnTerminal = true;
  readonly #listeners: (readonly [signal: Deno.Signal, () => void])[] = [];
  readonly #replaced = new DisposableStack();

  constructor() {
    this.#replaced.use(
      replaced(Deno, "addSignalListener", (signal, listener) => {
        this.#listeners.push([signal, listener]);
      }),
    );
    this.#replaced.use(
      replaced(Deno.stderr, "isTerminal", () => this.isOnTerminal),
    );
    const exit = (status?: number) => {
      this.exitStatus = status;
    };
    this.#replaced.use(replaced(Deno, "exit", exit as typeof Deno.exit));
  }

  send(signal: Deno.Signal): void {
    for (const [it, listener] of this.#listeners) if (it === signal) listener();
  }

  [Symbol.dispose](): void {
    this.#replaced.dispose();
  }
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  Deno.test(`stopSignal() resolves with the first signal, here ${signal}, and a later one ends the process`, async () => {
    for (const later of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      using process = new FakeProcess();
      const stop = stopSignal({ clock: process.clock.read });
      // The terminal closes.
      process.isOnTerminal = false;
      process.send(signal);
      assert.equal(await stop, signal);
      // The same signal, forwarded.
      process.clock.now += 500;
      process.send(later);
      assert.equal(process.exitStatus, undefined);
      process.clock.now += 1;
      process.send(later);
      assert.equal(process.exitStatus, EXIT_FAILURE);
    }
  });
}

Deno.test("stopSignal() ignores SIGHUP while there is a terminal, and where there was none", async () => {
  for (const isOnTerminal of [true, false]) {
    using process = new FakeProcess();
    process.isOnTerminal = isOnTerminal;
    const stop = stopSignal({ clock: process.clock.read });
    process.send("SIGHUP");
    process.clock.now += 10_000;
    process.send("SIGTERM");
    assert.equal(await stop, "SIGTERM");
    assert.equal(process.exitStatus, undefined);
  }
});
