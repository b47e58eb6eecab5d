/**
 * What a program did to the files below a directory, and what the disk may hold
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

/** Everything that can change a file or its name, or send a reply. */
export const TRACED_CALLS = "trace=" + [
  ...["?open", "openat", "?openat2", "?creat", "write", "writev", "pwrite64"],
  ...["pwritev", "pwritev2", "?truncate", "?ftruncate", "fallocate", "fsync"],
  ...["fdatasync", "sync_file_range", "?rename", "?renameat", "renameat2"],
  ...["?unlink", "unlinkat", "?link", "linkat", "copy_file_range"],
  ...["?sendfile", "splice", "mmap", "sendto", "sendmsg", "io_uring_setup"],
].join();

type Bytes = Uint8Array<ArrayBuffer>;

const EMPTY = new Uint8Array();

/** What a program did. Paths start at the observed directory. */
export interface DiskEvent {
  readonly at: number;
  /** What it synced. */
  readonly synced?: string;
  /** What it sent to a client, or printed. */
  readonly sent?: string;
  /** Does the same to a disk. */
  apply(disk: Disk): void;
}

/** A file descriptor, and what it refers to. */
const DESCRIPTOR = /(\d+)<([^>]*)>/;

const decoder = new TextDecoder();

/**
 * Returns what the calls of a program did, in the order of time.
 * @param root the directory to observe, by its real path
 * @param begin added to the times
 */
export function toDiskEvents(
  calls: readonly Call[],
  root: string,
  begin: number,
): DiskEvent[] {
  /** The index of a database is memory that processes share, not data. */
  const observed = (path = "") =>
    `${path}/`.startsWith(`${root}/`) && !path.endsWith("-shm")
      ? path.slice(root.length)
      : undefined;

  function toEvent(
    { name, args, strings, result, startedAt, returnedAt }: Call,
  ): DiskEvent | undefined {
    const at = begin + returnedAt;
    const since = begin + startedAt;
    const [, descriptor = "", target = ""] = DESCRIPTOR.exec(args) ?? [];
    if (/^[12]$/.test(descriptor) || target.startsWith("socket:")) {
      const sent = strings.map((it) => decoder.decode(it)).join("");
      return { at: since, sent, apply() {} };
    }
    if (result.startsWith("?") || result.startsWith("-1")) return;
    const paths = strings.map((it) => {
      const text = decoder.decode(it);
      const isRelative = name === "unlinkat" && !text.startsWith("/");
      return observed(isRelative ? `${target}/${text}` : text);
    });
    const [path = observed(target), to = ""] = paths;
    if (path === undefined) {
      assert.notEqual(name, "io_uring_setup");
      return;
    }
    const last = Number(/(\d+)$/.exec(args)?.[1]);
    const [bytes = EMPTY] = strings;
    switch (name.replace(/at2?$/, "")) {
      case "open":
        assert.doesNotMatch(args, /O_APPEND|O_TMPFILE|O_TRUNC/);
        if (!args.includes("O_CREAT")) return;
        return { at, apply: (disk) => disk.create(at, path) };
      case "link":
        return { at, apply: (disk) => disk.link(at, path, to) };
      case "rename":
        return { at, apply: (disk) => disk.link(at, path, to, true) };
      case "unlink":
        return { at, apply: (disk) => disk.remove(at, path) };
      case "pwrite64":
        assert.equal(bytes.length, parseInt(result));
        return { at, apply: (disk) => disk.write(at, path, last, bytes) };
      case "ftruncate":
        return { at, apply: (disk) => disk.resize(at, path, last) };
      case "fsync":
      case "fdatasync":
        return { at, synced: path, apply: (disk) => disk.sync(path, since) };
    }
    const isRead = name === "mmap" && !/PROT_WRITE.*MAP_SHARED/.test(args);
    assert.ok(isRead, `${name} is not supported: ${args}`);
  }

  return calls.map(toEvent).filter((event) => event !== undefined)
    .toSorted((a, b) => a.at - b.at);
}

/** Files by path. */
export type Image = ReadonlyMap<string, Bytes>;

/** Files by path, and contents by file, which can be resized. */
interface State {
  readonly names: Map<string, symbol>;
  readonly contents: Map<symbol, Bytes>;
}

/** How much of the changes that are not durable survives. */
interface Survival {
  keep(at: number): boolean;
  /** Largest piece of a write that is kept or lost. */
  readonly pieceBytes: number;
  /** The bytes where a file grows without what was written there, if it does. */
  readonly old?: number | undefined;
}

const ALL: Survival = { keep: () => true, pieceBytes: Infinity };

