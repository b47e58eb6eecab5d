import { BODY_BYTES_MAX } from "../limits.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import type { NewPlant } from "../plant/plant.ts";
import type { StoreLocation } from "../store/kv_store.ts";
import { StoreError } from "../store/store_error.ts";
import { writeStderr } from "../telemetry/log.ts";
import { Progress } from "./progress.ts";
import { writeStdout } from "./stdout.ts";
import { openStoreToRead, storeFailure } from "./store.ts";

/** UTF-16 code units to collect before a write. */
const WRITE_CHARS = 64 * 1024;

/** Maximum bytes of a UTF-16 code unit in UTF-8. */
const BYTES_PER_UNIT_MAX = 3;

const encoder = new TextEncoder();

/**
 * Writes every plant to stdout, one NewPlant per line, in the order of ids.
 * @returns the exit status
 * @throws {OperatorError} if the store cannot be read, or stdout not written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(location: StoreLocation): Promise<number> {
  const store = await openStoreToRead(location);
  const progress = new Progress();
  // On a terminal the plants themselves show the progress.
  const isPiped = !Deno.stdout.isTerminal();
  let exported = 0;
  let skipped = 0;
  try {
    for await (const page of store.pages()) {
      let text = "";
      for (const entry of page) {
        const line = typeof entry === "string" ? undefined : formatLine(entry);
        if (line === undefined) {
          const key = typeof entry === "string" ? entry : `id ${entry.id}`;
          progress.print(`${key}: not a plant of this service`);
          skipped++;
          continue;
        }
        exported++;
        text += line;
        if (text.length >= WRITE_CHARS) {
          await writeStdout(text);
          text = "";
        }
      }
      await writeStdout(text);
      if (isPiped) progress.update(exported);
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw storeFailure("read", location, error);
  } finally {
    progress.clear();
    store.close();
  }
  if (skipped === 0) return 0;
  writeStderr(`${exported} exported, ${skipped} skipped`);
  return EXIT_FAILURE;
}

/**
 * Returns a plant as a line that an import accepts, or `undefined` if no line
 * can represent it, since another program stored it.
 */
function formatLine({ id, plant }: NewPlant): string | undefined {
  const { name, tag = "" } = plant;
  if (!name.isWellFormed() || !tag.isWellFormed()) return undefined;
  const members = JSON.stringify(plant).slice(1);
  const line = `{"id":${id},${members}`;
  if (fits(line)) return `${line}\n`;
  // The id of a plant of the largest size may need a shorter spelling.
  const shorter = `{"id":${shortestSpelling(id)},${members}`;
  return fits(shorter) ? `${shorter}\n` : undefined;
}

function fits(line: string): boolean {
  return line.length * BYTES_PER_UNIT_MAX <= BODY_BYTES_MAX ||
    encoder.encode(line).length <= BODY_BYTES_MAX;
}

/** Returns the shortest JSON number of an id: 1e18 for a 1 and 18 zeros. */
function shortestSpelling(id: bigint): string {
  return String(id).replace(/(?<=[1-9])0{3,}$/, (zeros) => `e${zeros.length}`);
}
