/**
 * What a disk may hold after a power cut.
 *
 * The model is the contract of POSIX, as SQLite reads it:
 * - A write, a truncation or a new size is durable when a later fsync or
 *   fdatasync of the same file has returned.
 * - A name (created, linked, renamed, removed) is durable when a later fsync
 *   of its directory has returned. An fsync of the file does not make its name
 *   durable, although most file systems do more than they promise here.
 * - Everything else may have happened or not, in any order: whole writes or
 *   single sectors of 512 bytes. A sector is old or new, never a mixture; bytes
 *   that were not written do not change (SQLite's "powersafe overwrite").
 * - A file may have grown without what was written there. It has zeros or what
 *   the disk held before.
 * - A rename is atomic.
 */
import assert from "node:assert/strict";
import type { Random } from "./random.ts";
import type { RecordedEvent } from "./recorder.ts";

const SECTOR_BYTES = 512;

/** What survives of the changes that were not synced. */
export const LOSSES = [
  "all is lost",
  "nothing is lost",
  "the last changes are lost",
  "some changes are lost",
  "some sectors are lost",
] as const;

export type Loss = typeof LOSSES[number];

/** Files by path. */
export type Image = ReadonlyMap<string, Uint8Array<ArrayBuffer>>;

interface FileChange {
  readonly at: number;
  /** The new size, of a truncation. */
  readonly size?: number;
  readonly offset: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The names that one call gives to files, or removes. */
interface NameChange {
  readonly at: number;
  readonly names: readonly (readonly [path: string, file: File | undefined])[];
}

/** The durable state of a file, and its changes since. */
class File {
  /** Grows by doubling; zeros beyond the size. */
  #buffer = new Uint8Array(4_096);
  #size = 0;
  pending: FileChange[] = [];

  /** Makes the changes before a time durable. */
  sync(before: number): void {
    const later = this.pending.findIndex(({ at }) => at >= before);
    const count = later === -1 ? this.pending.length : later;
    for (const change of this.pending.splice(0, count)) this.#apply(change);
  }

  #apply({ size, offset, bytes }: FileChange): void {
    if (size !== undefined) {
      if (size < this.#size) this.#buffer.fill(0, size, this.#size);
      this.#reserve(size);
      this.#size = size;
      return;
    }
    const end = offset + bytes.length;
    this.#reserve(end);
    this.#buffer.set(bytes, offset);
    this.#size = Math.max(this.#size, end);
  }

