/** The commands that change stored plants, while a service uses the store or not. */
import { openStdin, parseLine, readLines } from "../console/lines.ts";
import { printLine } from "../console/output.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import type { NewPlant, Plant } from "../plant/plant.ts";
import { openExistingStore, type StoreLocation } from "../store/open.ts";
import { changePlant } from "../store/plants.ts";
import { StoreError } from "../store/store_error.ts";
import { countOf } from "../text.ts";

/** What tests replace. */
interface ChangeOptions {
  readonly change?: typeof changePlant;
}

/**
 * Removes plants.
 * @param ids one or more ids
 * @returns the exit status: 1 if an id has no plant
 * @throws {StoreError}
 */
export function removePlants(
  location: StoreLocation,
  ids: readonly bigint[],
  options?: ChangeOptions,
): Promise<number> {
  const removals = new Map(ids.map((id) => [id, undefined]));
  return changePlants(location, removals, "removed", options);
}

/**
 * Stores a plant in place of the one with its id. A value that is not a plant, or
 * cannot be decoded, is replaced, too.
 * @param operand a NewPlant as JSON, or `-` for a line of stdin
 * @returns the exit status: 1 if the id has no plant; then nothing is created
 * @throws {OperatorError} if the operand is not one NewPlant
 * @throws {StoreError}
 */
export async function replacePlant(
  location: StoreLocation,
  operand: string,
  options?: ChangeOptions,
): Promise<number> {
  const input = operand === "-"
    ? readLines(openStdin(), operand)
    : [[new TextEncoder().encode(operand)]];
  const { id, plant } = await readOnePlant(input);
  return changePlants(location, new Map([[id, plant]]), "replaced", options);
}

/**
 * Reads the plant of the only line that is not blank.
 * @throws {OperatorError} if there is none
 */
async function readOnePlant(
  input: AsyncIterable<readonly Uint8Array[]> | Uint8Array[][],
): Promise<NewPlant> {
  let plant: NewPlant | undefined;
  for await (const lines of input) {
    for (const line of lines) {
      const parsed = parseLine(line);
      if (parsed === undefined) continue;
      if (plant !== undefined) {
        throw new OperatorError("expected one plant, got a second line");
      }
      if (typeof parsed === "string") throw new OperatorError(parsed);
      plant = parsed;
    }
  }
  if (plant !== undefined) return plant;
  throw new OperatorError("expected a plant, got nothing");
}

/** Changes plants in order, until the store fails. */
async function changePlants(
  location: StoreLocation,
  changes: ReadonlyMap<bigint, Plant | undefined>,
  verb: "removed" | "replaced",
  { change = changePlant }: ChangeOptions = {},
): Promise<number> {
  const store = await openExistingStore(location);
  const counts = { changed: 0, unchanged: 0, absent: 0 };
  try {
    for (const [id, plant] of changes) {
      try {
        const found = await change(store, id, plant);
        counts[found]++;
        if (found === "absent") printLine(`id ${id}: no such plant`);
        if (found === "unchanged") {
          printLine(`id ${id}: the stored plant is the same already`);
        }
      } catch (error) {
        if (error instanceof StoreError && error.isOutcomeUnknown) {
          printLine(`id ${id}: the plant may have been ${verb}`);
        }
        throw error;
      }
    }
  } finally {
    store.close();
    printLine(`${countOf(counts.changed, "plant", "plants")} ${verb}`);
  }
  return counts.absent === 0 ? 0 : EXIT_FAILURE;
}
