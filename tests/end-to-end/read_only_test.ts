/** A store in a directory that the user may only read. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { PLANT } from "../support/load.ts";
import {
  assertOneLine,
  type Ended,
  type ProgramOptions,
  runProgram,
} from "../support/program.ts";
import { snapshot } from "../support/snapshot.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import {
  assertSameLines,
  backUp,
  createAndKill,
  createStore,
  exportLines,
  toLine,
} from "../support/transfer.ts";

const IS_WINDOWS = Deno.build.os === "windows";
const IS_ROOT = !IS_WINDOWS && Deno.uid() === 0;

/** Root may write everywhere: the program runs as this user instead. */
const NOBODY = 65_534;
const AS_NOBODY = `exec setpriv --reuid ${NOBODY} --regid ${NOBODY} ` +
  '--clear-groups "$0" "$@"';

const DENIED =
  /permission denied on the file or its directory: change the permissions, or run as another user$/m;

/** A store that a user may only read, and directories that the user owns. */
class Place implements Disposable {
  readonly #directory = new TemporaryDirectory();
  readonly store = this.#directory.file("data/plants.db");
  readonly options: ProgramOptions;

  constructor() {
    Deno.chmodSync(this.#directory.path, 0o755);
    const own = ["copies", "cache"].map((name) => this.#directory.file(name));
    for (const path of own) Deno.mkdirSync(path);
    Deno.mkdirSync(this.#directory.file("data"));
    for (const path of IS_ROOT ? own : []) {
      Deno.chownSync(path, NOBODY, NOBODY);
    }
    this.options = {
      ...(IS_ROOT && {
        env: { DENO_DIR: this.#directory.file("cache") },
        shell: AS_NOBODY,
      }),
    };
  }

  /** Allows the user to read the store, and no more. */
  protect(): void {
    for (const name of this.names("data")) {
      Deno.chmodSync(this.#directory.file(`data/${name}`), 0o444);
    }
    Deno.chmodSync(this.#directory.file("data"), 0o555);
  }

  /** Runs the program as the user who may only read the store. */
  run(...args: string[]): Promise<Ended> {
    return runProgram(args, this.options);
  }

  /** Returns a path in the directory for copies. */
  copy(name: string): string {
    return this.#directory.file(`copies/${name}`);
  }

  names(directory: "data" | "copies"): string[] {
    return [...Deno.readDirSync(this.#directory.file(directory))]
      .map(({ name }) => name).toSorted();
  }

  [Symbol.dispose](): void {
    Deno.chmodSync(this.#directory.file("data"), 0o755);
    this.#directory[Symbol.dispose]();
  }
}

/** Whether the program can run as a user who is not root. */
const CAN_RUN = !IS_WINDOWS && await canRun();

async function canRun(): Promise<boolean> {
  using place = new Place();
  return (await place.run("--version")).status === 0;
}

Deno.test({
  name:
    "export and backup of a closed store in a directory that the user may only read say what to do",
  ignore: !CAN_RUN,
  fn: async () => {
    using place = new Place();
    await createStore(place.store, 10);
    place.protect();
    const exported = await place.run("export", "--kv", place.store);
    assertOneLine(exported, 2, DENIED);
    const copy = place.copy("copy.db");
    assertOneLine(await backUp(place.store, copy, place.options), 2, DENIED);
    assert.deepEqual(place.names("copies"), []);
    assert.deepEqual(place.names("data"), ["plants.db"]);
  },
});

Deno.test({
  name: "export and backup read a log that the user may only read",
  ignore: !CAN_RUN,
  fn: async () => {
    using place = new Place();
    await createAndKill(place.store, 100);
    const lines = Array.from(
      { length: 100 },
      (_, i) => toLine(BigInt(i + 1), PLANT.name, PLANT.tag),
    );
    place.protect();
    const before = place.names("data");
    assert.deepEqual(before, ["plants.db", "plants.db-shm", "plants.db-wal"]);
    assertSameLines(await exportLines(place.store, place.options), lines);
    const copy = place.copy("copy.db");
    const { status, stderr } = await backUp(
      place.store,
      copy,
      place.options,
    );
    assert.equal(status, 0, stderr);
    assertSameLines(await exportLines(copy), lines);
    assert.deepEqual(place.names("data"), before);
  },
});

Deno.test({
  name:
    "export and backup say what to do if the user may not create the index of a log",
  ignore: !CAN_RUN,
  fn: async () => {
    using place = new Place();
    await createAndKill(place.store, 100);
    Deno.removeSync(`${place.store}-shm`);
    place.protect();
    const before = place.names("data");
    assert.deepEqual(before, ["plants.db", "plants.db-wal"]);
    const exported = await place.run("export", "--kv", place.store);
    assertOneLine(exported, 2, DENIED);
    const copy = place.copy("copy.db");
    const backup = await backUp(place.store, copy, place.options);
    assertOneLine(backup, 2, DENIED);
    assert.deepEqual(place.names("data"), before);
    assert.deepEqual(place.names("copies"), []);
  },
});

Deno.test({
  name: "a start with a store that the user may only read says what to do",
  ignore: !CAN_RUN,
  fn: async () => {
    using place = new Place();
    await createStore(place.store, 10);
    place.protect();
    const before = Deno.readFileSync(place.store);
    const ended = await place.run("--port", "0", "--kv", place.store);
    assertOneLine(ended, 2, DENIED);
    assert.deepEqual(place.names("data"), ["plants.db"]);
    assert.ok(Buffer.from(Deno.readFileSync(place.store)).equals(before));
  },
});

/** What the user may not do to restore a backup, and the message about it. */
const DENIED_RESTORES: readonly [
  name: string,
  deny: (place: Place, store: string, backup: string) => void,
  message: RegExp,
  status: number,
][] = [
  [
    "read the backup",
    (_place, _store, backup) => Deno.chmodSync(backup, 0),
    /: cannot restore \S+backup\.db: permission denied .*: change the permissions/,
    2,
  ],
  [
    "read the store",
    // Of another user.
    (_place, store) => Deno.chmodSync(store, 0o600),
    /: cannot replace \S+plants\.db: permission denied .*: change the permissions/,
    2,
  ],
  [
    "write in the directory",
    (place) => Deno.chmodSync(place.copy(""), 0o555),
    /: cannot write \S+plants\.db: permission denied$/m,
    1,
  ],
];

for (const [name, deny, message, status] of DENIED_RESTORES) {
  Deno.test({
    name:
      `restore by a user who may not ${name} changes nothing, and says what to do`,
    // The store belongs to root.
    ignore: !CAN_RUN || !IS_ROOT,
    fn: async () => {
      using place = new Place();
      await createStore(place.store, 10);
      const [store, backup] = [
        place.copy("plants.db"),
        place.copy("backup.db"),
      ];
      const { status: made, stderr } = await backUp(place.store, backup);
      assert.equal(made, 0, stderr);
      Deno.copyFileSync(place.store, store);
      for (const copy of [store, backup]) Deno.chmodSync(copy, 0o644);
      deny(place, store, backup);
      const before = snapshot(place.copy(""));
      const ended = await place.run("restore", backup, "--kv", store);
      assertOneLine(ended, status, message);
      assert.deepEqual(snapshot(place.copy("")), before);
      Deno.chmodSync(place.copy(""), 0o755);
    },
  });
}
