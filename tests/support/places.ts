import { leaveWalMode } from "./damage.ts";
import { TemporaryDirectory } from "./temporary.ts";

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
  using kv = await Deno.openKv(path);
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

/**
 * Registers a test for each place, with an empty directory "data" and the links.
 * @param run gets the path to use, and the one of the file itself
 */
export function testPlaces(
  title: (place: string) => string,
  run: (path: string, real: string) => void | Promise<void>,
): void {
  for (const [name, link] of Object.entries(PLACES)) {
    Deno.test(title(name), async () => {
      using directory = new TemporaryDirectory();
      Deno.mkdirSync(directory.file("data"));
      const path = link(directory);
      await run(path, `${Deno.realPathSync(directory.path)}/data/plants.db`);
    });
  }
}
