import { DatabaseSync } from "node:sqlite";

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

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** The write lock of a store, held until it is disposed of. */
export class StoreLock implements Disposable {
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.#database = new DatabaseSync(file);
    // The program may be finishing a write of its own.
    this.#database.exec("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE");
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close();
  }
}
