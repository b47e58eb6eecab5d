import { toStoreError } from "./store/store_error.ts";

/** Exit status if the command line or the configuration must change. */
export const EXIT_CONFIGURATION = 2;

/** Exit status of other failures, such as a port in use or a full disk. */
export const EXIT_FAILURE = 1;

type ExitStatus = typeof EXIT_CONFIGURATION | typeof EXIT_FAILURE;

/**
 * Returns the exit status of a problem: 1 if it can pass by itself, so that a
 * supervisor should try again, and 2 if an operator must act first.
 */
export function exitStatusOf(
  { isTransient }: { readonly isTransient: boolean },
) {
  return isTransient ? EXIT_FAILURE : EXIT_CONFIGURATION;
}

/** A failure that the operator can act on: one line, and no stack trace. */
export class OperatorError extends Error {
  override readonly name = "OperatorError";
  readonly exitStatus: ExitStatus;

  /** @param message what failed, why, and what to do */
  constructor(message: string, exitStatus: ExitStatus = EXIT_CONFIGURATION) {
    super(message);
    this.exitStatus = exitStatus;
  }
}

/**
 * Converts an error of a file that is not the store.
 * @param action completes "cannot"
 * @param name the file, or what it is
 */
export function fileFailure(
  action: string,
  name: string,
  error: unknown,
): OperatorError {
  const converted = toStoreError(error);
  return new OperatorError(
    `cannot ${action} ${name}: ${converted.message}`,
    exitStatusOf(converted),
  );
}
