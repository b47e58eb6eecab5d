import { printLine } from "../console/output.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import type { NewPlant } from "../plant/plant.ts";
import { openExistingStore, type StoreLocation } from "../store/open.ts";
import { changePlant } from "../store/plants.ts";
import { StoreError } from "../store/store_error.ts";
import { countOf } from "../text.ts";
import { parseLine, readLines } from "../console/lines.ts";

/** What tests replace. */
interface ReplaceOptions {
  readonly change?: typeof changePlant;
}

/**
 * Stores a plant in place of the one with its id, while a service uses the store or
 * not. A value that is not a plant, or cannot be decoded, is replaced, too.
 * @param operand a NewPlant as JSON, or `-` for a line of stdin
 * @returns the exit status: 1 if the id has no plant; then nothing is created
 * @throws {OperatorError} if the operand is not one NewPlant
 * @throws {StoreError}
 */
export async function replaceStored(
  location: StoreLocation,
  operand: string,
  { change = changePlant }: ReplaceOptions = {},
): Promise<number> {
  const lines = operand === "-"
    ? (await Array.fromAsync(readLines(Deno.stdin.readable, operand))).flat()
    : [new TextEncoder().encode(operand)];
  const { id, plant } = onePlantOf(lines);
  const store = await openExistingStore(location);
  let replaced = 0;
  try {
    const found = await change(store, id, plant);
    if (found === "changed") replaced++;
    else if (found === "unchanged") {
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

/**
 * Returns the plant of the only line that is not blank.
 * @throws {OperatorError} if there is none
 */
function onePlantOf(lines: readonly Uint8Array[]): NewPlant {
  const [parsed, second] = lines.map(parseLine)
    .filter((it) => it !== undefined);
  if (parsed === undefined) {
    throw new OperatorError("expected a plant, got nothing");
  }
  if (typeof parsed === "string") throw new OperatorError(parsed);
  if (second === undefined) return parsed;
  throw new OperatorError("expected one plant, got a second line");
}
