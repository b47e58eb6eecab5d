import { EXIT_FAILURE } from "../operator_error.ts";
import { formatNewPlant } from "../plant/plant.ts";
import type { StoreLocation } from "../store/location.ts";
import { StoreError } from "../store/store_error.ts";
import { writeStderr } from "../telemetry/log.ts";
import { Progress } from "./progress.ts";
import { writeStdout } from "./stdout.ts";
import { openForExport, storeFailure } from "./store.ts";

/**
 * Writes every plant to stdout, one NewPlant per line, in the order of ids.
 * @returns the exit status
 * @throws {OperatorError} if the store cannot be read, or stdout not written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(location: StoreLocation): Promise<number> {
  const store = await openForExport(location);
  const progress = new Progress();
  // On a terminal the plants themselves show the progress.
  const isPiped = !Deno.stdout.isTerminal();
  let exported = 0;
  let skipped = 0;
  try {
    for await (const page of store.pages()) {
      let text = "";
      for (const entry of page) {
        const isForeign = typeof entry === "string";
        const line = isForeign ? undefined : formatNewPlant(entry);
        if (line !== undefined) {
          text += `${line}\n`;
          exported++;
        } else {
          const key = isForeign ? entry : `id ${entry.id}`;
          progress.print(`${key}: not a plant of this service`);
          skipped++;
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
