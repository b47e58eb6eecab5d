/** The blocks of the README for operators, run as they are printed. */
import assert from "node:assert/strict";
import type { Ended } from "../support/background.ts";
import { Machine } from "../support/machine.ts";
import { assertSucceeded } from "../support/program.ts";
import { blockOf } from "../support/readme.ts";
import { withBash } from "../support/tools.ts";
import { createStore, exportLines, toLine } from "../support/transfer.ts";

/**
 * What the test has in place of commands that need a system: each prints its
 * words, and succeeds unless it is the one in $FAILING.
 */
const STUBS = `
run() { echo "$*"; [ "$*" != "$FAILING" ]; }
systemctl() { run systemctl "$@"; }
`;

/** Runs a block, with lines before it. */
function run(machine: Machine, block: string, before: string): Promise<Ended> {
  const here = blockOf(block).replace("/var/tmp", "/var/lib");
  return machine.bash([STUBS, before, here].join("\n"));
}

withBash.test("an operator can correct and remove plants", async () => {
  await using machine = new Machine();
  const lines = await createStore(machine.store, 3);
  const ended = await run(
    machine,
    "### Correct or remove a plant",
    `EDITOR='sed -i -e s/Plant.1/Monstera/ -e /"id":2,/d'`,
  );
  assertSucceeded(ended);
  assert.equal(
    ended.stdout,
    "systemctl stop plant-store\nsystemctl start plant-store\n",
  );
  assert.deepEqual(
    await exportLines(machine.store),
    [toLine(1n, "Monstera"), ...lines.slice(2)],
  );
});

withBash.test("a line that is not a plant any more leaves the store as it was", async () => {
  await using machine = new Machine();
  const lines = await createStore(machine.store, 3);
  const { stdout, stderr } = await run(
    machine,
    "### Correct or remove a plant",
    "EDITOR='sed -i s/Plant.1.}/Monstera/'",
  );
  assert.match(stderr, /^line 1: .*\n2 created, .* 1 refused\n$/);
  assert.match(stdout, /\nsystemctl start plant-store\n$/);
  assert.deepEqual(await exportLines(machine.store), lines);
});

const INSTALL =
  "install() { run install; }; cmp() { run cmp; }; cp() { run cp; }\n";

withBash.test("an upgrade ends with a backup that fails", async () => {
  await using machine = new Machine();
  const backup = "systemctl start plant-store-backup";
  const before = `${INSTALL}FAILING="${backup}"`;
  const { status, stdout } = await run(machine, "### Upgrade", before);
  assert.deepEqual([status, stdout], [1, `${backup}\n`]);
});

withBash.test("an upgrade keeps the old binary, unless it is the new one", async () => {
  await using machine = new Machine();
  for (const copies of [["cp"], []]) {
    const before = `${INSTALL}FAILING=${copies.length > 0 ? "cmp" : ""}`;
    const { stdout } = await run(machine, "### Upgrade", before);
    assert.deepEqual(stdout.trimEnd().split("\n"), [
      "systemctl start plant-store-backup",
      "install",
      "systemctl daemon-reload",
      "cmp",
      ...copies,
      "install",
      "systemctl restart plant-store",
    ]);
  }
});
