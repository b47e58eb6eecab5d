/**
 * Accidents to the files of an open store: from then on, nothing is acknowledged,
 * and what the process has open is a complete store.
 */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { createDuring } from "../support/instances.ts";
import { Ledger } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { newPlants } from "../support/plants.ts";
import {
  assertSucceeded,
  occurrences,
  Program,
  runProgram,
  untilReady,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

/** Acknowledged creates before an accident: some are in the log only. */
const CREATES = 2_000;

const DO_NOT_RESTART =
  /error: the store fails: \S+\.db: \S.*: do not restart the service before the files are put back or copied, see \S+README\.md\n/;

/** The files of a store in a directory of its own, and a directory beside it. */
interface Place {
  readonly store: string;
  readonly directory: string;
  readonly away: string;
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
    for (const suffix of ["-wal", "-shm", ""]) {
      Deno.renameSync(other + suffix, place.store + suffix);
    }
  },
  "loses its directory": ({ directory }) =>
    Deno.removeSync(directory, { recursive: true }),
  "loses its log": ({ store }) => Deno.removeSync(`${store}-wal`),
  async "gets the log of another store"(place) {
    const other = await makeOther(place, "SIGKILL");
    Deno.renameSync(`${other}-wal`, `${place.store}-wal`);
  },
  "loses the index of its log": ({ store }) => Deno.removeSync(`${store}-shm`),
};

/** Copies the open files of a process, as the handbook does. */
const COPY = `
cp "$(find /proc/$0/fd -lname '*/plants.db*' ! -lname '*.db-*' | head -n 1)" "$1"
cp "$(find /proc/$0/fd -lname '*/plants.db-wal*' | head -n 1)" "$1-wal"
`;

for (const [what, cause] of Object.entries(LOSSES)) {
  Deno.test({
    name:
      `a service whose store ${what} acknowledges nothing more, and its open files are whole`,
    ignore: isMissing("Linux"),
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
        await program.printed(DO_NOT_RESTART);
      });

      const acknowledged = [...ledger.acknowledged.values()];
      for (const create of [...acknowledged.slice(-9), ...newPlants([-1n])]) {
        const { error } = await ledger.send(program, create);
        assert.equal(error, API_ERRORS.storeFailed.error, `${create.id}`);
      }
      await untilReady(program, 503);
      const copy = directory.file("copy.db");
      await runTool("sh", ["-c", COPY, `${program.process.pid}`, copy]);
      assertSucceeded(await program.stop());
      const { stderr } = program;
      assert.equal(occurrences(stderr, DO_NOT_RESTART), 1, stderr);

      const exported = await runProgram(["export", "--kv", copy]);
      assertSucceeded(exported);
      const stored = ledger.assertLines(exported.stdout);
      assert.ok(stored >= acknowledged.length);
    },
  });
}
