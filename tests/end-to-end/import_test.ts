import assert from "node:assert/strict";
import { BODY_BYTES_MAX, ID_MAX, ID_MIN } from "../../src/limits.ts";
import { DENOKV, KV_ENV, KvServer } from "../support/kv_server.ts";
import { eventually, inParallel, isStored, send } from "../support/load.ts";
import {
  assertOneLine,
  type Ended,
  Program,
  runProgram,
} from "../support/program.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import {
  assertSameLines,
  drawLines,
  exportLines,
  importFile,
  shuffle,
  toLine,
  writeLines,
} from "../support/transfer.ts";

/** Number of plants in a round trip. */
const PLANTS = numberFromEnv("PLANTS", 8_000);

const BYTE_ORDER_MARK = "\ufeff";

const encoder = new TextEncoder();

/** Returns the summary of an import. */
function summary({ created = 0, stored = 0, conflicting = 0, refused = 0 }) {
  return `${created} created, ${stored} already stored, ` +
    `${conflicting} conflicting, ${refused} refused\n`;
}

/** Imports the text from stdin, written in pieces. */
async function importPieces(
  store: string,
  pieces: readonly Uint8Array<ArrayBuffer>[],
): Promise<Ended> {
  await using program = Program.spawn(["import", "-", "--kv", store], {
    stdin: "piped",
  });
  const writer = program.process.stdin.getWriter();
  for (const piece of pieces) await writer.write(piece);
  await writer.close();
  return await program.ended();
}

/** Cuts a text into pieces of some bytes. */
function cut(text: string, size: number): Uint8Array<ArrayBuffer>[] {
  const bytes = encoder.encode(text);
  return Array.from(
    { length: Math.ceil(bytes.length / size) },
    (_, i) => bytes.slice(i * size, (i + 1) * size),
  );
}

Deno.test("an import that is exported again gives the same bytes, in the order of ids", async () => {
  using directory = new TemporaryDirectory();
  const random = new Random(seedOfRun());
  const lines = drawLines(random, PLANTS);
  const file = writeLines(directory.file("in"), shuffle(random, lines));
  const store = directory.file("plants.db");
  const { status, stdout, stderr } = await importFile(store, file);
  assert.deepEqual({ status, stdout, stderr }, {
    status: 0,
    stdout: "",
    stderr: summary({ created: lines.length }),
  });
  assertSameLines(await exportLines(store), lines);
});

Deno.test("a repeated import changes nothing and succeeds", async () => {
  using directory = new TemporaryDirectory();
  const lines = drawLines(new Random(seedOfRun()), 3_000);
  const store = directory.file("plants.db");
  const file = writeLines(directory.file("in"), lines);
  await importFile(store, file);
  const { status, stderr } = await importFile(store, file);
  assert.equal(stderr, summary({ stored: 3_000 }));
  assert.equal(status, 0);
  assertSameLines(await exportLines(store), lines);
});

Deno.test("import names each refused line and its reason, and stores the others", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("in");
  const parts = [
    '{"id":1,"name":"one"}',
    '{"id":2}',
    '{"id":1.5,"name":"half"}',
    '{"id":3,"name":x}',
    "",
    "[]",
    '{"id":1,"name":"another"}',
    '{"id":1,"name":"one"}',
    '{"id":4,"name":"BAD"}',
    '{"id":5,"name":"five"}',
  ];
  const bytes = encoder.encode(parts.join("\n"));
  bytes.set([0xff, 0xfe, 0xfd], parts.join("\n").indexOf("BAD"));
  Deno.writeFileSync(file, bytes);
  const store = directory.file("plants.db");
  const { status, stderr } = await importFile(store, file);
  assert.deepEqual(stderr.split("\n").toSorted(), [
    "",
    "2 created, 1 already stored, 1 conflicting, 5 refused",
    "line 2: name: expected a string, got nothing",
    `line 3: id: expected an integer from ${ID_MIN} to ${ID_MAX}, got 1.5`,
    'line 4: column 16: expected a value, found "x"',
    "line 6: expected an object with id and name, got an array",
    "line 7: id: 1 is already taken by a different plant",
    "line 9: expected well-formed UTF-8",
  ]);
  assert.equal(status, 1);
  const stored = [toLine(1n, "one"), toLine(5n, "five")];
  assertSameLines(await exportLines(store), stored);
});

