import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { exportPlants } from "../../src/commands/export.ts";
import { type ImportOptions, importPlants } from "../../src/commands/import.ts";
import { LINE_BYTES_MAX } from "../../src/console/lines.ts";
import { BODY_BYTES_MAX, ID_MIN, WRITE_MS_MAX } from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import { capture } from "../support/console.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { FakeStore } from "../support/fake_store.ts";
import { acceptNewPlant } from "../support/parsing.ts";
import {
  entriesIn,
  makeStore,
  newPlants,
  range,
  toJson,
} from "../support/plants.ts";
import { settings } from "../support/settings.ts";
import { fileAt, isStoreError } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { settled } from "../support/waiting.ts";

/**
 * Imports a file with these bytes, in this process.
 * @returns what it prints, and its exit status, or its error
 */
function importBytes(
  store: string,
  bytes: string,
  options?: ImportOptions,
) {
  const file = `${store}.in`;
  Deno.writeFileSync(file, Buffer.from(bytes, "latin1"));
  return capture(() =>
    importPlants(settings({ kv: store }), file, options).catch((error) => error)
  );
}

/**
 * A new store in memory, in which something happens before each commit, of which
 * one is running at a time.
 */
class ImportedStore extends FakeStore {
  readonly #interrupt: () => Promise<void>;
  readonly open = () => Promise.resolve({ store: this, isNew: true });

  constructor(interrupt = () => Promise.resolve()) {
    super({ plantsMax: 100, inFlightMax: 1 });
    this.#interrupt = interrupt;
  }

  override async commit(plants: readonly NewPlant[]) {
    await this.#interrupt();
    return await super.commit(plants);
  }
}

/** Returns the plants of a store as lines. */
async function linesIn(path: string): Promise<string[]> {
  return (await entriesIn(path)).map(([[, id], value]) =>
    `{"id":${String(id)},${JSON.stringify(value).slice(1)}`
  );
}

/** Returns the last line of an import. */
function summary({ created = 0, stored = 0, conflicting = 0, refused = 0 }) {
  return `${created} created, ${stored} already stored, ` +
    `${conflicting} conflicting, ${refused} refused`;
}

const LINES = newPlants(range(1n, 3)).map(toJson);
const [ONE = "", TWO = "", THREE = ""] = LINES;

/** Returns the line of the plant 2 with a number of bytes. */
function padded(bytes: number): string {
  return TWO.padStart(bytes);
}

/** Bytes that are read from a file at once. */
const CHUNK_BYTES = 65_536;

for (
  const [what, text] of [
    ["end with LF", `${LINES.join("\n")}\n`],
    ["do not all end with LF", LINES.join("\n")],
    ["end with CRLF", LINES.join("\r\n")],
    ["follow a byte order mark", `\xef\xbb\xbf${LINES.join("\n")}`],
    ["have blank ones between them", `\n${LINES.join("\n \t\r\n\n")}\n\r`],
    ["have the maximum length", LINES.join(`\n${padded(LINE_BYTES_MAX)}\n`)],
    [
      "end with the last byte of a chunk",
      `${padded(CHUNK_BYTES / 2 - 1)}\n`.repeat(2) + LINES.join("\n"),
    ],
    [
      "end with the first byte of a chunk",
      `${padded(CHUNK_BYTES / 2)}\n`.repeat(2) + LINES.join("\n"),
    ],
  ] as const
) {
  Deno.test(`importPlants() stores the plants of lines that ${what}`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const { result, stderr } = await importBytes(path, text);
    assert.match(stderr, /, 0 conflicting, 0 refused$/);
    assert.equal(result, 0);
    assert.deepEqual(await linesIn(path), LINES);
  });
}

Deno.test("importPlants() reports that it creates a store, and can be repeated", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const lines = newPlants(range(1n, 5_000)).map(toJson);
  const created = `created a new store in ${path}\n`;
  for (
    const stderr of [
      created + summary({ created: 5_000 }),
      summary({ stored: 5_000 }),
    ]
  ) {
    const printed = await importBytes(path, lines.join("\n"));
    assert.deepEqual(printed, { result: 0, stdout: "", stderr });
    assert.deepEqual(await linesIn(path), lines);
  }
});

