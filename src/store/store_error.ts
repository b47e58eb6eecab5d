/** Why a store cannot be used. */
import { messageWithoutPath } from "../text.ts";

/** What follows from an error. */
interface Kind {
  /** The open store accepts no write any more. */
  readonly endsStore?: true;
  /** A part of the store cannot be read, now and later. */
  readonly isDamage?: true;
  /** A later run with the same configuration may succeed. */
  readonly isTransient?: true;
  /** A write that failed may have taken effect, or may still do so. */
  readonly isOutcomeUnknown?: true;
}

/** Every kind of error. */
const KINDS = {
  "corrupt": { endsStore: true, isDamage: true },
  /** A newer Deno wrote values that this one cannot decode, or they are damaged. */
  "newer format": { isDamage: true },
  /** Nothing was written, because another process wrote at that moment. */
  "locked": { isTransient: true },
  /** Nothing is at a path where a store must be, or only an empty file. */
  "no store": {},
  /** Something else is at a path, or no store can be there. */
  "not a store": {},
  /** A file or a directory cannot be read or written. */
  "denied": {},
  /** A log of SQLite beside the file belongs to another database, or to none. */
  "foreign log": {},
  /** Deno has opened another store in place of the file. */
  "wrong store": {},
  /**
   * A file of the open store was deleted, moved or replaced. This process still has all
   * of it open, but from now on only reads it. A later run uses what is at the path then,
   * so it may succeed.
   */
  "lost": { endsStore: true, isTransient: true, isOutcomeUnknown: true },
  /** Another client of a KV Connect server has changed the plant that was to change. */
  "changed": { isTransient: true, isOutcomeUnknown: true },
  /** An operation took too long. */
  "no answer": { isTransient: true, isOutcomeUnknown: true },
  /** The disk is full, or it fails. */
  "disk": { isTransient: true, isOutcomeUnknown: true },
  /** A KV Connect server reports an error. */
  "server": { isTransient: true, isOutcomeUnknown: true },
  /** Anything else. */
  "unknown": { isTransient: true, isOutcomeUnknown: true },
} as const satisfies Readonly<Record<string, Kind>>;

export type StoreErrorKind = keyof typeof KINDS;

/**
 * A store cannot be used. {@link Kind} explains the properties. Wherever a person reads
 * the message, the kind is beside it: the handbook has a row for each.
 */
export class StoreError extends Error {
  readonly endsStore: boolean;
  readonly isDamage: boolean;
  readonly isTransient: boolean;
  readonly isOutcomeUnknown: boolean;

  constructor(readonly kind: StoreErrorKind, message: string) {
    super(message);
    const { endsStore, isDamage, isTransient, isOutcomeUnknown }: Kind =
      KINDS[kind];
    this.endsStore = endsStore ?? false;
    this.isDamage = isDamage ?? false;
    this.isTransient = isTransient ?? false;
    this.isOutcomeUnknown = isOutcomeUnknown ?? false;
  }
}

/** An error of Deno, Deno KV or SQLite. */
interface Cause {
  readonly kind: StoreErrorKind;
  /** It has one of these classes, or a message with this pattern. */
  readonly classes?: readonly (new (message?: string) => Error)[];
  readonly pattern: RegExp;
  /** Replaces the message of the error. */
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

// SQLite reports a failed read of an intact database in the same way.
const CORRUPT = "the database is corrupt, or its disk fails";

/** How errors are recognized: the first cause that matches counts. */
const CAUSES: readonly Cause[] = [
  {
    kind: "corrupt",
    // Deno throws these for a key that it cannot decode.
    classes: [InvalidData, UnexpectedEof],
    // Deno creates its tables again if their version is missing.
    pattern:
      /malformed|Invalid column type|table \w+ already exists in|Query returned no rows|no such (column|table):/,
    words: CORRUPT,
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
    kind: "no store",
    classes: [NotFound],
    pattern: /^No such file or directory/,
  },
  {
    kind: "not a store",
    classes: [NotADirectory, IsADirectory, FilesystemLoop],
    pattern:
      /not a database|unsupported file format|name too long|^Deno cannot open/,
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
    kind: "disk",
    // SQLite reports so, too, if there is no room for the index of the WAL.
    pattern: /disk I\/O error/,
    words: "the disk is full or fails",
  },
  {
    kind: "disk",
    pattern: /unable to open database file/,
    words: "no file can be opened beside it: the disk has no free inode, or " +
      "the process no free file descriptor",
  },
  {
    kind: "disk",
    pattern: /disk is full|No space left|quota exceeded|Input\/output error/,
  },
];

/** Recognizes an error of Deno, Deno KV or SQLite. */
export function toStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const message = messageWithoutPath(error);
  for (const { kind, classes = [], pattern, words } of CAUSES) {
    const isCause = classes.some((it) => error instanceof it) ||
      pattern.test(message);
    if (isCause) return new StoreError(kind, words ?? message);
  }
  return new StoreError("unknown", message);
}

/** Returns whether a thrown value is an error of the store of a kind. */
export function isOfKind(
  error: unknown,
  kind: StoreErrorKind,
): error is StoreError {
  return error instanceof StoreError && error.kind === kind;
}

/** Returns whether a thrown value says that a part of the store cannot be read. */
export function isDamage(error: unknown): error is StoreError {
  return error instanceof StoreError && error.isDamage;
}

/** Returns the error of a database with impossible content. */
export function corrupt(): StoreError {
  return new StoreError("corrupt", CORRUPT);
}

/** Returns the error of an operation that took too long. */
export function noAnswer(timeoutMs: number): StoreError {
  return new StoreError("no answer", `no answer within ${timeoutMs / 1000} s`);
}
