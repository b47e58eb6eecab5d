import { resolveLinks } from "../../src/files/file_system.ts";
import { leaveWalMode } from "./damage.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { test } from "./tests.ts";

/** The key of the plant in the stores of these tests. */
export const KEY = ["plants", 1n];
export const PLANT = { name: "Monstera" };

/** Each makes what leads to `data/plants.db`, and returns the path to use. */
const PLACES: Readonly<
  Record<string, (directory: TemporaryDirectory) => string>
> = {
  "a path": (directory) => directory.file("data/plants.db"),
  "a link"(directory) {
    const path = directory.file("plants.db");
    Deno.symlinkSync(directory.file("data/plants.db"), path);
    return path;
  },
  "a chain of relative links of other names"(directory) {
    const path = directory.file("first.db");
    Deno.symlinkSync("data/second.db", path);
    Deno.symlinkSync("../data/plants.db", directory.file("data/second.db"));
    return path;
  },
  "a linked directory"(directory) {
    Deno.symlinkSync("data", directory.file("linked"));
    return directory.file("linked/plants.db");
  },
};

/** Makes a store with one plant, closed. */
export async function makeStore(path: string): Promise<void> {
  using kv = await Deno.openKv(resolveLinks(path));
  await kv.set(KEY, PLANT);
}

/** Makes the log of a store that was killed, and nothing else. */
export async function makeLog(path: string): Promise<void> {
  using directory = new TemporaryDirectory();
  using kv = await Deno.openKv(directory.file("other.db"));
  await kv.set(KEY, { name: "Ficus" });
  Deno.copyFileSync(directory.file("other.db-wal"), path);
}

/** Makes a store of one file that is not in WAL mode, as a backup is. */
export async function makeBackup(path: string): Promise<void> {
  await makeStore(path);
  leaveWalMode(path);
}

/** What a test of a place gets: the path to use, and that of the file itself. */
interface Place {
  readonly path: string;
  readonly real: string;
}

/** Tests of each place, with an empty directory "data" and the links. */
export const eachPlace = {
  test(name: string, run: (place: Place) => void | Promise<void>): void {
    for (const [place, link] of Object.entries(PLACES)) {
      test(`${name}, by ${place}`, async ({ directory }) => {
        Deno.mkdirSync(directory.file("data"));
        const path = link(directory);
        const real = `${Deno.realPathSync(directory.path)}/data/plants.db`;
        await run({ path, real });
      });
    }
  },
};