  #reserve(size: number): void {
    if (size <= this.#buffer.length) return;
    const larger = new Uint8Array(Math.max(size, 2 * this.#buffer.length));
    larger.set(this.#buffer.subarray(0, this.#size));
    this.#buffer = larger;
  }

  /**
   * Returns the content with the changes that are kept.
   * @param keep called for each change, or for each sector of a write
   * @param old if the file keeps its size: what the disk held before there
   */
  contentWith(
    keep: (change: FileChange) => boolean,
    bySector: boolean,
    old?: Uint8Array,
  ): Uint8Array<ArrayBuffer> {
    const sizeMax = this.pending.reduce(
      (size, change) => Math.max(size, endOf(change)),
      this.#size,
    );
    const content = new Uint8Array(sizeMax);
    content.set(this.#buffer.subarray(0, this.#size));
    if (old !== undefined) {
      for (let at = this.#size; at < content.length; at += old.length) {
        content.set(old.subarray(0, content.length - at), at);
      }
    }
    let size = this.#size;
    let grownSize = this.#size;
    for (const change of this.pending) {
      const end = endOf(change);
      if (change.size === undefined) {
        const written = writeKept(content, change, bySector, keep);
        size = Math.max(size, written);
        grownSize = Math.max(grownSize, end);
      } else if (keep(change)) {
        if (end < size) content.fill(0, end, size);
        size = end;
        grownSize = end;
      }
    }
    return content.subarray(0, old === undefined ? size : grownSize);
  }
}

/** Writes what is kept of a change; returns the end of it. */
function writeKept(
  content: Uint8Array,
  change: FileChange,
  bySector: boolean,
  keep: (change: FileChange) => boolean,
): number {
  const { offset, bytes } = change;
  const end = offset + bytes.length;
  let written = 0;
  for (let from = offset; from < end;) {
    const sectorEnd = from - from % SECTOR_BYTES + SECTOR_BYTES;
    const to = bySector ? Math.min(end, sectorEnd) : end;
    if (keep(change)) {
      content.set(bytes.subarray(from - offset, to - offset), from);
      written = to;
    }
    from = to;
  }
  return written;
}

/** Returns the size that a file has at least, or exactly, after a change. */
function endOf({ size, offset, bytes }: FileChange): number {
  return size ?? offset + bytes.length;
}

/** The files below a directory while a program works on them. */
export class Disk {
  /** The number of events so far. */
  #now = 0;
  readonly #current = new Map<string, File>();
  readonly #durable = new Map<string, File>();
  /** Changes of names that are not durable, by directory. */
  readonly #names = new Map<string, NameChange[]>();
  /** When the syncs started that have not ended. */
  readonly #syncs = new Map<number, number>();

  apply(event: RecordedEvent): void {
    const at = this.#now++;
    switch (event.kind) {
      case "open": {
        const file = this.#current.get(event.path);
        if (file === undefined) this.#name(at, [[event.path, new File()]]);
        else if (event.truncates) file.pending.push(truncation(at, 0));
        return;
      }
      case "write": {
        const { offset, bytes } = event;
        this.#file(event.path).pending.push({ at, offset, bytes });
        return;
      }
      case "truncate":
        this.#file(event.path).pending.push(truncation(at, event.size));
        return;
      case "link":
        this.#name(at, [[event.path, this.#file(event.from)]]);
        return;
      case "rename": {
        const file = this.#file(event.from);
        this.#name(at, [[event.from, undefined], [event.path, file]]);
        return;
      }
      case "unlink":
        this.#name(at, [[event.path, undefined]]);
        return;
      case "sync started":
        this.#syncs.set(event.sync, at);
        return;
      case "sync ended":
        this.#sync(event.path, this.#syncs.get(event.sync) ?? 0);
        this.#syncs.delete(event.sync);
        return;
    }
  }

  /** Returns the files as every program sees them. */
  files(): Image {
    return new Map(
      Array.from(this.#current, ([path, file]) => [path, contentOf(file)]),
    );
  }

  /** Returns what the disk may hold if the power is cut now. */
  afterPowerCut(random: Random, loss: Loss): Image {
    const firstLost = random.int(this.#firstPending(), this.#now);
    const drawKeep = (): (change: { at: number }) => boolean => {
      const kept = random.pick([0.1, 0.5, 0.9, 0.98]);
      switch (loss) {
        case "all is lost":
          return () => false;
        case "nothing is lost":
          return () => true;
        case "the last changes are lost":
          return ({ at }) => at < firstLost;
        case "some changes are lost":
        case "some sectors are lost":
          return () => random.chance(kept);
      }
    };

    const names = new Map(this.#durable);
    for (const changes of this.#names.values()) {
      const keep = drawKeep();
      for (const change of changes) if (keep(change)) rename(names, change);
    }
    const contents = new Map<File, Uint8Array<ArrayBuffer>>();
    const image = new Map<string, Uint8Array<ArrayBuffer>>();
    for (const [path, file] of names) {
      const content = contents.get(file) ?? file.contentWith(
        drawKeep(),
        loss === "some sectors are lost",
        loss === "nothing is lost" ? undefined : random.pick([
          undefined,
          new Uint8Array(SECTOR_BYTES),
          drawBytes(random, 7 * SECTOR_BYTES),
        ]),
      );
      contents.set(file, content);
      image.set(path, content);
    }
    return image;
  }

  #file(path: string): File {
    const file = this.#current.get(path);
    assert.ok(file !== undefined, `${path} was never opened`);
    return file;
  }

  #name(at: number, names: NameChange["names"]): void {
    const change = { at, names };
    rename(this.#current, change);
    const [directory, ...others] = new Set(
      names.map(([path]) => path.slice(0, path.lastIndexOf("/"))),
    );
    assert.ok(directory !== undefined && others.length === 0);
    this.#names.set(directory, [...this.#names.get(directory) ?? [], change]);
  }

  #sync(path: string, before: number): void {
    const file = this.#current.get(path);
    if (file !== undefined) return file.sync(before);
    const changes = this.#names.get(path) ?? [];
    for (const change of changes) {
      if (change.at < before) rename(this.#durable, change);
    }
    this.#names.set(path, changes.filter(({ at }) => at >= before));
  }

  #firstPending(): number {
    const files = new Set([
      ...this.#current.values(),
      ...this.#durable.values(),
    ]);
    const pending = [
      ...Array.from(files, (file) => file.pending.at(0)),
      ...Array.from(this.#names.values(), (changes) => changes.at(0)),
    ];
    return Math.min(this.#now, ...pending.map((it) => it?.at ?? this.#now));
  }
}

function truncation(at: number, size: number): FileChange {
  return { at, size, offset: 0, bytes: new Uint8Array() };
}

function contentOf(file: File): Uint8Array<ArrayBuffer> {
  return file.contentWith(() => true, false);
}

function rename(names: Map<string, File>, change: NameChange): void {
  for (const [path, file] of change.names) {
    if (file === undefined) names.delete(path);
    else names.set(path, file);
  }
}

/** Returns random bytes, which no program has written. */
export function drawBytes(
  random: Random,
  length: number,
): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, () => random.int(0, 255));
}