Deno.test("import accepts a line of the largest body, and names the length of a longer one without its end", async () => {
  using directory = new TemporaryDirectory();
  const room = BODY_BYTES_MAX - toLine(1n, "").length;
  const lines = [room - 1, room, room + 1, 3 * BODY_BYTES_MAX, 5_000_000].map(
    (length, i) => toLine(BigInt(i), "x".repeat(length)),
  );
  for (const end of ["\n", "\r\n"]) {
    const file = directory.file("in");
    Deno.writeTextFileSync(file, [...lines, toLine(99n, "last")].join(end));
    const store = directory.file(`${end.length}.db`);
    const { status, stderr } = await importFile(store, file);
    assert.equal(
      stderr,
      lines.slice(2).map((line, i) =>
        `line ${i + 3}: expected at most 32768 bytes, got ${line.length}\n`
      ).join("") + summary({ created: 3, refused: lines.length - 2 }),
    );
    assert.equal(status, 1);
    const kept = [lines[0] ?? "", lines[1] ?? "", toLine(99n, "last")];
    assertSameLines(await exportLines(store), kept);
  }
});

Deno.test("import never counts the CR of a line that ends where a read ends", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("in");
  // A file is read in pieces of 256 KiB, of which some bytes may be kept.
  const lengths = [2 ** 18, 2 ** 19].flatMap((bytes) =>
    [-3, -2, -1, 0].map((more) => bytes + more)
  );
  for (const length of lengths) {
    Deno.writeTextFileSync(file, `${"x".repeat(length)}\r\n`);
    const { status, stderr } = await importFile(directory.file("p.db"), file);
    assert.equal(
      stderr,
      `line 1: expected at most 32768 bytes, got ${length}\n` +
        summary({ refused: 1 }),
    );
    assert.equal(status, 1);
  }
});

Deno.test("import skips empty lines, and accepts CRLF and a last line without an end", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("in");
  const lines = [toLine(1n, "one"), toLine(2n, "two"), toLine(3n, "three")];
  Deno.writeTextFileSync(file, `\n\r\n${lines.join("\r\n\r\n\n")}`);
  const store = directory.file("plants.db");
  const { status, stderr } = await importFile(store, file);
  assert.equal(stderr, summary({ created: 3 }));
  assert.equal(status, 0);
  assertSameLines(await exportLines(store), lines);
});

for (const end of ["\n", "\r\n"]) {
  const name = end === "\n" ? "LF" : "CRLF";
  Deno.test(`import skips a byte order mark at the start of a file and of stdin with ${name}`, async () => {
    using directory = new TemporaryDirectory();
    const lines = [toLine(1n, "one"), toLine(2n, `${BYTE_ORDER_MARK}two`)];
    const text = BYTE_ORDER_MARK + lines.map((line) => line + end).join("");
    const file = directory.file("in");
    Deno.writeTextFileSync(file, text);
    const fromFile = directory.file("file.db");
    const imports = [await importFile(fromFile, file)];
    assertSameLines(await exportLines(fromFile), lines);
    // Even if the mark arrives in parts.
    for (const size of [1, 2, text.length * 2]) {
      const store = directory.file(`${size}.db`);
      imports.push(await importPieces(store, cut(text, size)));
      assertSameLines(await exportLines(store), lines);
    }
    for (const { status, stderr } of imports) {
      assert.equal(stderr, summary({ created: 2 }));
      assert.equal(status, 0);
    }
  });
}

Deno.test("import refuses a second byte order mark, and one at the start of another line", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("in");
  const plant = toLine(1n, "one");
  const long = toLine(2n, "x".repeat(BODY_BYTES_MAX));
  for (
    const [text, messages] of [
      [`${BYTE_ORDER_MARK.repeat(2)}${plant}\n`, [
        /^line 1: .*byte order mark/,
      ]],
      [`\n${BYTE_ORDER_MARK}${plant}\n`, [/^line 2: .*byte order mark/]],
      [`${BYTE_ORDER_MARK}${long}\r\n`, [
        new RegExp(`^line 1: .*, got ${long.length}$`),
      ]],
      [BYTE_ORDER_MARK, []],
    ] as const
  ) {
    Deno.writeTextFileSync(file, text);
    const store = directory.file("plants.db");
    const { status, stderr } = await importFile(store, file);
    const printed = stderr.split("\n");
    for (const [i, message] of messages.entries()) {
      assert.match(printed[i] ?? "", message);
    }
    assert.ok(stderr.endsWith(summary({ refused: messages.length })), stderr);
    assert.equal(printed.length, messages.length + 2);
    assert.equal(status, messages.length > 0 ? 1 : 0);
    assertSameLines(await exportLines(store), []);
  }
});

