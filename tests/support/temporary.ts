/** Places for files that exist as long as a test. */
import { hash } from "node:crypto";

/** A temporary directory, removed when disposed of. */
export class TemporaryDirectory implements Disposable {
  /** Without links: Deno KV follows none since Deno 2.9.7. */
  readonly path = Deno.realPathSync(
    Deno.makeTempDirSync({ prefix: "plant-store-" }),
  );

  /** Returns a path in the directory. */
  file(name: string): string {
    return `${this.path}/${name}`;
  }

  /** Returns the names of the files and directories in it, in order. */
  names(): string[] {
    return [...Deno.readDirSync(this.path)]
      .map(({ name }) => name).toSorted();
  }

  /** Returns what changes with each file in it: its name and its content. */
  contents(): string[] {
    return this.names().map((name) => {
      const path = this.file(name);
      if (!Deno.lstatSync(path).isFile) return name;
      return `${name} ${hash("sha256", Deno.readFileSync(path))}`;
    });
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** A small file system in memory, unmounted when disposed of. */
export class SmallDisk extends TemporaryDirectory {
  /** @throws if this machine does not permit mounting */
  constructor(megabytes: number) {
    super();
    const args = ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs"];
    const mount = new Deno.Command("mount", {
      args: [...args, this.path],
      stderr: "null",
    });
    try {
      if (!mount.outputSync().success) throw new Error("cannot mount");
    } catch (error) {
      super[Symbol.dispose]();
      throw error;
    }
  }

  /** Fills the disk with a file, to the last byte; returns its path. */
  fill(name: string): string {
    const path = this.file(name);
    using file = Deno.openSync(path, { write: true, create: true });
    for (const bytes of [64 * 1024, 1]) {
      try {
        for (;;) file.writeSync(new Uint8Array(bytes));
      } catch {
        // There is no room for a piece of this size.
      }
    }
    return path;
  }

  override [Symbol.dispose](): void {
    new Deno.Command("umount", { args: ["-l", this.path] }).outputSync();
    super[Symbol.dispose]();
  }
}

/** Whether this machine can mount a {@link SmallDisk}. */
export function canMount(): boolean {
  try {
    new SmallDisk(1)[Symbol.dispose]();
    return true;
  } catch {
    return false;
  }
}
