import { BODY_BYTES_MAX } from "./limits.ts";
import { printError, writeOut } from "./output.ts";
import type { NewPlant } from "./plant.ts";
import { Progress } from "./progress.ts";
import { EXIT_FAILURE } from "./start_error.ts";
import { openStoreToRead, storeError, type StoreLocation } from "./store.ts";

/** Text goes out as soon as there is this much of it. */
const WRITE_CHARACTERS = 64 * 1024;

/** No UTF-16 code unit takes more bytes than this in UTF-8. */
const BYTES_PER_UNIT_MAX = 3;

const encoder = new TextEncoder();

/**
 * Writes every plant to stdout, one NewPlant a line, in the order of ids.
 * @returns the exit status
 * @throws {StartError} where the store cannot be read or stdout not written
 * @throws {Deno.errors.BrokenPipe} where nobody reads stdout any more
 */
export async function exportPlants(location: StoreLocation): Promise<number> {
  const store = await openStoreToRead(location);
  const progress = new Progress();
  // On a terminal the plants themselves show how far it is.
  const isPiped = !Deno.stdout.isTerminal();
  let exported = 0;
  let foreign = 0;
  try {
    const pages = store.pages();
    for (;;) {
      const { value: page } = await pages.next().catch((error) => {
        throw storeError("read", location, error);
      });
      if (page === undefined) break;
      let text = "";
      for (const entry of page) {
        const line = typeof entry === "string" ? undefined : toLine(entry);
        if (line === undefined) {
          const key = typeof entry === "string" ? entry : `id ${entry.id}`;
          progress.say(`${key}: holds no plant that this service stored`);
          foreign++;
          continue;
        }
        exported++;
        text += line;
        if (text.length >= WRITE_CHARACTERS) {
          await writeOut(text);
          text = "";
        }
      }
      await writeOut(text);
      if (isPiped) progress.update(exported);
    }
  } finally {
    progress.clear();
    store.close();
  }
  if (foreign === 0) return 0;
  printError(`${exported} exported, ${foreign} left out`);
  return EXIT_FAILURE;
}

/**
 * A plant as a line that an import takes, or `undefined` where that cannot be:
 * some other program stored it then.
 */
function toLine({ id, plant }: NewPlant): string | undefined {
  const { name, tag } = plant;
  if (!name.isWellFormed()) return undefined;
  let rest = `,"name":${JSON.stringify(name)}`;
  if (tag !== undefined) {
    if (!tag.isWellFormed()) return undefined;
    rest += `,"tag":${JSON.stringify(tag)}`;
  }
  const line = `{"id":${id}${rest}}`;
  if (fits(line)) return `${line}\n`;
  // A body as large as it may be can spell its id shorter than its digits.
  const short = `{"id":${shortestSpelling(id)}${rest}}`;
  return fits(short) ? `${short}\n` : undefined;
}

function fits(line: string): boolean {
  return line.length * BYTES_PER_UNIT_MAX <= BODY_BYTES_MAX ||
    encoder.encode(line).length <= BODY_BYTES_MAX;
}

/** The shortest JSON number of this very value: 1e18 for a 1 and 18 zeros. */
function shortestSpelling(id: bigint): string {
  return String(id).replace(/(?<=[1-9])0{3,}$/, (zeros) => `e${zeros.length}`);
}