Deno.test("import of an empty file succeeds", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const { status, stderr } = await importFile(store, "/dev/null");
  assert.equal(stderr, summary({}));
  assert.equal(status, 0);
  assertSameLines(await exportLines(store), []);
});

Deno.test("import of a file that cannot be read creates no store", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  for (
    const [file, problem] of [
      [directory.file("missing"), "no such file"],
      [directory.path, "it is a directory"],
    ] as const
  ) {
    const ended = await importFile(store, file);
    assertOneLine(ended, 2, `cannot read ${file}: ${problem}`);
  }
  assert.deepEqual(directory.names(), []);
});

Deno.test({
  name: "import continues if its messages cannot be printed",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const lines = [toLine(1n, "one"), "no plant", toLine(2n, "two")];
    const file = writeLines(directory.file("in"), lines);
    const { status } = await importFile(store, file, {
      shell: '"$0" "$@" 2> /dev/full',
    });
    assert.equal(status, 1);
    const stored = [toLine(1n, "one"), toLine(2n, "two")];
    assertSameLines(await exportLines(store), stored);
  },
});

Deno.test("an import and the creates of a running service lose nothing of each other", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(["--kv", store]);
  const lines = drawLines(new Random(seedOfRun()), 3_000);
  const ids = Array.from({ length: 300 }, (_, i) => 10n + BigInt(i));
  const [ended] = await Promise.all([
    importFile(store, writeLines(directory.file("in"), lines)),
    inParallel(ids, async (id) => {
      const plant = { name: "created" };
      assert.ok(isStored(await send(program, { id, plant })));
    }, 8),
  ]);
  assert.equal(ended.status, 0, ended.stderr);
  const found = new Set(await exportLines(store));
  const created = ids.map((id) => toLine(id, "created"));
  assert.ok([...lines, ...created].every((line) => found.has(line)));
});

Deno.test("a killed import can be repeated", async () => {
  using directory = new TemporaryDirectory();
  const random = new Random(seedOfRun());
  const lines = drawLines(random, 10_000);
  const shuffled = shuffle(random, lines);
  const store = directory.file("plants.db");
  await using first = Program.spawn(["import", "-", "--kv", store], {
    stdin: "piped",
  });
  const writer = first.process.stdin.getWriter();
  const half = shuffled.slice(0, 5_000);
  await writer.write(encoder.encode(half.map((line) => `${line}\n`).join("")));
  await eventually((chars) => chars > 0, async () => {
    const { status, stdout } = await runProgram(["export", "--kv", store]);
    return status === 0 ? stdout.length : 0;
  });
  await first.stop("SIGKILL");
  await writer.abort().catch(() => {});
  const sent = new Set(half);
  assert.ok((await exportLines(store)).every((line) => sent.has(line)));

  const file = writeLines(directory.file("in"), shuffled);
  const { status } = await importFile(store, file);
  assert.equal(status, 0);
  assertSameLines(await exportLines(store), lines);
});

Deno.test("an export that is piped into an import copies the store", async () => {
  using directory = new TemporaryDirectory();
  const lines = drawLines(new Random(seedOfRun()), 3_000);
  const [one, two] = [directory.file("1.db"), directory.file("2.db")];
  await importFile(one, writeLines(directory.file("in"), lines));
  const { status, stderr } = await runProgram([], {
    shell: `"$0" "$@" export --kv ${one} | "$0" "$@" import - --kv ${two}`,
  });
  assert.equal(stderr, summary({ created: 3_000 }));
  assert.equal(status, 0);
  assertSameLines(await exportLines(two), lines);
});

Deno.test({
  name: "import into a KV Connect server, and export from it, keep every plant",
  ignore: DENOKV === undefined,
  fn: async () => {
    using directory = new TemporaryDirectory();
    await using server = await KvServer.start(directory.file("kv.db"));
    const random = new Random(seedOfRun());
    const lines = drawLines(random, 3_000);
    const file = writeLines(directory.file("in"), shuffle(random, lines));
    for (const counts of [{ created: 3_000 }, { stored: 3_000 }]) {
      const { status, stderr } = await importFile(server.url, file, {
        env: KV_ENV,
      });
      assert.equal(stderr, summary(counts));
      assert.equal(status, 0);
    }
    const exported = await exportLines(server.url, { env: KV_ENV });
    assertSameLines(exported, lines);
  },
});