/** A change that is not durable. */
interface Pending {
  readonly at: number;
  /** What to sync: a file, or the path of a directory. */
  readonly target: symbol | string;
  apply(state: State, survival: Survival): void;
}

/** The files below a directory while programs work on them. */
export class Disk {
  readonly #durable: State = { names: new Map(), contents: new Map() };
  readonly #names = new Map<string, symbol>();
  #pending: Pending[] = [];

  /** Opens a file, which is created if it is missing. */
  create(at: number, path: string): void {
    if (this.#names.has(path)) return;
    const file = Symbol(path);
    this.#name(at, path, (names) => names.set(path, file));
  }

  /** Gives a file another name; its first one is removed if it is moved. */
  link(at: number, from: string, to: string, isMoved = false): void {
    const file = this.#file(from);
    this.#name(at, to, (names) => {
      names.set(to, file);
      if (isMoved && names.get(from) === file) names.delete(from);
    });
  }

  remove(at: number, path: string): void {
    this.#name(at, path, (names) => names.delete(path));
  }

  resize(at: number, path: string, size: number): void {
    this.#change(at, path, (content, { keep }) => {
      if (keep(at)) content.buffer.resize(size);
    });
  }

  write(at: number, path: string, offset: number, bytes: Bytes): void {
    const end = offset + bytes.length;
    this.#change(at, path, (content, { keep, pieceBytes, old }) => {
      for (let from = offset, to; from < end; from = to) {
        to = Math.min(end, from - from % pieceBytes + pieceBytes);
        const isKept = keep(at);
        if (!isKept && old === undefined) continue;
        const piece = bytes.subarray(from - offset, to - offset);
        const { length } = content;
        if (to > length) content.buffer.resize(to);
        if (isKept) content.set(piece, from);
        else if (to > length) content.fill(old ?? 0, length);
      }
    });
  }

  /** Makes durable what was done to a file or a directory before a time. */
  sync(path: string, before: number): void {
    const target = this.#names.get(path) ?? path;
    this.#pending = this.#pending.filter((pending) => {
      if (pending.target !== target || pending.at >= before) return true;
      pending.apply(this.#durable, ALL);
      return false;
    });
  }

  /** Returns the files as every program sees them. */
  files(): Image {
    return this.#image(() => ALL);
  }

  /** Returns what the disk may hold if the power is cut now. */
  afterPowerCut(random: Random): Image {
    const shares = random.pick<[number, ...number[]]>(
      [[0], [1], [0.1, 0.5, 0.9, 0.98]],
    );
    const pieceBytes = random.pick([Infinity, Infinity, SECTOR_BYTES]);
    const times = this.#pending.map(({ at }) => at);
    const end = random.chance(0.25)
      ? random.pick([Infinity, ...times])
      : Infinity;
    return this.#image(() => {
      const share = random.pick(shares);
      const old = random.pick([undefined, 0, OLD_BYTE]);
      const keep = (at: number) => at < end && random.chance(share);
      return { keep, pieceBytes, old };
    });
  }

  /** @param survive called for each file and directory */
  #image(survive: () => Survival): Image {
    const contents = new Map(
      this.#durable.contents.entries()
        .map(([file, content]) => [file, growable(content)]),
    );
    const state = { names: new Map(this.#durable.names), contents };
    const survivals = new Map<symbol | string, Survival>();
    for (const { target, apply } of this.#pending) {
      const survival = survivals.get(target) ?? survive();
      survivals.set(target, survival);
      apply(state, survival);
    }
    return new Map(
      state.names.entries()
        .map(([path, file]) => [path, (contents.get(file) ?? EMPTY).slice()]),
    );
  }

  #file(path: string): symbol {
    const file = this.#names.get(path);
    assert.ok(file !== undefined, `${path} was never opened`);
    return file;
  }

  #name(
    at: number,
    path: string,
    rename: (names: Map<string, symbol>) => void,
  ): void {
    rename(this.#names);
    const apply: Pending["apply"] = ({ names }, { keep }) => {
      if (keep(at)) rename(names);
    };
    this.#pending.push({ at, target: dirname(path), apply });
  }

  #change(
    at: number,
    path: string,
    change: (content: Bytes, survival: Survival) => void,
  ): void {
    const target = this.#file(path);
    const apply: Pending["apply"] = ({ contents }, survival) => {
      const content = contents.get(target) ?? growable();
      contents.set(target, content);
      change(content, survival);
    };
    this.#pending.push({ at, target, apply });
  }
}

/** Returns a copy that can be resized. */
function growable(bytes = EMPTY): Bytes {
  const size = { maxByteLength: FILE_BYTES_MAX };
  const content = new Uint8Array(new ArrayBuffer(bytes.length, size));
  content.set(bytes);
  return content;
}