Deno.test("importPlants() names each line that must change, in their order, and stores the others", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  {
    using kv = await Deno.openKv(path);
    await kv.set(["plants", 3n], "text");
  }
  const { result, stderr } = await importBytes(
    path,
    [
      ONE,
      ' \t{"id":2,}',
      '{\r"id":2,\r}',
      '{"id":2}',
      '{"id":1,"name":"another"}',
      '{"id":2,"name":"\xff"}',
      THREE,
      TWO,
      "7",
    ].join("\n"),
  );
  assert.deepEqual(stderr.split("\n"), [
    'line 2: column 11: expected a quoted member name after ",", found "}"',
    'line 3: column 11: expected a quoted member name after ",", found "}"',
    "line 4: name: expected a string, got nothing",
    "line 5: the plant with id 1 differs from the stored one",
    "line 6: expected well-formed UTF-8",
    "line 7: the plant with id 3 differs from the stored one",
    "line 9: expected an object with id and name, got a number",
    summary({ created: 2, conflicting: 2, refused: 5 }),
  ]);
  assert.equal(result, 2);
  assert.deepEqual((await linesIn(path)).slice(0, 2), [ONE, TWO]);
  // One of either kind is enough.
  for (const line of ['{"id":1,"name":"another"}', "7"]) {
    assert.equal((await importBytes(path, line)).result, 2, line);
  }
});

/** Returns a line of a number of bytes: its name has characters of two bytes. */
function longestLine(id: string, bytes: number): string {
  const [start, end] = [`{"id":${id},"name":"`, '"}'];
  const room = bytes - start.length - end.length;
  return `${start}${"ж".repeat(room / 2)}${"a".repeat(room % 2)}${end}`;
}

/** Returns a text in UTF-8 as a string of its bytes. */
function toLatin1(text: string): string {
  return Buffer.from(text).toString("latin1");
}

Deno.test("importPlants() refuses a plant that fits no body of a create, and stores the lines after it", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const refused = [
    longestLine("7", BODY_BYTES_MAX + 1),
    longestLine("-100", BODY_BYTES_MAX + 4),
    longestLine("1000000000000000000", BODY_BYTES_MAX + 19),
    // V8 stores each character of this name with two bytes.
    `{"id":8,"name":"€${"a".repeat(BODY_BYTES_MAX - 4)}"}`,
  ];
  const longestId = longestLine(String(ID_MIN), BODY_BYTES_MAX + 19);
  const accepted = [
    longestLine("1", BODY_BYTES_MAX - 1),
    longestLine("2", BODY_BYTES_MAX),
    // The plant fits, because white space and escapes are no part of it.
    longestLine("3", BODY_BYTES_MAX).replace(",", ", "),
    String.raw`{"id":4,"name":"\u0061"}`.padEnd(LINE_BYTES_MAX),
    `\ufeff${longestId}\r`,
  ];
  assert.ok(toLatin1(accepted.at(-1) ?? "").length <= LINE_BYTES_MAX);
  const lines = [...refused, ...accepted].map(toLatin1);
  const { result, stderr } = await importBytes(path, lines.join("\n"));
  const problem =
    `expected a plant that fits a body of ${BODY_BYTES_MAX} bytes`;
  assert.deepEqual(stderr.split("\n"), [
    `created a new store in ${path}`,
    ...refused.map((_, i) => `line ${i + 1}: ${problem}`),
    summary({ created: accepted.length, refused: refused.length }),
  ]);
  assert.equal(result, 2);
});

Deno.test("importPlants() accepts the export of every largest plant", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const bodies = ["0", "-7", "1e18", "-1e18", "-9e18", String(ID_MIN)].map(
    (id) => acceptNewPlant(longestLine(id, BODY_BYTES_MAX)),
  );
  await makeStore(path, bodies);
  const exported = await capture(() => exportPlants(fileAt(path), []));
  assert.equal(exported.result, 0);
  const copy = directory.file("copy.db");
  const { result } = await importBytes(copy, toLatin1(exported.stdout));
  assert.equal(result, 0);
  assert.deepEqual(await entriesIn(copy), await entriesIn(path));
});

