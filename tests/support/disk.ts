/**
 * The files that programs changed in a directory, and what the disk may hold of
 * them after a power cut. The model is POSIX, as SQLite reads it:
 * - A write or a new size is durable when a later sync of the file has returned,
 *   a name that was created or removed when one of its directory has.
 * - Everything else may have happened or not, in any order or up to some moment:
 *   whole writes or single sectors, which are old or new, never a mixture. A file
 *   may have grown without what was written there.
 */
import { basename, dirname } from "node:path";
import type { Random } from "./random.ts";
import type { Call } from "./strace.ts";

/** The calls that change files or their names, sync them, or send replies. */
export const RECORDED = "trace=openat,pwrite64,ftruncate,fsync,fdatasync," +
  "?unlink,unlinkat,write,writev,sendto,sendmsg";

const SECTOR_BYTES = 512;
const FILE_BYTES_MAX = 2 ** 25;

type Bytes = Uint8Array<ArrayBuffer>;

/** A change of a name, of a size, or of one sector of a file. */
interface Change {
  readonly at: number;
  durableAt: number;
  /** What a sync makes durable: a file, or the path of the directory. */
  readonly target: Bytes | string;
  /** Makes it; or lets a file grow for it, although it is lost. */
  readonly apply: (files: Map<string, Bytes>, isKept: boolean) => unknown;
}

/** The files in a directory, given by its real path. */
export class Disk {
  /** By name, as programs see them. */
  readonly files = new Map<string, Bytes>();
  /** When something was changed or synced. */
  readonly times: number[] = [];
  readonly #changes: Change[] = [];

  constructor(readonly directory: string) {}

  /** Adds a call; they come in the order in which they returned. */
  add({ name: call, args, paths, data, result, ...time }: Call) {
    const { directory } = this;
    const [path = ""] = paths;
    // The index of a log is memory that processes share, not data.
    const isFile = dirname(path) === directory && !path.endsWith("-shm");
    if (!isFile && path !== directory || /^(-1|\?)/.test(result)) return;
    const name = basename(path);
    const file = this.files.get(name);
    const number = Number(/\d+$/.exec(args));
    const at = time.returnedAt;
    this.times.push(at);
    const change = (target: Change["target"], apply: Change["apply"]) => {
      apply(this.files, true);
      this.#changes.push({ at, durableAt: Infinity, target, apply });
    };
    if (call.endsWith("sync")) {
      const synced = this.#changes.filter((it) =>
        it.target === (file ?? directory) && it.at < time.startedAt
      );
      for (const it of synced) it.durableAt = Math.min(it.durableAt, at);
    } else if (call.startsWith("unlink")) {
      change(directory, (files, isKept) => isKept && files.delete(name));
    } else if (file === undefined) {
      if (!args.includes("O_CREAT")) return;
      const buffer = new ArrayBuffer(0, { maxByteLength: FILE_BYTES_MAX });
      const made = new Uint8Array(buffer);
      change(directory, (files, isKept) => isKept && files.set(name, made));
    } else if (call === "ftruncate") {
      change(file, (_, isKept) => isKept && file.buffer.resize(number));
    } else if (call === "pwrite64") {
      for (let to, from = 0; from < data.length; from = to) {
        const offset = number + from;
        to = from + SECTOR_BYTES - offset % SECTOR_BYTES;
        const sector = data.subarray(from, to);
        const end = offset + sector.length;
        change(file, (_, isKept) => {
          if (file.length < end) file.buffer.resize(end);
          if (isKept) file.set(sector, offset);
        });
      }
    }
  }

  /** Returns the files that the disk may hold; after it, no call can be added. */
  afterPowerCut(at: number, random: Random): Map<string, Bytes> {
    const changes = this.#changes.filter((change) => change.at < at);
    const pending = changes.filter(({ durableAt }) => durableAt >= at);
    const end = random.chance(0.3) ? random.pick([{ at }, ...pending]).at : at;
    const shares = random.pick([[0], [1], [0, 1], [0.1, 0.5, 0.9, 0.98]]);
    const [isTorn, grows] = [random.chance(0.5), random.chance(0.5)];
    const shareOf = new Map<Change["target"], number>();
    const kept = new Map<unknown, boolean>();
    const files = new Map<string, Bytes>();
    for (const { target } of this.#changes) {
      if (typeof target !== "string") target.buffer.resize(0);
    }
    for (const change of changes) {
      const share = shareOf
        .getOrInsertComputed(change.target, () => random.pick(shares));
      const survives = () => change.at <= end && random.chance(share);
      const isKept = change.durableAt < at ||
        kept.getOrInsertComputed(isTorn ? change : change.at, survives);
      if (isKept || grows) change.apply(files, isKept);
    }
    return new Map(files.entries().map(([path, file]) => [path, file.slice()]));
  }
}
