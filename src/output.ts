import { messageOf } from "./faults.ts";
import { EXIT_FAILURE, StartError } from "./start_error.ts";

const encoder = new TextEncoder();

/**
 * Prints a text and a line end on stderr. What cannot be printed, because the
 * disk is full for example, is no reason to stop.
 */
export function printError(text: string): void {
  try {
    console.error(text);
  } catch {
    // There is nobody left to tell.
  }
}

/**
 * Writes all of a text to stdout.
 * @throws {Deno.errors.BrokenPipe} where nobody reads it any more
 * @throws {StartError} where it cannot be written
 */
export async function writeOut(text: string): Promise<void> {
  let bytes = encoder.encode(text);
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(await Deno.stdout.write(bytes));
    } catch (error) {
      if (error instanceof Deno.errors.BrokenPipe) throw error;
      throw new StartError(
        `cannot write to stdout: ${messageOf(error)}`,
        EXIT_FAILURE,
      );
    }
  }
}
