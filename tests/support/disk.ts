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
import { getOrInsert } from "./maps.ts";

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
export type Image = ReadonlyMap<string, Bytes>;

/** Files by path, and contents by file, which can be resized. */
interface State {
  readonly names: Map<string, symbol>;
  readonly contents: Map<symbol, Bytes>;
}

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
  readonly target: symbol | string;
  apply(state: State, survival: Survival): void;
}

/** A file descriptor, and what it refers to. */
const DESCRIPTOR = /(\d+)<([^>]*)>/;

const decoder = new TextDecoder();

/** The files below a directory while programs work on them. */
export class Disk {
  /** What was sent to clients, or printed. */
  readonly sent: { readonly at: number; readonly text: string }[] = [];
  readonly #root: string;
  /** The files as every program sees them. */
  readonly #names = new Map<string, symbol>();
  readonly #changes: Change[] = [];

  /** @param root the directory to observe, by its real path */
  constructor(root: string) {
    this.#root = root;
  }

  /**
   * Adds a call; they come in the order in which they returned.
   * @returns whether it is one that matters
   */
  add({ name, args, strings, result, startedAt, returnedAt }: Call): boolean {
    const [, descriptor = "", target = ""] = DESCRIPTOR.exec(args) ?? [];
    if (/^[12]$/.test(descriptor) || target.startsWith("socket:")) {
      const text = strings.map((it) => decoder.decode(it)).join("");
      this.sent.push({ at: startedAt, text });
      return true;
    }
    if (result.startsWith("?") || result.startsWith("-1")) return false;
    const [path = this.#observe(target), to = ""] = strings.map((it) => {
      const text = decoder.decode(it);
      const isRelative = name === "unlinkat" && !text.startsWith("/");
      return this.#observe(isRelative ? `${target}/${text}` : text);
    });
    if (path === undefined) return false;
    const last = Number(/(\d+)$/.exec(args)?.[1]);
    const at = returnedAt;
    switch (name.replace(/at2?$/, "")) {
      case "open":
        assert.doesNotMatch(args, /O_APPEND|O_TMPFILE|O_TRUNC/);
        if (!args.includes("O_CREAT") || this.#names.has(path)) return false;
        this.#rename(at, path, Symbol(path));
        break;
      case "link":
        this.#rename(at, to, this.#file(path));
        break;
      case "rename":
        this.#rename(at, to, this.#file(path), path);
        break;
      case "unlink":
        this.#rename(at, path);
        break;
      case "pwrite64": {
        const [bytes = new Uint8Array()] = strings;
        assert.equal(bytes.length, parseInt(result), "a short write");
        this.#write(at, path, last, bytes);
        break;
      }
      case "ftruncate":
        this.#change(at, path, (content, { keep }) => {
          if (keep(at)) content.buffer.resize(last);
        });
        break;
      case "fsync":
      case "fdatasync":
        this.#sync(this.#names.get(path) ?? path, startedAt, returnedAt);
        break;
      default:
        assert.fail(`${name} is not supported: ${args}`);
    }
    return true;
  }

  /** Returns the files as every program sees them. */
  files(): Image {
    return this.#image(Infinity, () => ALL);
  }

  /** Returns what the disk may hold if the power is cut at a time. */
  afterPowerCut(at: number, random: Random): Image {
    const shares = random.pick(
      [[0], [1], [0.1, 0.5, 0.9, 0.98]],
    );
    const pieceBytes = random.pick([Infinity, Infinity, SECTOR_BYTES]);
    const times = this.#changes
      .filter((change) => change.at < at && change.durableAt >= at)
      .map((change) => change.at);
    // Of the changes since then, only durable ones survive.
    const end = random.chance(0.25) ? random.pick([at, ...times]) : at;
    return this.#image(at, () => {
      const share = random.pick(shares);
      const old = random.pick([undefined, 0, OLD_BYTE]);
      const keep = (time: number) => time < end && random.chance(share);
      return { keep, pieceBytes, old };
    });
  }

  /** @param draw called for each file and directory */
  #image(at: number, draw: () => Survival): Image {
    const state: State = { names: new Map(), contents: new Map() };
    const survivals = new Map<symbol | string, Survival>();
    for (const change of this.#changes) {
      if (change.at >= at) break;
      const survival = change.durableAt < at
        ? ALL
        : getOrInsert(survivals, change.target, draw);
      change.apply(state, survival);
    }
    return new Map(
      state.names.entries()
        .map(([path, file]) => [path, contentOf(state, file).slice()]),
    );
  }

  /** Returns a path from the observed directory on. */
  #observe(path: string): string | undefined {
    // The index of a log is memory that processes share, not data.
    const isObserved = `${path}/`.startsWith(`${this.#root}/`) &&
      !path.endsWith("-shm");
    return isObserved ? path.slice(this.#root.length) : undefined;
  }

  #file(path: string): symbol {
    const file = this.#names.get(path);
    assert.ok(file !== undefined, `${path} was never opened`);
    return file;
  }

  /** Gives a name to a file, or removes it; a moved file loses another one. */
  #rename(at: number, path: string, file?: symbol, from?: string): void {
    const rename = (names: Map<string, symbol>) => {
      if (file === undefined) names.delete(path);
      else names.set(path, file);
      if (from !== undefined && names.get(from) === file) names.delete(from);
    };
    rename(this.#names);
    this.#changes.push({
      at,
      durableAt: Infinity,
      target: dirname(path),
      apply({ names }, { keep }) {
        if (keep(at)) rename(names);
      },
    });
  }

  #write(at: number, path: string, offset: number, bytes: Bytes): void {
    const end = offset + bytes.length;
    this.#change(at, path, (content, { keep, pieceBytes, old }) => {
      for (let from = offset, to; from < end; from = to) {
        to = Math.min(end, from - from % pieceBytes + pieceBytes);
        const isKept = keep(at);
        if (!isKept && old === undefined) continue;
        const { length } = content;
        if (to > length) content.buffer.resize(to);
        if (isKept) {
          content.set(bytes.subarray(from - offset, to - offset), from);
        } else if (to > length) content.fill(old ?? 0, length);
      }
    });
  }

  #change(
    at: number,
    path: string,
    change: (content: Bytes, survival: Survival) => void,
  ): void {
    const target = this.#file(path);
    this.#changes.push({
      at,
      durableAt: Infinity,
      target,
      apply: (state, survival) => change(contentOf(state, target), survival),
    });
  }

  /** Makes durable what was done to a file or a directory before a sync. */
  #sync(target: symbol | string, startedAt: number, returnedAt: number): void {
    for (const change of this.#changes) {
      if (change.target === target && change.at < startedAt) {
        change.durableAt = Math.min(change.durableAt, returnedAt);
      }
    }
  }
}

function contentOf({ contents }: State, file: symbol): Bytes {
  return getOrInsert(
    contents,
    file,
    () =>
      new Uint8Array(
        new ArrayBuffer(0, { maxByteLength: FILE_BYTES_MAX }),
      ),
  );
}
