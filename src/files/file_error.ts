import { userInfo } from "node:os";
import { errorMessage } from "../messages.ts";
import { findProblem, ProblemError, type ProblemTable } from "./problem.ts";

/** Every problem of a file. */
const TABLE = [
  ["missing", { pattern: /^Not(Found|ADirectory)\b/, words: "no such file" }],
  /** There is no directory for a new file. */
  ["no directory", {}],
  ["directory", { pattern: /^IsADirectory\b/, words: "it is a directory" }],
  /** Another file has the name of a new one. */
  ["exists", { words: "it already exists" }],
  /** A path below /dev, /proc or /sys, or not a regular file. */
  ["special path", {
    pattern: /^NotCapable: Requires all access/,
    words: "Deno cannot open special files, or paths in /dev, /proc and /sys",
  }],
  /** The path is too long, or its links form a loop. */
  ["bad path", { pattern: /name too long|levels of symbolic links/ }],
  ["read-only", {
    pattern: /Read-only file system/,
    words: "the file system is read-only",
  }],
  ["denied", { pattern: /^PermissionDenied\b/, words: "permission denied" }],
  ["full", {
    pattern: /disk is full|No space left|quota exceeded/,
    words: "the disk is full",
    isPassing: true,
  }],
  /** A new file is complete and has its name, which a power cut may undo. */
  ["not synced", { isPassing: true }],
  ["other", { isPassing: true }],
] as const satisfies ProblemTable;

/** Why a file cannot be used. */
export type FileProblem = typeof TABLE[number][0];

/** A file cannot be used. */
export class FileError extends ProblemError<FileProblem> {
  constructor(problem: FileProblem, message?: string) {
    super(TABLE, problem, message);
  }
}

/** Converts an error of Deno's file system. */
export function toFileError(error: unknown): FileError {
  if (error instanceof FileError) return error;
  const [problem, message] = findProblem(TABLE, error) ??
    ["other", errorMessage(error)];
  const who = problem === "denied" ? asUser() : "";
  return new FileError(problem, message + who);
}

/** Names the user: an operator may run the command as the user of the service. */
function asUser(): string {
  try {
    return ` as user ${userInfo().username}`;
  } catch {
    // The user has no name.
    return "";
  }
}
