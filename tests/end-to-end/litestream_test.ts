/** The copy of a store by Litestream in a directory. */
import assert from "node:assert/strict";
import { Instance } from "../support/instances.ts";
import { Litestream } from "../support/litestream.ts";
import { newPlants, range } from "../support/load.ts";
import { needs } from "../support/needs.ts";
import { assertSucceeded } from "../support/program.ts";
import { backUp, restore } from "../support/transfer.ts";

/** Plants of more pages than Litestream leaves in the log. */
const LARGE_PLANTS = range(1n, 500)
  .map((id) => ({ id, plant: { name: "Monstera ".repeat(1_000) } }));

needs("LITESTREAM").test(
  "kills and stops of a service and of Litestream, a backup, and a lost store that a restart heals lose no plant of the store or of the copy",
  async ({ directory, store, ledger }) => {
    const files = directory.file("litestream");
    Deno.mkdirSync(files);
    await using copy = new Litestream(files, store);
    await using service = await Instance.start(store);
    let id = 1_000n;
    let copies = 0;
    const createAndRestore = async () => {
      await ledger.store(service, newPlants(range(id, 100)));
      id += 100n;
      await copy.synced();
      const name = directory.file(`copy-${copies++}`);
      await copy.restore(name);
      const restored = `${name}.db`;
      // Every restored copy is checked.
      assertSucceeded(await restore(restored, name));
      await ledger.assertFile(restored);
    };
    await copy.start();
    await ledger.store(service, LARGE_PLANTS);
    await createAndRestore();
    await copy.kill();
    await ledger.store(service, newPlants(range(10_000n, 100)));
    await copy.start();
    await createAndRestore();
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      await service.end(signal);
      await service.start();
      await createAndRestore();
    }
    assertSucceeded(await backUp(store, directory.file("backup.db")));
    await createAndRestore();
    for (const suffix of ["", "-wal", "-shm"]) Deno.removeSync(store + suffix);
    await service.printed(/rescued all plants/);
    await copy.kill();
    await service.end("SIGTERM");
    await service.start();
    await copy.start();
    await createAndRestore();
    await service.end("SIGTERM");
    assert.ok(await ledger.assertFile(store) > LARGE_PLANTS.length);
  },
);
