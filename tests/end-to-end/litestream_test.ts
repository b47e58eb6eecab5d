/** The copy of a store by Litestream, and the way back that its README prints. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { overwrite } from "../support/damage.ts";
import { eventually, inParallel, newPlants, range } from "../support/load.ts";
import {
  LITESTREAM,
  Litestream,
  withLitestream,
} from "../support/litestream.ts";
import {
  assertSucceeded,
  type Program,
  runProgram,
} from "../support/program.ts";
import { blockOf } from "../support/readme.ts";
import { HAS_SSHD, SftpServer } from "../support/sftp_server.ts";
import type { TemporaryDirectory } from "../support/temporary.ts";
import { type TestPlace, testsIf } from "../support/tests.ts";
import { backUp } from "../support/transfer.ts";

const README = "src/deploy/litestream/README.md";

/** Plants of more pages than Litestream leaves in the log. */
const LARGE_PLANTS = range(1n, 2_000)
  .map((id) => ({ id, plant: { name: "Monstera ".repeat(300) } }));

/** The kill follows one of the replies under load. */
const KILL_AT_REPLY = 500;

/** Returns the commands in a section of the README. */
function commandsOf(section: string): string[] {
  return blockOf(`## ${section}`, README).trim().split(/\n */);
}

/** Runs the commands that restore the copy, while neither program runs. */
async function restoreAsPrinted(
  { store }: TestPlace,
  { env }: Litestream,
): Promise<void> {
  const commands = commandsOf("Restore");
  assert.equal(commands.shift(), "systemctl stop plant-store");
  assert.equal(commands.pop(), "systemctl start plant-store");
  const SCRIPT = [
    `store=${store} program=("$0" "$@")`,
    `plant-store() { "\${program[@]}" "$@"; }`,
    `litestream() { ${LITESTREAM} "$@"; }`,
    ...commands,
  ].join("\n");
  const PATH = Deno.env.get("PATH") ?? "";
  const shell = 'exec bash -ec "$SCRIPT" "$0" "$@"';
  const options = { env: { ...env, PATH, SCRIPT }, shell };
  assertSucceeded(await runProgram([], options));
}

/** Returns whether SQLite finds nothing wrong in a database. */
function isSound(path: string): boolean {
  using database = new DatabaseSync(path);
  const found = database.prepare("PRAGMA quick_check(1)").get();
  return found?.["quick_check"] === "ok";
}

/** Removes the files with a name, and what Litestream keeps beside them. */
function remove(directory: TemporaryDirectory, name: string): void {
  for (const each of directory.names()) {
    if (!each.includes(name)) continue;
    Deno.removeSync(directory.file(each), { recursive: true });
  }
}

/** Asserts that the copy has every acknowledged plant. */
async function assertCopied(
  { directory, ledger }: TestPlace,
  copy: Litestream,
): Promise<void> {
  await copy.synced();
  await copy.restore(directory.file("restored"));
  await ledger.assertFile(directory.file("restored"));
  remove(directory, "restored");
}

/** Creates plants, one at a time, until Litestream has copied all before them. */
async function createUntilCopied(
  { ledger }: TestPlace,
  copy: Litestream,
  program: Program,
): Promise<void> {
  const sinceMs = Date.now();
  let id = 1_000_000n;
  await eventually(
    // The second part was begun when the first was complete.
    (times) => times.filter((ms) => ms > sinceMs).length > 1,
    async () => {
      await ledger.store(program, newPlants([id++]));
      return await copy.copiedAt();
    },
    { everyMs: 200 },
  );
}

/** Sends creates, and kills both programs meanwhile. */
async function killUnderLoad(
  { ledger }: TestPlace,
  copy: Litestream,
  program: Program,
): Promise<void> {
  let replies = 0;
  let killed: Promise<unknown> | undefined;
  const load = newPlants(range(2_000_000n, 2 * KILL_AT_REPLY));
  await inParallel(load, async (newPlant) => {
    await ledger.send(program, newPlant);
    replies++;
    if (replies === KILL_AT_REPLY) {
      killed = Promise.all([program.stop("SIGKILL"), copy.kill()]);
    }
  });
  await killed;
}

