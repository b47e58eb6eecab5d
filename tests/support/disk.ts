/**
 * What programs did to the files below a directory, and what the disk may hold
 * of it after a power cut.
 *
 * The model is the contract of POSIX, as SQLite reads it:
 * - A write or a new size is durable when a later fsync or fdatasync of the same
 *   file has returned.
 * - A name (created, linked, renamed, removed) is durable when a later fsync of
 *   its directory has returned. An fsync of the file does not make its name
 *   durable, although most file systems do more than they promise here.
 * - Everything else may have happened or not, in any order: whole writes or
 *   single sectors of 512 bytes. A sector is old or new, never a mixture; bytes
 *   that were not written do not change (SQLite's "powersafe overwrite").
 * - A file may have grown without what was written there. It has zeros or what
 *   the disk held before.
 * - A rename is atomic.
 */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import type { Random } from "./random.ts";
import type { Call } from "./strace.ts";

const SECTOR_BYTES = 512;

/** What the disk held before in every byte, unless it is 0. */
const OLD_BYTE = 0x5a;

/** More than any recorded file has. */
const FILE_BYTES_MAX = 2 ** 25;

/**
 * The calls that change files or their names, sync them, or send replies. The
 * model does not support all of them: the others fail a test.
 */
export const TRACED_CALLS = "trace=openat,write,writev,pwrite64,ftruncate," +
  "fsync,fdatasync,?link,linkat,?rename,?renameat,renameat2,?unlink,unlinkat," +
  "sendto,sendmsg,?open,?openat2,?creat,?truncate,pwritev,pwritev2,fallocate," +
  "copy_file_range,?sendfile,splice";

type Bytes = Uint8Array<ArrayBuffer>;

/** Files by path. */
export type Image = Map<string, Bytes>;

/** How much of the changes of a file or a directory survives a power cut. */
interface Survival {
  /** @param at the time of the change */
  keep(at: number): boolean;
  /** Largest piece of a write that is kept or lost. */
  readonly pieceBytes: number;
  /** The bytes where a file grows without what was written there, if it does. */
  readonly old?: number | undefined;
}

const ALL: Survival = { keep: () => true, pieceBytes: Infinity };

/** A change of a file or of a name. */
interface Change {
  readonly at: number;
  /** When it became durable. */
  durableAt: number;
  /** What to sync: a file, or the path of a directory. */
  readonly target: Bytes | string;
  /** Does to the content of the file, or to the names, what survives. */
  readonly apply: (survival: Survival, names: Image) => void;
}

/** What was sent to a client, or printed. */
export interface Output {
  readonly at: number;
  readonly text: string;
}

/** A file descriptor, and what it refers to. */
const DESCRIPTOR = /(\d+)<([^>]*)>/;

const decoder = new TextDecoder();

/** The files below a directory while programs work on them. */
export class Disk {
  readonly sent: Output[] = [];
  readonly #root: string;
  /** The names that every program sees; the contents are made for each image. */
  readonly #names: Image = new Map();
  readonly #changes: Change[] = [];

  /** @param root the directory to observe, by its real path */
  constructor(root: string) {
    this.#root = root;
  }

  /**
   * Adds a call; they come in the order in which they returned.
   * @returns whether it is one that matters
   */
  add(
    { name, args, strings, result, startedAt, returnedAt: at }: Call,
  ): boolean {
    const [, descriptor = "", target = ""] = DESCRIPTOR.exec(args) ?? [];
    const texts = strings.map((it) => decoder.decode(it));
    if (/^[12]$/.test(descriptor) || target.startsWith("socket:")) {
      this.sent.push({ at: startedAt, text: texts.join("") });
      return true;
    }
    if (result.startsWith("?") || result.startsWith("-1")) return false;
    const [path = this.#observe(target), to = ""] = texts.map((text) => {
      const isRelative = name === "unlinkat" && !text.startsWith("/");
      return this.#observe(isRelative ? `${target}/${text}` : text);
    });
    if (path === undefined) return false;

