/**
 * Accidents to the files of an open store: from then on, nothing is acknowledged,
 * and the service saves every plant.
 */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { API_ERRORS } from "../../src/api_errors.ts";
import { createDuring } from "../support/instances.ts";
import { Ledger } from "../support/ledger.ts";
import { newPlants, range } from "../support/plants.ts";
import {
  assertSucceeded,
  exportLines,
  importFile,
  occurrences,
  Program,
  untilReady,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** Acknowledged creates before an accident: some are in the log only. */
const CREATES = 2_000;

const LOST =
  /error: the store fails \(lost\): \S+\.db: \S.*: do not stop the service before it has saved the plants\n/;

const SAVED =
  /error: saved (\d+) plants of \S+ in (\S+): put nothing back, [^\n]* import --kv NEW --kv-create yes (\S+) makes a new store of the plants\n/;

const SUFFIXES = ["", "-wal", "-shm"];

/** The files of a store in a directory of its own, and a directory beside it. */
interface Place {
  readonly store: string;
  readonly directory: string;
  readonly away: string;
}

/** Returns a hash of each file of a store that exists. */
function hashesOf(store: string): string[] {
  return SUFFIXES.map((suffix) => store + suffix).filter(existsSync)
    .map((file) => `${file} ${hash("sha256", Deno.readFileSync(file))}`);
}

/** Puts the lost log back, or another store with its log in place of a lost one. */
async function putInPlace(place: Place): Promise<void> {
  const { store, directory, away } = place;
  if (existsSync(`${away}/lost-wal`)) {
    Deno.renameSync(`${away}/lost-wal`, `${store}-wal`);
    return;
  }
  const other = await makeOther(place, "SIGKILL");
  Deno.mkdirSync(directory, { recursive: true });
  for (const suffix of SUFFIXES) {
    if (existsSync(store + suffix)) Deno.removeSync(store + suffix);
    Deno.renameSync(other + suffix, store + suffix);
  }
}

/** Makes another store, as a stop or a kill leaves it. */
async function makeOther(
  { away }: Place,
  signal: "SIGTERM" | "SIGKILL",
): Promise<string> {
  const other = `${away}/other.db`;
  await using program = await Program.start(other);
  await program.create('{"id":1,"name":"another plant"}');
  await program.stop(signal);
  return other;
}

const LOSSES: Readonly<
  Record<string, (place: Place) => void | Promise<void>>
> = {
  "is deleted": ({ store }) => Deno.removeSync(store),
  "is moved": ({ store, away }) => Deno.renameSync(store, `${away}/plants.db`),
  "is moved behind a link"({ store, away }) {
    Deno.renameSync(store, `${away}/plants.db`);
    Deno.symlinkSync(`${away}/plants.db`, store);
  },
  async "is replaced by another store"(place) {
    Deno.renameSync(await makeOther(place, "SIGTERM"), place.store);
  },
  async "is replaced by another store and its log"(place) {
    const other = await makeOther(place, "SIGKILL");
    for (const suffix of SUFFIXES.toReversed()) {
      Deno.renameSync(other + suffix, place.store + suffix);
    }
  },
  "loses its directory": ({ directory }) =>
    Deno.removeSync(directory, { recursive: true }),
  "loses its log": ({ store, away }) =>
    Deno.renameSync(`${store}-wal`, `${away}/lost-wal`),
  async "gets the log of another store"(place) {
    const other = await makeOther(place, "SIGKILL");
    Deno.renameSync(`${other}-wal`, `${place.store}-wal`);
  },
  "loses the index of its log": ({ store }) => Deno.removeSync(`${store}-shm`),
};

for (const [what, cause] of Object.entries(LOSSES)) {
  Deno.test({
    name:
      `a service whose store ${what} acknowledges nothing more, saves every plant, and leaves what is in its place by then alone when it stops`,
    async fn() {
      using directory = new TemporaryDirectory();
      const ledger = new Ledger();
      const place = {
        directory: directory.file("data"),
        store: directory.file("data/plants.db"),
        away: directory.file("away"),
      };
      Deno.mkdirSync(place.directory);
      Deno.mkdirSync(place.away);
      await using program = await Program.start(place.store);
      await createDuring([program], ledger, async () => {
        await ledger.acknowledges(CREATES);
        await cause(place);
        await program.printed(LOST);
      });

      const acknowledged = [...ledger.acknowledged.values()];
      for (const create of [...acknowledged.slice(-9), ...newPlants([-1n])]) {
        const { error } = await ledger.send(program, create);
        assert.equal(error, API_ERRORS.storeFailed.error, `${create.id}`);
      }
      await untilReady(program, 503);
      const [, count, file = "", again] = await program.printed(SAVED);
      assert.equal(again, file);
      await putInPlace(place);
      const before = hashesOf(place.store);
      assertSucceeded(await program.stop());
      assert.deepEqual(hashesOf(place.store), before);
      for (const line of [LOST, SAVED]) {
        assert.equal(occurrences(program.stderr, line), 1, program.stderr);
      }

      const saved = Deno.readTextFileSync(file);
      assert.equal(ledger.assertLines(saved), Number(count));
      assert.ok(Number(count) >= acknowledged.length);
      const restored = directory.file("restored.db");
      assertSucceeded(await importFile(restored, file));
      assert.deepEqual(await exportLines(restored), saved.trim().split("\n"));
    },
  });
}

Deno.test("a service that is stopped just after its store was deleted saves every plant first", async () => {
  using directory = new TemporaryDirectory();
  const ledger = new Ledger();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  await ledger.store(program, newPlants(range(1n, 3_000)));
  for (const suffix of SUFFIXES) Deno.removeSync(store + suffix);
  const ended = await program.stop();
  assertSucceeded(ended);
  const [, , file = ""] = SAVED.exec(ended.stderr) ?? [];
  assert.equal(ledger.assertLines(Deno.readTextFileSync(file)), 3_000);
  assert.match(ended.stderr, /info: stopped\n$/);
});

Deno.test("two services on a store that is deleted save every plant", async () => {
  using directory = new TemporaryDirectory();
  const ledger = new Ledger();
  const store = directory.file("plants.db");
  await using one = await Program.start(store);
  await using other = await Program.start(store);
  await createDuring([one, other], ledger, async () => {
    await ledger.acknowledges(CREATES);
    for (const suffix of SUFFIXES) Deno.removeSync(store + suffix);
    await Promise.all([one, other].map((it) => it.printed(SAVED)));
  });
  const files = [...Deno.readDirSync(directory.path)].map(({ name }) => name)
    .filter((name) => name.endsWith(".jsonl"));
  assert.equal(files.length, 2);
  const lines = new Set(
    files.flatMap((name) =>
      Deno.readTextFileSync(directory.file(name)).trim().split("\n")
    ),
  );
  ledger.assertLines([...lines].join("\n"));
});
