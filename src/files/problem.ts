import { errorMessage } from "../messages.ts";

/** What is known about a kind of problem. */
interface ProblemRow {
  /** Matches the name and the message of an error of Deno or SQLite. */
  readonly pattern?: RegExp;
  /** Defaults to the message of the error. */
  readonly words?: string;
  /** Whether it can pass without a change of the configuration or the files. */
  readonly isPassing?: true;
}

/** Kinds of problems. The first pattern that matches an error counts. */
export type ProblemTable<Problem extends string = string> =
  readonly (readonly [Problem, ProblemRow])[];

/** An error of a known kind. */
export abstract class ProblemError<Problem extends string> extends Error {
  readonly problem: Problem;
  /** Whether it can pass without a change of the configuration or the files. */
  readonly isPassing: boolean;

  /** @param message defaults to the words of the problem */
  constructor(
    table: ProblemTable<Problem>,
    problem: Problem,
    message?: string,
  ) {
    const row = table.find(([name]) => name === problem)?.[1];
    super(message ?? row?.words);
    this.problem = problem;
    this.isPassing = row?.isPassing ?? false;
  }
}

/** Returns the problem that an error reports, and its message, if it is known. */
export function findProblem<Problem extends string>(
  table: ProblemTable<Problem>,
  error: unknown,
): readonly [problem: Problem, message: string] | undefined {
  // Deno and SQLite append the path, which may contain anything.
  const text = String(error).replace(
    /(\(os error \d+\)|open database file).*/s,
    "$1",
  );
  const found = table.find(([, { pattern }]) => pattern?.test(text));
  return found && [found[0], found[1].words ?? errorMessage(error)];
}
