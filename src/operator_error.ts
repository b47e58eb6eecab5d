import { messageWithoutPath } from "./text.ts";

/**
 * Errors of a file that last until an operator acts. `NotCapable` is one of them: a
 * missing permission of Deno must be added to its command line.
 */
const LASTING = [
  Deno.errors.FilesystemLoop,
  Deno.errors.IsADirectory,
  Deno.errors.NotADirectory,
  Deno.errors.NotCapable,
  Deno.errors.NotFound,
  Deno.errors.PermissionDenied,
];

/** Exit status if the command line or the configuration must change. */
export const EXIT_CONFIGURATION = 2;

/** Exit status of other failures, such as a port in use or a full disk. */
export const EXIT_FAILURE = 1;

/**
 * Returns the exit status of a problem: 1 if it can pass by itself, so that a
 * supervisor should try again, and 2 if an operator must act first.
 */
export function exitStatusOf(isTransient: boolean): number {
  return isTransient ? EXIT_FAILURE : EXIT_CONFIGURATION;
}

/** A failure that the operator can act on: one line, and no stack trace. */
export class OperatorError extends Error {
  override readonly name = "OperatorError";

  /** @param message what failed, why, and what to do */
  constructor(
    message: string,
    readonly exitStatus: number = EXIT_CONFIGURATION,
  ) {
    super(message);
  }
}

/**
 * Converts an error of stdout, or of a file that is not the store.
 * @param what what failed, such as "cannot read FILE"
 */
export function fileFailure(what: string, error: unknown): OperatorError {
  const isLasting = LASTING.some((it) => error instanceof it);
  const message = `${what}: ${messageWithoutPath(error)}`;
  return new OperatorError(message, exitStatusOf(!isLasting));
}
