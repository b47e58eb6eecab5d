import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { main } from "../../src/cli.ts";
import { LINE_BYTES_MAX } from "../../src/console/lines.ts";
import { replacePlant } from "../../src/commands/change.ts";
import { openStore } from "../../src/store/open.ts";
import { noAnswer } from "../../src/store/store_error.ts";
import { makeUndecodable } from "../support/accidents.ts";
import { capture } from "../support/console.ts";
import { entriesIn, makeStore, newPlants } from "../support/plants.ts";
import { replaced } from "../support/replaced.ts";
import { closing, fileAt, isStoreError, LOCKED } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const FERN = { name: 'a "Fern"', tag: "climber" };
const TEXT = String.raw`{"id":2,"name":"a \"Fern\"","tag":"climber"}`;

/** Makes a store with the plants 1 and 2, and a value of another program as 3. */
async function makeThree(path: string): Promise<void> {
  await makeStore(path, newPlants([1n, 2n]));
  using kv = await Deno.openKv(path);
  await kv.set(["plants", 3n], "not a plant");
}

/** Returns the values of a store by their ids. */
async function valuesIn(path: string): Promise<Map<unknown, unknown>> {
  return new Map((await entriesIn(path)).map(([[, id], value]) => [id, value]));
}

/** Runs the command in this process with a text on stdin. */
async function replaceStdin(path: string, text: string | Uint8Array) {
  const stdin = Object.create(Deno.stdin, {
    readable: { value: ReadableStream.from([Buffer.from(text)]) },
    isTerminal: { value: () => false },
  });
  using _ = replaced(Deno, "stdin", stdin);
  return await capture(() => main(["replace", "-", "--kv", path]));
}

Deno.test("replacePlant() stores a plant in place of the one with its id in an open store, and succeeds again", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeThree(path);
  const before = await valuesIn(path);
  const { store } = await openStore(fileAt(path), true);
  using _open = closing(store);
  for (
    const stderr of [
      "1 plant replaced",
      "id 2: the stored plant is the same already\n0 plants replaced",
    ]
  ) {
    const printed = await capture(() => replacePlant(fileAt(path), TEXT));
    assert.deepEqual(printed, { result: 0, stdout: "", stderr });
    assert.deepEqual(await valuesIn(path), new Map([...before, [2n, FERN]]));
  }
});

Deno.test("replacePlant() fails if the id has no plant, and creates none", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeThree(path);
  const before = await entriesIn(path);
  const printed = await capture(() =>
    replacePlant(fileAt(path), '{"id":42,"name":"Monstera"}')
  );
  const stderr = "id 42: no such plant\n0 plants replaced";
  assert.deepEqual(printed, { result: 1, stdout: "", stderr });
  assert.deepEqual(await entriesIn(path), before);
});

Deno.test("replacePlant() replaces a value that is not a plant, and one that cannot be decoded", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeThree(path);
  await makeUndecodable(path, [2n]);
  for (const text of [TEXT, TEXT.replace("2", "3")]) {
    const printed = await capture(() => replacePlant(fileAt(path), text));
    const stderr = "1 plant replaced";
    assert.deepEqual(printed, { result: 0, stdout: "", stderr });
  }
  const [one] = newPlants([1n]);
  assert.deepEqual(
    await valuesIn(path),
    new Map([[1n, one?.plant], [2n, FERN], [3n, FERN]]),
  );
});

Deno.test("replace - reads one plant from stdin, by the rules of an import", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  for (
    const text of [
      TEXT,
      `${TEXT}\n`,
      `\ufeff${TEXT}\r\n`,
      `\n \t\r\n${TEXT}\n\n`,
      TEXT.padEnd(LINE_BYTES_MAX),
    ]
  ) {
    await makeStore(path, newPlants([2n]));
    const printed = await replaceStdin(path, text);
    const stderr = "1 plant replaced";
    assert.deepEqual(printed, { result: 0, stdout: "", stderr });
    assert.deepEqual(await valuesIn(path), new Map([[2n, FERN]]));
    Deno.removeSync(path);
  }
});

Deno.test("replace refuses text that is not one NewPlant with status 2, before it opens the store", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const second = "expected one plant, got a second line";
  const nothing = "expected a plant, got nothing";
  const notUtf8 = new Uint8Array([0x7b, 0xff]);
  const tooLong =
    `expected at most ${LINE_BYTES_MAX} bytes; no line after it is read`;
  for (
    const [text, message] of [
      ["", nothing],
      [" \t", nothing],
      ["7", "expected an object with id and name, got a number"],
      ['{"id":2}', "name: expected a string, got nothing"],
      [
        '{"id":2,}',
        'column 9: expected a quoted member name after ",", found "}"',
      ],
      [TEXT.padEnd(LINE_BYTES_MAX + 1), tooLong],
    ] as const
  ) {
    const args = ["replace", text, "--kv", path];
    const stderr = `plant-store: ${message}`;
    const refused = { result: 2, stdout: "", stderr };
    assert.deepEqual(await capture(() => main(args)), refused);
    assert.deepEqual(await replaceStdin(path, text), refused);
  }
  for (
    const [text, message] of [
      ["\n\r\n", nothing],
      [`${TEXT}\n${TEXT}`, second],
      [`${TEXT}\n\n7\n`, second],
      [notUtf8, "expected well-formed UTF-8"],
      [" ".repeat(3 * LINE_BYTES_MAX), tooLong],
    ] as const
  ) {
    const stderr = `plant-store: ${message}`;
    const refused = { result: 2, stdout: "", stderr };
    assert.deepEqual(await replaceStdin(path, text), refused);
  }
  assert.deepEqual(directory.names(), []);
});

for (
  const [what, kind, error, lines] of [
    [
      "gets no answer",
      "no answer",
      noAnswer(5_000),
      ["id 2: the plant may have been replaced", "0 plants replaced"],
    ],
    [
      "meets the lock of another process",
      "locked",
      LOCKED,
      ["0 plants replaced"],
    ],
  ] as const
) {
  Deno.test(`replacePlant() fails if it ${what}`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    await makeThree(path);
    const { stderr } = await capture(() =>
      assert.rejects(
        replacePlant(fileAt(path), TEXT, {
          change: () => Promise.reject(error),
        }),
        isStoreError(kind),
      )
    );
    assert.equal(stderr, lines.join("\n"));
  });
}

Deno.test("replacePlant() creates no store", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const missing = isStoreError("no store", "no such file");
  await assert.rejects(replacePlant(fileAt(path), TEXT), missing);
  assert.deepEqual(directory.names(), []);
});