for (
  const [what, line] of [
    ["one byte above", `${padded(LINE_BYTES_MAX + 1)}\n${THREE}\n`],
    ["without an end and above", " ".repeat(3 * CHUNK_BYTES)],
  ] as const
) {
  Deno.test(`importPlants() ends at a line ${what} LINE_BYTES_MAX`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const { result, stderr } = await importBytes(path, `${ONE}\n${line}`);
    const expected = `expected at most ${LINE_BYTES_MAX} bytes`;
    const message = `line 2: ${expected}; no line after it is read`;
    const counts = summary({ created: 1, refused: 1 });
    assert.ok(stderr.endsWith(`\n${message}\n${counts}`), stderr);
    assert.equal(result, 2);
    assert.deepEqual(await linesIn(path), [ONE]);
  });
}

Deno.test("importPlants() stops if the store fails, with advice, even if other lines must change", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const store = new ImportedStore();
  store.problem = "attempt to write a readonly database";
  const options = { open: store.open };
  const { result, stderr } = await importBytes(path, `{}\n${ONE}`, options);
  assert.deepEqual(stderr.split("\n"), [
    `created a new store in ${path}`,
    "line 1: id: expected an integer from -9223372036854775808 to 9223372036854775807, got nothing",
    summary({ refused: 1 }),
    "stopped at line 2, the store failed on 1 plant (denied): it or its directory cannot be " +
    "written: let the user of this program write there; a systemd unit needs it in ReadWritePaths: repeat " +
    "the same import when the store works",
  ]);
  assert.equal(result, 1);
  const tooLong = `${ONE}\n${padded(LINE_BYTES_MAX + 1)}`;
  const other = await importBytes(path, tooLong, options);
  assert.match(
    other.stderr,
    /the store failed on 1 plant \(denied\): it or its directory/,
  );
  assert.equal(other.result, 1);
  assert.equal(store.plants.size, 0);
});

Deno.test("importPlants() creates no store if it cannot open its input", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const file = directory.file("in");
  async function assertFails(message: RegExp, path = file): Promise<void> {
    const failure = { name: "OperatorError", message, exitStatus: 2 };
    await assert.rejects(importPlants(settings({ kv: store }), path), failure);
  }
  await assertFails(/^cannot read \S+in: No such file or directory/);
  assert.deepEqual(directory.names(), []);
  Deno.mkdirSync(file);
  await assertFails(/^cannot read \S+in: it is a directory/);
  await assertFails(/^expected a file, got an empty name$/, "");
  assert.deepEqual(directory.names(), ["in"]);
});

Deno.test("importPlants() fails if it cannot open the store", async () => {
  using directory = new TemporaryDirectory();
  await assert.rejects(
    importPlants(settings({ kv: directory.path }), "/dev/null"),
    isStoreError("not a store"),
  );
});

Deno.test("importPlants() waits for a slow store as long as it makes progress", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  let now = 0;
  let swept = Promise.withResolvers<void>();
  const clock = () => {
    swept.resolve();
    return now;
  };
  const store = new ImportedStore(async () => {
    await settled();
    now += WRITE_MS_MAX - 1;
    // The commit ends after a sweep has seen this time: a sweep reads the clock.
    swept = Promise.withResolvers();
    await swept.promise;
  });
  const lines = newPlants(range(1n, 250)).map(toJson);
  const { result, stderr } = await importBytes(
    path,
    lines.join("\n"),
    { clock, open: store.open },
  );
  assert.ok(stderr.endsWith(summary({ created: 250 })), stderr);
  assert.equal(result, 0);
  assert.ok(now > 2 * WRITE_MS_MAX);
});

Deno.test("importPlants() fails if the store makes no progress for WRITE_MS_MAX", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const clock = new FakeClock();
  const store = new ImportedStore(() => {
    clock.now += WRITE_MS_MAX;
    return new Promise(() => {});
  });
  const options = { clock: clock.read, open: store.open };
  const { result, stderr } = await importBytes(path, ONE, options);
  assert.match(
    stderr,
    /\nstopped at line 1, .* no answer within 5 s: another /,
  );
  assert.equal(result, 1);
});
