/** The copy of a store by Litestream, and the way back that its README prints. */
import assert from "node:assert/strict";
import { eventually, inParallel, newPlants, range } from "../support/load.ts";
import {
  LITESTREAM,
  Litestream,
  type LitestreamOptions,
} from "../support/litestream.ts";
import { Machine, SERVER_TOOLS } from "../support/machine.ts";
import { needs } from "../support/needs.ts";
import { assertSucceeded, type Program } from "../support/program.ts";
import { blockOf } from "../support/readme.ts";
import { SftpServer } from "../support/sftp_server.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const README = "src/deploy/litestream/README.md";

/** Plants of more pages than Litestream leaves in the log. */
const LARGE_PLANTS = range(1n, 2_000)
  .map((id) => ({ id, plant: { name: "Monstera ".repeat(300) } }));

/** The kill follows one of the replies under load. */
const KILL_AT_REPLY = 500;

/** A machine with a Litestream for the store. */
class CopiedMachine extends Machine {
  readonly copy: Litestream;

  constructor(options?: LitestreamOptions) {
    super();
    const directory = this.path("litestream");
    Deno.mkdirSync(directory);
    this.copy = new Litestream(directory, this.store, options);
    const { LITESTREAM_CONFIG } = this.copy.env;
    this.addTool(
      "litestream",
      `LITESTREAM_CONFIG=${LITESTREAM_CONFIG} exec ${LITESTREAM} "$@"`,
    );
  }

  /** Starts the service. */
  async startService(): Promise<Program> {
    await this.succeed("systemctl start $service");
    return this.service;
  }

  /** Asserts that the copy has every acknowledged plant. */
  async assertCopied(): Promise<void> {
    await this.copy.synced();
    using away = new TemporaryDirectory();
    const restored = away.file("restored");
    await this.copy.restore(restored);
    await this.ledger.assertFile(restored);
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await this.copy[Symbol.asyncDispose]();
    await super[Symbol.asyncDispose]();
  }
}

/** Creates plants, one at a time, until Litestream has copied all before them. */
async function createUntilCopied(machine: CopiedMachine): Promise<void> {
  const sinceMs = Date.now();
  let id = 1_000_000n;
  await eventually(
    // The second part was begun when the first was complete.
    (times) => times.filter((ms) => ms > sinceMs).length > 1,
    async () => {
      await machine.ledger.store(machine.service, newPlants([id++]));
      return await machine.copy.copiedAt();
    },
    { everyMs: 200 },
  );
}

/** Sends creates, and kills both programs meanwhile. */
async function killUnderLoad(machine: CopiedMachine): Promise<void> {
  const { service, ledger, copy } = machine;
  let replies = 0;
  let killed: Promise<unknown> | undefined;
  const load = newPlants(range(2_000_000n, 2 * KILL_AT_REPLY));
  await inParallel(load, async (newPlant) => {
    await ledger.send(service, newPlant);
    replies++;
    if (replies === KILL_AT_REPLY) {
      killed = Promise.all([machine.kill(), copy.kill()]);
    }
  });
  await killed;
}

/** Where the copy is, and what is lost with both programs. */
const LOSSES = [
  [
    "in a directory",
    "corrupt",
    'dd if=/dev/urandom of="$store" conv=notrunc status=none bs=4096 seek=2 count=100',
  ],
  ["over SFTP", "lost", 'rm -r "${store%/*}"/* "${store%/*}"/.plants*'],
] as const;

for (const [where, what, script] of LOSSES) {
  const isRemote = where === "over SFTP";
  needs(...SERVER_TOOLS, "LITESTREAM", ...(isRemote ? ["sshd"] as const : []))
    .test(
      `if a kill ends the service and Litestream, and the store is ${what}, the copy ${where} has every plant that was acknowledged before it was made`,
      async () => {
        await using server = isRemote ? await SftpServer.start() : undefined;
        const edit = server?.configure;
        await using machine = new CopiedMachine({
          place: isRemote ? "sftp" : "directory",
          ...(edit && { edit }),
        });
        const { copy, ledger } = machine;
        const service = await machine.startService();
        await copy.start();
        await ledger.store(service, LARGE_PLANTS);
        const { events } = ledger;
        await createUntilCopied(machine);
        await killUnderLoad(machine);
        ledger.forgetSince(events);
        await machine.succeed(script);
        await machine.succeed(blockOf("## Restore", 0, README));
        await ledger.assertFile(machine.store);
        // The new store is copied again.
        await copy.start();
        const added = newPlants(range(3_000_000n, 100));
        await ledger.store(machine.service, added);
        await machine.assertCopied();
      },
    );
}

const withLitestream = needs(...SERVER_TOOLS, "LITESTREAM");

withLitestream.test("kills, stops, a backup and an import of saved plants beside Litestream lose no plant of the store or the copy", async () => {
  await using machine = new CopiedMachine();
  const { copy, ledger } = machine;
  let id = 1n;
  const create = async () => {
    await ledger.store(machine.service, newPlants(range(id, 300)));
    id += 300n;
    await machine.assertCopied();
  };
  await machine.startService();
  await copy.start();
  await create();
  await copy.kill();
  await ledger.store(machine.service, newPlants(range(10_000n, 300)));
  await copy.start();
  await create();
  await machine.kill();
  await machine.startService();
  await create();
  await machine.succeed("systemctl restart $service");
  await create();
  await machine.succeed("systemctl start plant-store-backup");
  await create();
  // As with the unit: Litestream stops before the service.
  const { status, stdout, stderr } = await copy.stop();
  assert.deepEqual([status, stdout, stderr], [0, "", ""]);
  await machine.succeed("systemctl restart $service");
  await copy.start();
  await create();
  await machine.succeed('rm "$store" "$store"-wal "$store"-shm');
  const [message] = await machine.service.printed(/saved all plants .*\n/);
  await copy.stop();
  await machine.succeed("systemctl stop $service");
  assertSucceeded(await machine.obey(message));
  await machine.startService();
  await copy.start();
  await create();
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
