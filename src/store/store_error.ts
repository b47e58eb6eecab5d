/** Why a store cannot be used. */
export type StoreProblem =
  /** There is no file. */
  | "missing"
  /** There is no directory for the file. */
  | "no directory"
  | "directory"
  | "not a store"
  /** The log of another database is beside the file. */
  | "foreign log"
  | "denied"
  | "corrupt"
  /** A newer Deno wrote values that this one cannot read. */
  | "newer format"
  /** A KV Connect server cannot be used. */
  | "server"
  | "other";

/** The store cannot be used. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly problem: StoreProblem;

  /** @param message what is wrong, without the name of the store */
  constructor(problem: StoreProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}
