/** A store in a directory that the user may only read. */
import assert from "node:assert/strict";
import { PLANT, range } from "../support/load.ts";
import {
  assertOneLine,
  assertSucceeded,
  type Ended,
  type ProgramOptions,
  runProgram,
} from "../support/program.ts";
import { snapshot } from "../support/snapshot.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { testsWith } from "../support/tests.ts";
import {
  assertSameLines,
  backUp,
  createAndKill,
  createStore,
  exportLines,
  toLine,
} from "../support/transfer.ts";

const IS_ROOT = Deno.uid() === 0;

/** Root may write everywhere: the program runs as this user instead. */
const NOBODY = 65_534;
const AS_NOBODY = `exec setpriv --reuid ${NOBODY} --regid ${NOBODY} ` +
  '--clear-groups "$0" "$@"';

const DENIED =
  /: permission denied as user \S+(: \S+| in its directory): change the permissions, or run as another user$/m;

/** A directory with a store, and others that the user of the program owns. */
class OtherUsersPlace extends TemporaryDirectory {
  readonly data = this.file("data");
  readonly store = `${this.data}/plants.db`;
  readonly copies = this.file("copies");
  readonly options: ProgramOptions = IS_ROOT
    ? { env: { DENO_DIR: this.file("cache") }, shell: AS_NOBODY }
    : {};

  constructor() {
    super();
    Deno.chmodSync(this.path, 0o755);
    Deno.mkdirSync(this.data);
    for (const path of [this.copies, this.file("cache")]) {
      Deno.mkdirSync(path);
      if (IS_ROOT) Deno.chownSync(path, NOBODY, NOBODY);
    }
  }

  /** Allows the user to read the store, and no more. */
  protect(): void {
    for (const name of this.names("data")) {
      Deno.chmodSync(`${this.data}/${name}`, 0o444);
    }
    Deno.chmodSync(this.data, 0o555);
  }

  /** Runs the program as the user. */
  run(...args: string[]): Promise<Ended> {
    return runProgram(args, this.options);
  }

  override [Symbol.dispose](): void {
    for (const path of [this.data, this.copies]) Deno.chmodSync(path, 0o755);
    super[Symbol.dispose]();
  }
}

/** Whether the program can run as a user who is not root. */
async function canRun(): Promise<boolean> {
  using place = new OtherUsersPlace();
  return (await place.run("--version")).status === 0;
}

const CAN_RUN = await canRun();

const asOtherUser = testsWith(() => new OtherUsersPlace(), CAN_RUN);
const besideRoot = testsWith(() => new OtherUsersPlace(), CAN_RUN && IS_ROOT);

/** Stores that cannot be opened without writing. */
const CLOSED: readonly [
  name: string,
  make: (store: string) => Promise<unknown>,
][] = [
  ["a closed store", (store) => createStore(store, 10)],
  [
    "a killed store without the index of its log",
    async (store) => {
      await createAndKill(store, 100);
      Deno.removeSync(`${store}-shm`);
    },
  ],
];

for (const [name, make] of CLOSED) {
  asOtherUser.test(`every command on ${name} that the user may only read says what to do, and changes nothing`, async (place) => {
    await make(place.store);
    place.protect();
    const file = `${place.copies}/file`;
    Deno.writeTextFileSync(file, `${toLine(1n, "Ficus")}\n`);
    const before = snapshot(place.data);
    for (
      const args of [
        ["export"],
        ["backup", `${place.copies}/copy.db`],
        ["import", file],
        ["serve", "--port", "0"],
      ]
    ) {
      const ended = await place.run(...args, "--kv", place.store);
      assertOneLine(ended, 2, DENIED);
      assert.deepEqual(snapshot(place.data), before);
    }
    assert.deepEqual(place.names("copies"), ["file"]);
  });
}

asOtherUser.test("a store that the user may only read, in a directory to write in, refuses creates", async (place) => {
  const store = `${place.copies}/plants.db`;
  const lines = await createStore(store, 10);
  Deno.chmodSync(store, 0o444);
  const ended = await place.run("serve", "--port", "0", "--kv", store);
  assertOneLine(ended, 2, DENIED);
  // SQLite has created an empty log with the permissions of the store.
  for (const name of place.names("copies")) {
    Deno.chmodSync(`${place.copies}/${name}`, 0o666);
  }
  assertSucceeded(await place.run("import", "/dev/null", "--kv", store));
  assertSameLines(await exportLines(store), lines);
});

asOtherUser.test("a backup reads a log that the user may only read, and changes nothing", async (place) => {
  await createAndKill(place.store, 100);
  const lines = range(1n, 100)
    .map((id) => toLine(id, PLANT.name, PLANT.tag));
  place.protect();
  const before = snapshot(place.data);
  const copy = `${place.copies}/copy.db`;
  assertSucceeded(await backUp(place.store, copy, place.options));
  assertSameLines(await exportLines(copy), lines);
  assert.deepEqual(snapshot(place.data), before);
});

/** What the user may not do, and what a backup or a restore says about it. */
const DENIED_COPIES: readonly [
  name: string,
  command: "backup" | "restore",
  path: string,
  mode: number,
  message: RegExp,
][] = [
  [
    "read the backup",
    "restore",
    "copies/backup.db",
    0,
    /: cannot restore \S+backup\.db: permission denied as user nobody: change the permissions, or run as another user$/m,
  ],
  [
    "write in the directory of the store",
    "restore",
    "copies",
    0o555,
    /: cannot write \S+plants\.db: permission denied as user nobody$/m,
  ],
  [
    "look into the directory of the backup",
    "backup",
    "data",
    0o700,
    /: cannot write \S+copy\.db: permission denied as user nobody$/m,
  ],
];

for (const [name, command, path, mode, message] of DENIED_COPIES) {
  besideRoot.test(`a ${command} by a user who may not ${name} changes nothing, and says what to do`, async (place) => {
    const backup = `${place.copies}/backup.db`;
    await createStore(place.store, 10);
    assertSucceeded(await backUp(place.store, backup));
    Deno.chmodSync(backup, 0o644);
    Deno.chmodSync(place.file(path), mode);
    const files = () => [place.data, place.copies].map(snapshot);
    const before = files();
    const args = command === "restore"
      ? ["restore", backup, "--kv", `${place.copies}/plants.db`]
      : ["backup", `${place.data}/copy.db`, "--kv", backup];
    assertOneLine(await place.run(...args), 2, message);
    assert.deepEqual(files(), before);
  });
}
