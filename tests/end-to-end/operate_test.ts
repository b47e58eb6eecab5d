/** The blocks of the README for operators, run as they are printed. */
import assert from "node:assert/strict";
import { BackgroundProcess, type Ended } from "../support/background.ts";
import { assertSucceeded, writeScript } from "../support/program.ts";
import { blockOf } from "../support/readme.ts";
import type { TestPlace } from "../support/tests.ts";
import { withBash } from "../support/tools.ts";
import { createStore, exportLines, toLine } from "../support/transfer.ts";

/**
 * What the test has in place of commands that need a system: each prints its
 * words, and succeeds unless it is the one in $FAILING.
 */
const STUBS = `
run() { echo "$*"; [ "$*" != "$FAILING" ]; }
systemctl() { run systemctl "$@"; }
runuser() { shift 3; "$@"; }
`;

/** Runs a block in the directory of the test, after that of "Operate it". */
async function run(
  { directory }: TestPlace,
  block: string,
  env: Readonly<Record<string, string>>,
): Promise<Ended> {
  const commands = `${blockOf("## Operate it")}${block}`
    .replace("/var/lib/plant-store", directory.path)
    .replace("/var/tmp", directory.path);
  writeScript(directory.file("plant-store"));
  const path = `${directory.path}:${Deno.env.get("PATH")}`;
  const bash = new BackgroundProcess("bash", {
    args: ["-c", STUBS + commands],
    cwd: directory.path,
    env: { ...env, PATH: path },
  });
  return await bash.ended();
}

withBash.test("an operator can correct and remove plants", async (place) => {
  const lines = await createStore(place.store, 3);
  const ended = await run(place, blockOf("### Correct or remove a plant"), {
    EDITOR: 'sed -i -e s/Plant.1/Monstera/ -e /"id":2,/d',
  });
  assertSucceeded(ended);
  assert.equal(
    ended.stdout,
    "systemctl stop plant-store\nsystemctl start plant-store\n",
  );
  assert.deepEqual(
    await exportLines(place.store),
    [toLine(1n, "Monstera"), ...lines.slice(2)],
  );
});

withBash.test("a line that is not a plant any more leaves the store as it was", async (place) => {
  const lines = await createStore(place.store, 3);
  const { stdout, stderr } = await run(
    place,
    blockOf("### Correct or remove a plant"),
    { EDITOR: "sed -i s/Plant.1.}/Monstera/" },
  );
  assert.match(stderr, /^line 1: .*\n2 created, .* 1 refused\n$/);
  assert.match(stdout, /\nsystemctl start plant-store\n$/);
  assert.deepEqual(await exportLines(place.store), lines);
});

const INSTALL =
  "install() { run install; }; cmp() { run cmp; }; cp() { run cp; }\n";

withBash.test("an upgrade ends with a backup that fails", async (place) => {
  const block = INSTALL + blockOf("### Upgrade");
  const backup = "systemctl start plant-store-backup";
  const { status, stdout } = await run(place, block, { FAILING: backup });
  assert.deepEqual([status, stdout], [1, `${backup}\n`]);
});

withBash.test("an upgrade keeps the old binary, unless it is the new one", async (place) => {
  for (const copies of [["cp"], []]) {
    const FAILING = copies.length > 0 ? "cmp" : "";
    const { stdout } = await run(place, INSTALL + blockOf("### Upgrade"), {
      FAILING,
    });
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
