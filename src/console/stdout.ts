import { fileFailure } from "./failures.ts";

const encoder = new TextEncoder();

/**
 * Writes all of a text to stdout.
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 * @throws {OperatorError} on other failures, such as a full disk
 */
export async function writeStdout(text: string): Promise<void> {
  let bytes = encoder.encode(text);
  try {
    while (bytes.length > 0) {
      bytes = bytes.subarray(await Deno.stdout.write(bytes));
    }
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) throw error;
    throw fileFailure("write to", "stdout", error);
  }
}