for (const kind of ["directory", "sftp"] as const) {
  const name = kind === "sftp" ? "over SFTP" : "in a directory";
  const isPossible = LITESTREAM !== "" && (kind !== "sftp" || HAS_SSHD);
  testsIf(isPossible).test(
    `after a kill of the service and of Litestream, the copy ${name} has every plant that was acknowledged before it was made`,
    async (place) => {
      const { directory, store, start, ledger } = place;
      await using server = kind === "sftp"
        ? await SftpServer.start()
        : undefined;
      const edit = server?.configure;
      await using copy = new Litestream(directory.path, store, {
        place: kind,
        ...(edit && { edit }),
      });
      {
        await using program = await start();
        await copy.start();
        await ledger.store(program, LARGE_PLANTS);
        const { events } = ledger;
        await createUntilCopied(place, copy, program);
        await killUnderLoad(place, copy, program);
        ledger.forgetSince(events);
      }
      remove(directory, "plants.db");
      await restoreAsPrinted(place, copy);
      await ledger.assertFile(store);
      // On this new machine it is copied again.
      await using program = await start();
      await copy.start();
      await ledger.store(program, newPlants(range(3_000_000n, 100)));
      await assertCopied(place, copy);
    },
  );
}

withLitestream.test("kills, stops, a backup and an import of saved plants beside Litestream lose no plant of the store or the copy", async (place) => {
  const { directory, store, start, ledger } = place;
  await using copy = new Litestream(directory.path, store);
  let id = 1n;
  const create = async (program: Program) => {
    await ledger.store(program, newPlants(range(id, 300)));
    id += 300n;
    await assertCopied(place, copy);
  };
  {
    await using program = await start();
    await copy.start();
    await create(program);
    await copy.kill();
    await ledger.store(program, newPlants(range(10_000n, 300)));
    await copy.start();
    await create(program);
    await program.stop("SIGKILL");
  }
  {
    await using program = await start();
    await create(program);
    assertSucceeded(await program.stop());
  }
  {
    await using program = await start();
    await create(program);
    assertSucceeded(await backUp(store, directory.file("backup.db")));
    await ledger.assertFile(directory.file("backup.db"));
    await create(program);
    // As with the unit: Litestream stops before the service.
    const { status, stdout, stderr } = await copy.stop();
    assert.deepEqual([status, stdout, stderr], [0, "", ""]);
    assertSucceeded(await program.stop());
  }
  let args: string[];
  {
    await using program = await start();
    await copy.start();
    await create(program);
    for (const suffix of ["", "-wal", "-shm"]) Deno.removeSync(store + suffix);
    const [, command = ""] = await program.printed(/plant-store (import .+)\n/);
    args = command.split(" ");
    await copy.stop();
    assertSucceeded(await program.stop());
  }
  assertSucceeded(await runProgram(args));
  await using program = await start();
  await copy.start();
  await create(program);
});

withLitestream.test("a corrupt store is complete again after a restore of the copy", async (place) => {
  const { directory, store, start, ledger } = place;
  await using copy = new Litestream(directory.path, store);
  {
    await using program = await start();
    await copy.start();
    await ledger.store(program, LARGE_PLANTS);
    await copy.synced();
    await copy.stop();
    assertSucceeded(await program.stop());
  }
  assert.ok(isSound(store));
  overwrite(store, 2 * 4_096, 100 * 4_096);
  assert.ok(!isSound(store));
  await restoreAsPrinted(place, copy);
  await using program = await start();
  await ledger.replay(program);
  await copy.start();
  await ledger.assertFile(store);
  await assertCopied(place, copy);
});

withLitestream.test("Litestream accepts every example of the configuration", async ({ directory, store }) => {
  for (const place of ["directory", "sftp", "s3"] as const) {
    const copy = new Litestream(directory.path, store, { place });
    const type = place === "directory" ? "file" : place;
    assert.match(
      await copy.run("databases"),
      new RegExp(`${store} +${type}\n`),
    );
  }
});
