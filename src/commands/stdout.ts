import { errorMessage } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { writeAll } from "../store/files/paths.ts";

/**
 * Writes all of a text to stdout.
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 * @throws {OperatorError} on other failures, such as a full disk
 */
export async function writeStdout(text: string): Promise<void> {
  try {
    await writeAll(Deno.stdout, text);
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) throw error;
    throw new OperatorError(
      `cannot write to stdout: ${errorMessage(error)}`,
      EXIT_FAILURE,
    );
  }
}
