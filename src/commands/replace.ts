import type { StoreSetting } from "../config/settings.ts";
import { printLine } from "../console/output.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import type { NewPlant } from "../plant/plant.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openExistingStore } from "../store/open.ts";
import { type Change, replacePlant } from "../store/plants.ts";
import { StoreError } from "../store/store_error.ts";
import { countOf } from "../text.ts";
import { openStdin, parseLine, readLines } from "./lines.ts";

/**
 * Stores a plant in place of the one with its id, while a service uses the store or
 * not. A value that is not a plant, or cannot be decoded, is replaced, too.
 * @param operand a NewPlant as JSON, or `-` for a line of stdin
 * @param replace replaced by tests
 * @returns the exit status: 1 if the id has no plant; then nothing is created
 * @throws {OperatorError} if the operand is not one NewPlant
 * @throws {StoreError}
 */
export async function replaceStored(
  location: StoreSetting,
  operand: string,
  replace: (
    store: KvStore,
    newPlant: NewPlant,
  ) => Promise<Change> = replacePlant,
): Promise<number> {
  const newPlant = operand === "-"
    ? await readStdin()
    : requirePlant(parseLine(new TextEncoder().encode(operand)));
  const { id } = newPlant;
  const store = await openExistingStore(location, { onDelay: printLine });
  let replaced = 0;
  try {
    const change = await replace(store, newPlant);
    if (change === "changed") replaced++;
    else if (change === "unchanged") {
      printLine(`id ${id}: the stored plant is the same already`);
    } else {
      printLine(`id ${id}: no such plant`);
      return EXIT_FAILURE;
    }
  } catch (error) {
    if (error instanceof StoreError && error.isOutcomeUnknown) {
      printLine(`id ${id}: the plant may have been replaced`);
    }
    throw error;
  } finally {
    store.close();
    printLine(`${countOf(replaced, "plant", "plants")} replaced`);
  }
  return 0;
}

/** Reads a NewPlant from stdin, as the only line that is not blank. */
async function readStdin(): Promise<NewPlant> {
  let newPlant: NewPlant | undefined;
  for await (const lines of readLines(openStdin(), "-")) {
    for (const line of lines) {
      const parsed = parseLine(line);
      if (parsed === undefined) continue;
      if (newPlant !== undefined) {
        throw new OperatorError("expected one plant, got a second line");
      }
      newPlant = requirePlant(parsed);
    }
  }
  return requirePlant(newPlant);
}

/** Returns the plant of a line. @throws {OperatorError} if there is none */
function requirePlant(parsed: NewPlant | string | undefined): NewPlant {
  if (parsed === undefined) {
    throw new OperatorError("expected a plant, got nothing");
  }
  if (typeof parsed === "string") throw new OperatorError(parsed);
  return parsed;
}
