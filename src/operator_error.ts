/** Exit status if the command line or the configuration must change. */
export const EXIT_CONFIGURATION = 2;

/** Exit status of other failures, such as a port in use or a full disk. */
export const EXIT_FAILURE = 1;

type ExitStatus = typeof EXIT_CONFIGURATION | typeof EXIT_FAILURE;

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
