/** Why a store cannot be used. */
import { messageWithoutPath } from "../text.ts";

/** A kind of error: what follows from it, and how it is recognized. */
interface Kind {
  /** The open store accepts no write any more. */
  readonly endsStore?: true;
  /** A part of the store cannot be read, now and later. */
  readonly isDamage?: true;
  /** A later run with the same configuration may succeed. */
  readonly isTransient?: true;
  /** A write that failed may have taken effect, or may still do so. */
  readonly isOutcomeUnknown?: true;
  readonly causes?: readonly Cause[];
}

/** Errors of Deno, Deno KV or SQLite, recognized by class or by message. */
interface Cause {
  readonly classes?: readonly (new (message?: string) => Error)[];
  readonly pattern?: RegExp;
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

/** Every kind, in this order: the first cause that matches counts. */
const KINDS = {
  "corrupt": {
    endsStore: true,
    isDamage: true,
    causes: [{
      // Deno throws these for a key that it cannot decode.
      classes: [InvalidData, UnexpectedEof],
      // Deno creates its tables again if their version is missing.
      pattern:
        /malformed|Invalid column type|table \w+ already exists in|Query returned no rows|no such (column|table):/,
      words: CORRUPT,
    }],
  },
  /** A newer Deno wrote values that this one cannot decode, or they are damaged. */
  "newer format": {
    isDamage: true,
    causes: [{
      pattern: /could not deserialize|value encoding \d+ is unknown/,
      words: "a newer Deno stored plants in it, or they are damaged",
    }],
  },
  /** Nothing was written, since another process did so at that moment. */
  "locked": {
    isTransient: true,
    causes: [{
      pattern: /database is locked/,
      // SQLite reports a file system without locks in the same way.
      words: "another process has locked it, or its file system has no locks",
    }],
  },
  /** Nothing usable is at a path. */
  "path": {
    causes: [
      {
        classes: [NotFound, NotADirectory, IsADirectory, FilesystemLoop],
        pattern: /not a database|unsupported file format|name too long/,
      },
      {
        pattern: /^Requires all access/,
        words:
          "Deno cannot open special files, or paths in /dev, /proc and /sys",
      },
    ],
  },
  /** A path has no store, and none may be created there. */
  "no store": {},
  /** A file or a directory cannot be read or written. */
  "denied": {
    causes: [
      { classes: [PermissionDenied], pattern: /Read-only file system/ },
      {
        pattern: /read-?only database/,
        words: "it or its directory cannot be written",
      },
    ],
  },
  /** The log of another database is beside the file, or of none. */
  "foreign log": {},
  /** Deno opens another store than the file: variables of its own say so. */
  "elsewhere": {},
  /**
   * A file of the open store was deleted, moved or replaced. The store has ended,
   * but a restart finds files that were put back.
   */
  "lost": { endsStore: true, isTransient: true, isOutcomeUnknown: true },
  /** An operation took too long. */
  "no answer": { isTransient: true, isOutcomeUnknown: true },
  /** A full disk, a failing one, or anything unknown. */
  "other": {
    isTransient: true,
    isOutcomeUnknown: true,
    causes: [{
      // SQLite reports so, too, if there is no room for the index of the log.
      pattern: /disk I\/O error/,
      words: "the disk is full or fails",
    }],
  },
} satisfies Readonly<Record<string, Kind>>;

export type StoreErrorKind = keyof typeof KINDS;

function isKind(name: string): name is StoreErrorKind {
  return Object.hasOwn(KINDS, name);
}

const KIND_NAMES = Object.keys(KINDS).filter(isKind);

/** A store cannot be used. {@link Kind} explains the properties. */
export class StoreError extends Error {
  constructor(readonly kind: StoreErrorKind, message: string) {
    super(message);
  }

  get endsStore(): boolean {
    return this.#record.endsStore ?? false;
  }

  get isDamage(): boolean {
    return this.#record.isDamage ?? false;
  }

  get isTransient(): boolean {
    return this.#record.isTransient ?? false;
  }

  get isOutcomeUnknown(): boolean {
    return this.#record.isOutcomeUnknown ?? false;
  }

  get #record(): Kind {
    return KINDS[this.kind];
  }
}

/** Converts an error of Deno, Deno KV or SQLite. */
export function toStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const message = messageWithoutPath(error);
  for (const kind of KIND_NAMES) {
    const { causes = [] }: Kind = KINDS[kind];
    for (const { classes = [], pattern, words } of causes) {
      const isCause = classes.some((it) => error instanceof it) ||
        pattern?.test(message);
      if (isCause) return new StoreError(kind, words ?? message);
    }
  }
  return new StoreError("other", message);
}

/** Returns whether a thrown value is an error of the store of a kind. */
export function isOfKind(
  error: unknown,
  kind: StoreErrorKind,
): error is StoreError {
  return error instanceof StoreError && error.kind === kind;
}

/** Returns the error of a database with impossible content. */
export function corrupt(): StoreError {
  return new StoreError("corrupt", CORRUPT);
}

/** Returns the error of a file in whose place Deno opens another store. */
export function elsewhere(): StoreError {
  return new StoreError("elsewhere", "Deno opens another store in its place");
}

/** Returns the error of an operation that took too long. */
export function noAnswer(timeoutMs: number): StoreError {
  return new StoreError("no answer", `no answer within ${timeoutMs / 1000} s`);
}
