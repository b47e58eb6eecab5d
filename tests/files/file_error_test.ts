import assert from "node:assert/strict";
import { userInfo } from "node:os";
import { FileError, toFileError } from "../../src/files/file_error.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { storeError } from "../support/stores.ts";
import type { TemporaryDirectory } from "../support/temporary.ts";
import { test, testsWith } from "../support/tests.ts";

const onSmallDisk = testsWith(() => new SmallDisk(1), canMount());

const DENIED = `permission denied as user ${userInfo().username}`;

/** Returns what an operation throws. */
function thrownBy(operation: () => unknown): unknown {
  try {
    operation();
  } catch (error) {
    return error;
  }
  assert.fail("it succeeds");
}

/** Operations that fail, the problem, its message, and whether it can pass. */
const FAILURES: readonly (readonly [
  what: string,
  operation: (directory: TemporaryDirectory) => unknown,
  problem: FileError["problem"],
  message: string | RegExp,
  isPassing: boolean,
])[] = [
  [
    "a missing file",
    (it) => Deno.statSync(it.file("a")),
    ...["missing", "no such file", false] as const,
  ],
  [
    "a path below a file",
    (it) => {
      Deno.createSync(it.file("a")).close();
      Deno.statSync(it.file("a/b"));
    },
    ...["missing", "no such file", false] as const,
  ],
  [
    "a directory that is read",
    (it) => Deno.readFileSync(it.path),
    ...["directory", "it is a directory", false] as const,
  ],
  [
    "links in a loop",
    (it) => {
      Deno.symlinkSync("loop", it.file("loop"));
      Deno.statSync(it.file("loop"));
    },
    ...["bad path", /^Too many levels of symbolic links/, false] as const,
  ],
  [
    "a long name",
    (it) => Deno.statSync(it.file("x".repeat(256))),
    ...["bad path", /^File name too long/, false] as const,
  ],
  [
    "any other error",
    (it) => Deno.mkdirSync(it.path),
    ...["other", /^File exists/, true] as const,
  ],
];

for (const [what, operation, problem, message, isPassing] of FAILURES) {
  test(`toFileError() finds the problem of ${what}`, ({ directory }) => {
    const error = toFileError(thrownBy(() => operation(directory)));
    storeError(problem, message)(error);
    assert.equal(error.isPassing, isPassing);
  });
}

onSmallDisk.test("toFileError() finds a full disk, which can pass, and a read-only file system", (disk) => {
  disk.fill("large");
  const write = () => Deno.writeTextFileSync(disk.file("a"), "a");
  const full = toFileError(thrownBy(write));
  storeError("full", "the disk is full")(full);
  assert.equal(full.isPassing, true);
  disk.remount("ro");
  const readOnly = toFileError(thrownBy(write));
  storeError("read-only", "the file system is read-only")(readOnly);
  assert.equal(readOnly.isPassing, false);
});

Deno.test("toFileError() finds problems that not every machine can have", () => {
  const { NotCapable, PermissionDenied } = Deno.errors;
  const special =
    "Deno cannot open special files, or paths in /dev, /proc and /sys";
  for (
    const [thrown, problem, message] of [
      [new PermissionDenied("x"), "denied", DENIED],
      [new NotCapable("Requires all access to x"), "special path", special],
      [new NotCapable("Requires read access"), "other", "Requires read access"],
      [new Error("Disk quota exceeded (os error 122)"), "full", /full$/],
      [new Error("Cannot allocate memory (os error 12)"), "other", /^Cannot a/],
      [new Error("Too many open files (os error 24)"), "other", /^Too many o/],
      // The path in a message is not its problem.
      [
        new Error("Input/output error (os error 5): stat '/disk is full'"),
        "other",
        /^Input/,
      ],
      ["thrown text", "other", "thrown text"],
      [undefined, "other", "undefined"],
    ] as const
  ) storeError(problem, message)(toFileError(thrown));
});

Deno.test("toFileError() returns a FileError unchanged", () => {
  const error = new FileError("exists");
  assert.equal(error.message, "it already exists");
  assert.equal(toFileError(error), error);
});
