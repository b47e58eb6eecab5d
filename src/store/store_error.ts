/** Why a store, or another file, cannot be used. */
import { errorMessage, toLine, truncate } from "../text.ts";

/** What is wrong, as far as the program or its operator acts on it. */
export type StoreErrorKind =
  /** Nothing usable is at a path. */
  | "path"
  /** A file or a directory cannot be read or written. */
  | "denied"
  /** The log of another database is beside the file, or of none. */
  | "foreign log"
  | "corrupt"
  /** A newer Deno wrote values that this one cannot decode, or they are damaged. */
  | "newer format"
  /** A file of the open store was deleted, moved or replaced. */
  | "lost"
  /** Nothing was written, since another process did so at that moment. */
  | "locked"
  /** An operation took too long. */
  | "no answer"
  /** A full disk, a failing one, a KV Connect server. */
  | "other";

/** A kind of errors of Deno, Deno KV or SQLite: of some classes, or by message. */
interface Row {
  readonly kind: StoreErrorKind;
  readonly classes?: readonly (new (message?: string) => Error)[];
  readonly pattern?: RegExp;
  /** Defaults to the message of the error. */
  readonly words?: string;
}

const {
  FilesystemLoop,
  InvalidData,
  IsADirectory,
  NotADirectory,
  NotFound,
  PermissionDenied,
  UnexpectedEof,
} = Deno.errors;

/** Every known kind of errors; the first row that matches counts. */
const ROWS: readonly Row[] = [
  {
    kind: "corrupt",
    // If Deno finds no version of its tables, it tries to create them again. The
    // classes are those of keys that it cannot decode.
    classes: [InvalidData, UnexpectedEof],
    pattern:
      /malformed|Invalid column type|table \w+ already exists in|Query returned no rows|no such (column|table):/,
    // SQLite reports a failed read of an intact database in the same way.
    words: "the database is corrupt, or its disk fails",
  },
  {
    kind: "newer format",
    pattern: /could not deserialize|value encoding \d+ is unknown/,
    words: "a newer Deno stored plants in it, or they are damaged",
  },
  {
    kind: "locked",
    pattern: /database is locked/,
    // SQLite reports a file system without locks in the same way.
    words: "another process has locked it, or its file system has no locks",
  },
  {
    kind: "path",
    classes: [NotFound, NotADirectory, IsADirectory, FilesystemLoop],
    pattern: /not a database|unsupported file format|name too long/,
  },
  {
    kind: "path",
    pattern: /^Requires all access/,
    words: "Deno cannot open special files, or paths in /dev, /proc and /sys",
  },
  {
    kind: "denied",
    classes: [PermissionDenied],
    pattern: /Read-only file system/,
  },
  {
    kind: "denied",
    pattern: /read-?only database/,
    words: "it or its directory cannot be written",
  },
  {
    kind: "other",
    // SQLite reports so, too, if there is no room for the index of the log.
    pattern: /disk I\/O error/,
    words: "the disk is full or fails",
  },
];

/** Kinds after which another try may succeed with the same configuration. */
const TRANSIENT: readonly StoreErrorKind[] = [
  "lost",
  "locked",
  "no answer",
  "other",
];

/** Maximum length of a message of a KV Connect server, in UTF-16 code units. */
const SERVER_MESSAGE_CHARS_MAX = 200;

/** A store, or another file, cannot be used. */
export class StoreError extends Error {
  /** @param message defaults to the words for this kind */
  constructor(readonly kind: StoreErrorKind, message?: string) {
    super(message ?? ROWS.find((row) => row.kind === kind)?.words);
  }

  /** Whether no write to the open store can succeed any more. */
  get isFinal(): boolean {
    return this.kind === "corrupt" || this.kind === "lost";
  }

  /** Whether a part of the store cannot be read, now and later. */
  get isDamage(): boolean {
    return this.kind === "corrupt" || this.kind === "newer format";
  }

  /** Whether a restart, or time, can end it. */
  get isTransient(): boolean {
    return TRANSIENT.includes(this.kind);
  }
}

/**
 * Converts an error of Deno, Deno KV or SQLite. The message of a KV Connect server
 * can contain anything, even the token, so the token is masked and the message
 * truncated and put on one line.
 * @param token that of the server, if the error may be one of a server
 */
export function toStoreError(error: unknown, token?: string): StoreError {
  if (error instanceof StoreError) return error;
  const message = withoutPath(errorMessage(error));
  const row = ROWS.find(({ classes = [], pattern }) =>
    classes.some((it) => error instanceof it) || pattern?.test(message)
  );
  if (token !== undefined && row?.kind !== "newer format") {
    const masked = toLine(errorMessage(error).replaceAll(token, "[token]"));
    return new StoreError("other", truncate(masked, SERVER_MESSAGE_CHARS_MAX));
  }
  return new StoreError(row?.kind ?? "other", row?.words ?? message);
}

/** Returns the error of an operation that took too long. */
export function noAnswer(timeoutMs: number): StoreError {
  return new StoreError("no answer", `no answer within ${timeoutMs / 1000} s`);
}

/** Removes the path that Deno and SQLite append, which may contain anything. */
function withoutPath(text: string): string {
  return text.replace(/(\(os error \d+\)|open database file).*/s, "$1");
}
