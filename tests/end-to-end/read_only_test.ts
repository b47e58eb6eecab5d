/** A store, and its directory, that the user may only read. */
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

/** A directory with a store, and one that the user of the program owns. */
class OtherUsersPlace extends TemporaryDirectory {
  readonly data = this.file("data");
  readonly store = `${this.data}/plants.db`;
  readonly own = this.file("own");
  readonly options: ProgramOptions = IS_ROOT
    ? { env: { DENO_DIR: "/dev/null" }, shell: AS_NOBODY }
    : {};

  constructor() {
    super();
    Deno.chmodSync(this.path, 0o755);
    Deno.mkdirSync(this.data);
    Deno.mkdirSync(this.own);
    if (IS_ROOT) Deno.chownSync(this.own, NOBODY, NOBODY);
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

  /** Runs a command as the user: it is refused, and changes nothing. */
  async refuses(message: RegExp, ...args: string[]): Promise<void> {
    const before = snapshot(this.path);
    assertOneLine(await this.run(...args), 2, message);
    assert.deepEqual(snapshot(this.path), before);
  }

  override [Symbol.dispose](): void {
    for (const path of [this.data, this.own]) Deno.chmodSync(path, 0o755);
    super[Symbol.dispose]();
  }
}

/** Whether the program can run as a user who is not root. */
async function canRun(): Promise<boolean> {
  using place = new OtherUsersPlace();
  return (await place.run("--version")).status === 0;
}

const { test } = testsWith(() => new OtherUsersPlace(), await canRun());

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
  test(`every command on ${name} that the user may only read says what to do, and changes nothing`, async (place) => {
    await make(place.store);
    place.protect();
    const file = `${place.own}/file`;
    Deno.writeTextFileSync(file, `${toLine(1n, "Ficus")}\n`);
    for (
      const args of [
        ["export"],
        ["backup", `${place.own}/copy.db`],
        ["import", file],
        ["serve", "--port", "0"],
      ]
    ) await place.refuses(DENIED, ...args, "--kv", place.store);
  });
}

test("serve refuses each file of a killed store that it may not write, and starts when the permission is repaired", async (place) => {
  const store = `${place.own}/plants.db`;
  await createAndKill(store, 10);
  const files = place.names("own").map((name) => `${place.own}/${name}`);
  assert.equal(files.length, 3);
  for (const file of files) {
    if (IS_ROOT) Deno.chownSync(file, NOBODY, NOBODY);
  }
  for (const file of files) {
    Deno.chmodSync(file, 0o400);
    const named = new RegExp(`: permission denied as user \\S+: ${file}: `);
    await place.refuses(named, "--port", "0", "--kv", store);
    Deno.chmodSync(file, 0o600);
  }
  assertSucceeded(await place.run("import", "/dev/null", "--kv", store));
});

test("a backup of a closed store that the user may not write is refused, and leaves no log in its directory", async (place) => {
  await createStore(place.store, 10);
  Deno.chmodSync(place.store, 0o444);
  Deno.chmodSync(place.data, 0o777);
  const copy = `${place.own}/copy.db`;
  await place.refuses(DENIED, "backup", copy, "--kv", place.store);
});

test("a backup reads a log that the user may only read, and changes nothing", async (place) => {
  await createAndKill(place.store, 100);
  const lines = range(1n, 100)
    .map((id) => toLine(id, PLANT.name, PLANT.tag));
  place.protect();
  const before = snapshot(place.data);
  const copy = `${place.own}/copy.db`;
  assertSucceeded(await backUp(place.store, copy, place.options));
  assertSameLines(await exportLines(copy), lines);
  assert.deepEqual(snapshot(place.data), before);
});

test("a restore to a directory that the user may not write in is refused, and changes nothing", async (place) => {
  await createStore(place.store, 10);
  Deno.chmodSync(place.store, 0o644);
  Deno.chmodSync(place.own, 0o555);
  const to = `${place.own}/plants.db`;
  await place.refuses(
    /: cannot write \S+plants\.db: permission denied as user \S+$/m,
    ...["restore", place.store, "--kv", to],
  );
});