    const change = (target: Bytes | string, apply: Change["apply"]) => {
      this.#changes.push({ at, durableAt: Infinity, target, apply });
    };
    const rename = (path: string, apply: (names: Image) => void) => {
      apply(this.#names);
      change(dirname(path), ({ keep }, names) => {
        if (keep(at)) apply(names);
      });
    };
    const last = Number(/(\d+)$/.exec(args)?.[1]);
    switch (name.replace(/at2?$/, "")) {
      case "open": {
        assert.doesNotMatch(args, /O_APPEND|O_TMPFILE|O_TRUNC/);
        if (!args.includes("O_CREAT") || this.#names.has(path)) return false;
        const buffer = new ArrayBuffer(0, { maxByteLength: FILE_BYTES_MAX });
        const file = new Uint8Array(buffer);
        rename(path, (names) => names.set(path, file));
        break;
      }
      case "link":
      case "rename": {
        const file = this.#file(path);
        const isMoved = name.startsWith("rename");
        rename(to, (names) => {
          names.set(to, file);
          if (isMoved && names.get(path) === file) names.delete(path);
        });
        break;
      }
      case "unlink":
        rename(path, (names) => names.delete(path));
        break;
      case "pwrite64": {
        const [bytes = new Uint8Array()] = strings;
        assert.equal(bytes.length, parseInt(result), "a short write");
        const file = this.#file(path);
        change(file, (survival) => write(file, at, last, bytes, survival));
        break;
      }
      case "ftruncate": {
        const file = this.#file(path);
        change(file, ({ keep }) => {
          if (keep(at)) file.buffer.resize(last);
        });
        break;
      }
      case "fsync":
      case "fdatasync": {
        const synced = this.#names.get(path) ?? path;
        for (const change of this.#changes) {
          if (change.target === synced && change.at < startedAt) {
            change.durableAt = Math.min(change.durableAt, at);
          }
        }
        break;
      }
      default:
        assert.fail(`${name} is not supported: ${args}`);
    }
    return true;
  }

  /**
   * Returns the files as every program sees them; with parameters, as the disk
   * has them after a power cut.
   * @param draw called for each file and directory
   */
  image(at = Infinity, draw = () => ALL): Image {
    const names: Image = new Map();
    const survivals = new Map<Bytes | string, Survival>();
    for (const { target } of this.#changes) {
      if (typeof target !== "string") target.buffer.resize(0);
    }
    for (const { at: changedAt, durableAt, target, apply } of this.#changes) {
      if (changedAt >= at) break;
      const isDurable = durableAt < at;
      apply(
        isDurable ? ALL : survivals.getOrInsertComputed(target, draw),
        names,
      );
    }
    return new Map(names.entries().map(([path, file]) => [path, file.slice()]));
  }

  /** Returns what the disk may hold if the power is cut at a time. */
  afterPowerCut(at: number, random: Random): Image {
    const shares = random.pick([[0], [1], [0.1, 0.5, 0.9, 0.98]]);
    const pieceBytes = random.pick([Infinity, Infinity, SECTOR_BYTES]);
    const times = this.#changes
      .filter((change) => change.at < at && change.durableAt >= at)
      .map((change) => change.at);
    // Of the changes since then, only durable ones survive.
    const end = random.chance(0.25) ? random.pick([at, ...times]) : at;
    return this.image(at, () => {
      const share = random.pick(shares);
      const old = random.pick([undefined, 0, OLD_BYTE]);
      const keep = (time: number) => time < end && random.chance(share);
      return { keep, pieceBytes, old };
    });
  }

  /** Returns what is durable right after a change, and this change. */
  afterChange(changedAt: number): Image {
    const keep = (at: number) => at === changedAt;
    return this.image(changedAt + 1, () => ({ ...ALL, keep }));
  }

  /** Returns a path from the observed directory on. */
  #observe(path: string): string | undefined {
    // The index of a log is memory that processes share, not data.
    const isObserved = `${path}/`.startsWith(`${this.#root}/`) &&
      !path.endsWith("-shm");
    return isObserved ? path.slice(this.#root.length) : undefined;
  }

  #file(path: string): Bytes {
    const file = this.#names.get(path);
    assert.ok(file !== undefined, `${path} was never opened`);
    return file;
  }
}

/** Writes what survives of some bytes to a file, piece by piece. */
function write(
  file: Bytes,
  at: number,
  offset: number,
  bytes: Bytes,
  { keep, pieceBytes, old }: Survival,
): void {
  const end = offset + bytes.length;
  for (let from = offset, to; from < end; from = to) {
    to = Math.min(end, from - from % pieceBytes + pieceBytes);
    const isKept = keep(at);
    if (!isKept && old === undefined) continue;
    const { length } = file;
    if (to > length) file.buffer.resize(to);
    if (isKept) file.set(bytes.subarray(from - offset, to - offset), from);
    else if (to > length) file.fill(old ?? 0, length);
  }
}
