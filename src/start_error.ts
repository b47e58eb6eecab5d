/** Exit status where what was configured must change before a start can work. */
export const EXIT_CONFIGURATION = 2;

/** Exit status where the world must change: a port taken, a server away. */
export const EXIT_FAILURE = 1;

/** Why the program cannot start or go on: one line for who can act on it. */
export class StartError extends Error {
  override readonly name = "StartError";
  readonly exitStatus: typeof EXIT_CONFIGURATION | typeof EXIT_FAILURE;

  constructor(
    message: string,
    exitStatus: typeof EXIT_CONFIGURATION | typeof EXIT_FAILURE =
      EXIT_CONFIGURATION,
  ) {
    super(message);
    this.exitStatus = exitStatus;
  }
}
