import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { BODY_BYTES_MAX, ID_MAX, ID_MIN } from "../../src/limits.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { DENOKV, KV_ENV, KvServer } from "../support/kv_server.ts";
import { together, until } from "../support/load.ts";
import { Program, runProgram, TemporaryDirectory } from "../support/program.ts";

/** How many plants a round trip has; a million with PLANTS=1000000. */
const PLANTS = numberFromEnv("PLANTS", 20_000);

/** Texts that a careless program breaks. */
const STRINGS: readonly [string, ...string[]] = [
  "Monstera deliciosa",
  "",
  " ",
  'a "quoted" \\ name',
  "line\nbreak\r\nand\ttab",
  "\0\u0001\u001f\u007f\u0085",
  "\u2028\u2029\ufeff\ufffd",
  "Žlutý kůň, 含羞草, نبات",
  "🌱👩‍🌾\u{10ffff}",
  "</script><!--",
  "__proto__",
  "x".repeat(3_000),
];

const encoder = new TextEncoder();

function toLine(id: bigint, name: string, tag?: string): string {
  const rest = tag === undefined ? "" : `,"tag":${JSON.stringify(tag)}`;
  return `{"id":${id},"name":${JSON.stringify(name)}${rest}}`;
}

function drawId(random: Random): bigint {
  const high = BigInt(random.int(0, 2 ** 32 - 1));
  return BigInt.asIntN(64, high << 32n | BigInt(random.int(0, 2 ** 32 - 1)));
}

/** Lines with ids from all over int64, in the order of the ids. */
function drawLines(random: Random, count: number): string[] {
  const ids = new Set([ID_MIN, -1n, 0n, 1n, 2n ** 53n + 1n, ID_MAX]);
  while (ids.size < count) ids.add(drawId(random));
  const sorted = BigInt64Array.from(ids).sort();
  return Array.from(sorted, (id) => {
    const tag = random.chance(0.5) ? random.pick(STRINGS) : undefined;
    return toLine(id, random.pick(STRINGS), tag);
  });
}

function shuffle(random: Random, lines: readonly string[]): string[] {
  const shuffled = [...lines];
  for (let i = shuffled.length - 1; i > 0; i--) {
    const j = random.int(0, i);
    [shuffled[i], shuffled[j]] = [shuffled[j] ?? "", shuffled[i] ?? ""];
  }
  return shuffled;
}

/** A file with these lines. */
function write(path: string, lines: readonly string[]): string {
  Deno.writeTextFileSync(path, lines.map((line) => `${line}\n`).join(""));
  return path;
}

function importFile(store: string, file: string) {
  return runProgram(["import", file, "--kv", store]);
}

/** What an export of a store wrote; it must have gone well. */
async function exportLines(
  store: string,
  env: Record<string, string> = {},
): Promise<string[]> {
  const ended = await runProgram(["export", "--kv", store], { env });
  assert.equal(ended.stderr, "");
  assert.equal(ended.status, 0);
  const lines = ended.stdout.split("\n");
  assert.equal(lines.pop(), "");
  return lines;
}

/** Not deepEqual, whose message would hold all the lines. */
function assertSame(actual: readonly string[], expected: readonly string[]) {
  assert.equal(actual.length, expected.length);
  const at = actual.findIndex((line, i) => line !== expected[i]);
  assert.ok(at === -1, `line ${at + 1}: ${actual[at]} is not ${expected[at]}`);
}

Deno.test("import, then export: the same plants to the byte, in the order of ids", async () => {
  using directory = new TemporaryDirectory();
  const seed = seedOfRun();
  const random = new Random(seed);
  const lines = drawLines(random, PLANTS);
  const file = write(directory.file("in"), shuffle(random, lines));
  const store = directory.file("plants.db");
  const { status, stdout, stderr } = await importFile(store, file);
  assert.deepEqual({ status, stdout, stderr }, {
    status: 0,
    stdout: "",
    stderr:
      `${lines.length} created, 0 already there, 0 conflicting, 0 refused\n`,
  });
  assertSame(await exportLines(store), lines);
});

Deno.test("import: a second run changes nothing and ends well", async () => {
  using directory = new TemporaryDirectory();
  const lines = drawLines(new Random(seedOfRun()), 3_000);
  const store = directory.file("plants.db");
  const file = write(directory.file("in"), lines);
  await importFile(store, file);
  const { status, stderr } = await importFile(store, file);
  assert.equal(
    stderr,
    "0 created, 3000 already there, 0 conflicting, 0 refused\n",
  );
  assert.equal(status, 0);
  assertSame(await exportLines(store), lines);
});

Deno.test("import: each refused line is named with its reason, the rest goes in", async () => {
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
  const said = stderr.split("\n");
  assert.deepEqual(said.toSorted(), [
    "",
    "2 created, 1 already there, 1 conflicting, 5 refused",
    "line 2: name: expected a string, got nothing",
    `line 3: id: expected an integer from ${ID_MIN} to ${ID_MAX}, got 1.5`,
    'line 4: column 16: expected a value, found "x"',
    "line 6: expected an object with id and name, got an array",
    "line 7: id: 1 names another plant already",
    "line 9: expected well-formed UTF-8, got bytes that are not",
  ]);
  assert.equal(status, 1);
  assertSame(await exportLines(store), [toLine(1n, "one"), toLine(5n, "five")]);
});

Deno.test("import: a line may be as long as a body, and one byte more is refused", async () => {
  using directory = new TemporaryDirectory();
  const room = BODY_BYTES_MAX - toLine(1n, "").length;
  const lines = [room - 1, room, room + 1, 3 * BODY_BYTES_MAX, 5_000_000].map(
    (length, i) => toLine(BigInt(i), "x".repeat(length)),
  );
  for (const end of ["\n", "\r\n"]) {
    const file = directory.file("in");
    Deno.writeTextFileSync(file, [...lines, toLine(9n, "last")].join(end));
    const store = directory.file(`${end.length}.db`);
    const { status, stderr } = await importFile(store, file);
    assert.deepEqual(stderr.split("\n"), [
      `line 3: expected at most 32768 bytes, got ${BODY_BYTES_MAX + 1}`,
      `line 4: expected at most 32768 bytes, got ${lines[3]?.length}`,
      `line 5: expected at most 32768 bytes, got ${lines[4]?.length}`,
      "3 created, 0 already there, 0 conflicting, 3 refused",
      "",
    ]);
    assert.equal(status, 1);
    const kept = [lines[0] ?? "", lines[1] ?? "", toLine(9n, "last")];
    assertSame(await exportLines(store), kept);
  }
});

Deno.test("import: empty lines, CRLF and a last line without an end are taken", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("in");
  const lines = [toLine(1n, "one"), toLine(2n, "two"), toLine(3n, "three")];
  Deno.writeTextFileSync(file, `\n\r\n${lines.join("\r\n\r\n\n")}`);
  const store = directory.file("plants.db");
  const { status, stderr } = await importFile(store, file);
  assert.equal(
    stderr,
    "3 created, 0 already there, 0 conflicting, 0 refused\n",
  );
  assert.equal(status, 0);
  assertSame(await exportLines(store), lines);
});

Deno.test("import: an empty file is no fault", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const { status, stderr } = await importFile(store, "/dev/null");
  assert.equal(
    stderr,
    "0 created, 0 already there, 0 conflicting, 0 refused\n",
  );
  assert.equal(status, 0);
  assertSame(await exportLines(store), []);
});

Deno.test("export: every line that it writes can be imported, the largest too", async () => {
  using directory = new TemporaryDirectory();
  const ids = [["1e18", 10n ** 18n], ["-92e17", -92n * 10n ** 17n]] as const;
  const bodies = ids.map(([spelling]) => {
    const begin = `{"id":${spelling},"name":"`;
    return `${begin}${"x".repeat(BODY_BYTES_MAX - begin.length - 2)}"}`;
  });
  const store = directory.file("plants.db");
  await importFile(store, write(directory.file("in"), bodies));
  const exported = await exportLines(store);
  assertSame(exported, bodies.toReversed());
  const other = directory.file("other.db");
  const ended = await importFile(other, write(directory.file("out"), exported));
  assert.equal(ended.status, 0, ended.stderr);
  using kv = await Deno.openKv(other);
  for (const [, id] of ids) {
    assert.notEqual((await kv.get(["plants", id])).value, null, `${id}`);
  }
});

Deno.test("export: what is no plant of the service is named, the rest goes out", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const lines = [toLine(1n, "one"), toLine(9n, "nine", "t")];
  await importFile(store, write(directory.file("in"), lines));
  const bytes = new Uint8Array(1);
  const kv = await Deno.openKv(store);
  await kv.atomic()
    .set(["plants", 2n], bytes)
    .set(["plants", 3n], new Deno.KvU64(3n))
    .set(["plants", "six"], bytes)
    .set(["plants", 7n, 8n], bytes)
    .set(["others", 1n], bytes)
    .commit();
  kv.close();
  const args = ["export", "--kv", store];
  const { status, stdout, stderr } = await runProgram(args);
  assert.equal(stdout, lines.map((line) => `${line}\n`).join(""));
  assert.deepEqual(stderr.split("\n").toSorted(), [
    "",
    "2 exported, 4 left out",
    '[ "plants", "six" ]: holds no plant that this service stored',
    '[ "plants", 2n ]: holds no plant that this service stored',
    '[ "plants", 3n ]: holds no plant that this service stored',
    '[ "plants", 7n, 8n ]: holds no plant that this service stored',
  ]);
  assert.equal(status, 1);
});

Deno.test({
  name: "export: a plant that no import would take is named and left out",
  // An older Deno cannot read the objects that a newer one stores.
  ignore: Deno.env.has("PLANT_STORE"),
  fn: async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await importFile(store, write(directory.file("in"), [toLine(1n, "one")]));
    const kv = await Deno.openKv(store);
    await kv.atomic()
      .set(["plants", 2n], { name: 2 })
      .set(["plants", 3n], { name: "three", tag: null })
      .set(["plants", 4n], { name: "\ud800" })
      .set(["plants", 5n], { name: "five", tag: "x".repeat(40_000) })
      .commit();
    kv.close();
    const args = ["export", "--kv", store];
    const { status, stdout, stderr } = await runProgram(args);
    assert.equal(stdout, `${toLine(1n, "one")}\n`);
    assert.deepEqual(stderr.split("\n").toSorted(), [
      "",
      "1 exported, 4 left out",
      '[ "plants", 2n ]: holds no plant that this service stored',
      '[ "plants", 3n ]: holds no plant that this service stored',
      "id 4: holds no plant that this service stored",
      "id 5: holds no plant that this service stored",
    ]);
    assert.equal(status, 1);
  },
});

Deno.test("export: a file that is no store is refused and left as it is", async () => {
  using directory = new TemporaryDirectory();
  const empty = directory.file("empty.db");
  const text = directory.file("text.db");
  Deno.writeTextFileSync(empty, "");
  Deno.writeTextFileSync(text, "not a store, whatever its name says\n");
  for (const path of [directory.file("missing.db"), empty, text, directory.path]) {
    const { status, stdout, stderr } = await runProgram([
      "export",
      "--kv",
      path,
    ]);
    assert.match(stderr, /^plant-store: .*--kv or KV_PATH\n$/);
    assert.ok(stderr.includes(path), stderr);
    assert.equal(stdout, "");
    assert.equal(status, 2);
  }
  const names = [...Deno.readDirSync(directory.path)].map(({ name }) => name);
  assert.deepEqual(names.toSorted(), ["empty.db", "text.db"]);
  assert.equal(Deno.statSync(empty).size, 0);
});

Deno.test("export: the store is not changed", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const lines = drawLines(new Random(1), 500);
  await importFile(store, write(directory.file("in"), lines));
  const before = Deno.readFileSync(store);
  await exportLines(store);
  assert.ok(Buffer.from(Deno.readFileSync(store)).equals(before));
});

Deno.test("export: a reader that has enough ends it without a word", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const lines = drawLines(new Random(1), 5_000);
  await importFile(store, write(directory.file("in"), lines));
  const { stdout, stderr, status } = await runProgram(
    ["export", "--kv", store],
    { shell: '{ "$0" "$@"; echo "ended with $?" >&2; } | head -n 2' },
  );
  assert.equal(stdout, `${lines.slice(0, 2).join("\n")}\n`);
  assert.equal(stderr, "ended with 141\n");
  assert.equal(status, 0);
});

Deno.test({
  name: "export: a full disk is one plain line and a failure",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await importFile(store, write(directory.file("in"), [toLine(1n, "one")]));
    const { status, stderr } = await runProgram(["export", "--kv", store], {
      shell: '"$0" "$@" > /dev/full',
    });
    assert.match(stderr, /^plant-store: cannot write to stdout: .*space.*\n$/);
    assert.equal(status, 1);
  },
});

Deno.test({
  name: "import: what cannot be printed does not end it",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const lines = [toLine(1n, "one"), "no plant", toLine(2n, "two")];
    const { status } = await runProgram(
      ["import", write(directory.file("in"), lines), "--kv", store],
      { shell: '"$0" "$@" 2> /dev/full' },
    );
    assert.equal(status, 1);
    assertSame(await exportLines(store), [
      toLine(1n, "one"),
      toLine(2n, "two"),
    ]);
  },
});

Deno.test("export: a KV Connect server that falls silent is waited for 10 s", async () => {
  const controller = new AbortController();
  const answered = Promise.withResolvers<Response>();
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    signal: controller.signal,
    onListen: () => {},
  }, (request) =>
    // The metadata of KV Connect come, the data do not.
    new URL(request.url).pathname === "/"
      ? Response.json({
        version: 2,
        databaseId: crypto.randomUUID(),
        endpoints: [{
          url: new URL(request.url).origin,
          consistency: "strong",
        }],
        token: KV_ENV.DENO_KV_ACCESS_TOKEN,
        expiresAt: "2100-01-01T00:00:00Z",
      })
      : answered.promise);
  const url = `http://127.0.0.1:${server.addr.port}`;
  try {
    const { status, stdout, stderr } = await runProgram(
      ["export", "--kv", url],
      { env: KV_ENV },
    );
    assert.match(
      stderr,
      /plant-store: cannot read .* no answer in 10 s: see [^\n]+\n$/,
    );
    assert.equal(stdout, "");
    assert.equal(status, 1);
  } finally {
    answered.resolve(new Response());
    controller.abort();
    await server.finished;
  }
});

Deno.test("export, while a service creates: all that was there before, in order", async () => {
  using directory = new TemporaryDirectory();
  const random = new Random(seedOfRun());
  const store = directory.file("plants.db");
  const lines = drawLines(random, 5_000);
  await importFile(store, write(directory.file("in"), lines));
  await using program = await Program.start(["--kv", store]);
  let isRunning = true;
  let created = 0;
  const creating = together(Array(16).fill(0), async () => {
    while (isRunning) {
      const response = await program.create(toLine(drawId(random), "new"));
      await response.body?.cancel();
      assert.equal(response.status, 200);
      created++;
    }
  }, 16);
  const exported: string[][] = [];
  for (let i = 0; i < 3; i++) exported.push(await exportLines(store));
  isRunning = false;
  await creating;
  assert.ok(created > 0);
  for (const found of exported) {
    const isThere = new Set(found);
    assert.ok(lines.every((line) => isThere.has(line)));
    const ids = found.map((line) => BigInt(/-?\d+/.exec(line)?.[0] ?? ""));
    assert.ok(ids.every((id, i) => i === 0 || id > (ids[i - 1] ?? 0n)));
  }
});

Deno.test("import, while a service creates: nothing is lost of either", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(["--kv", store]);
  const lines = drawLines(new Random(seedOfRun()), 3_000);
  const own = Array.from(
    { length: 300 },
    (_, i) => toLine(10n + BigInt(i), "o"),
  );
  const [ended] = await Promise.all([
    importFile(store, write(directory.file("in"), lines)),
    together(own, async (body) => {
      const response = await program.create(body);
      await response.body?.cancel();
      assert.equal(response.status, 200);
    }, 8),
  ]);
  assert.equal(ended.status, 0, ended.stderr);
  const found = new Set(await exportLines(store));
  assert.ok([...lines, ...own].every((line) => found.has(line)));
});

Deno.test("import: killed in the middle, it can be run again", async () => {
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
  await until((count) => count > 0, async () => {
    const { status, stdout } = await runProgram(["export", "--kv", store]);
    return status === 0 ? stdout.length : 0;
  }, { withinMs: 15_000 });
  await first.stop("SIGKILL");
  await writer.abort().catch(() => {});
  const sent = new Set(half);
  assert.ok((await exportLines(store)).every((line) => sent.has(line)));

  const { status } = await importFile(
    store,
    write(directory.file("in"), shuffled),
  );
  assert.equal(status, 0);
  assertSame(await exportLines(store), lines);
});

Deno.test("export into import through a pipe: the same store again", async () => {
  using directory = new TemporaryDirectory();
  const lines = drawLines(new Random(seedOfRun()), 3_000);
  const [one, two] = [directory.file("1.db"), directory.file("2.db")];
  await importFile(one, write(directory.file("in"), lines));
  const { status, stderr } = await runProgram([], {
    shell: `"$0" "$@" export --kv ${one} | "$0" "$@" import - --kv ${two}`,
  });
  assert.equal(
    stderr,
    "3000 created, 0 already there, 0 conflicting, 0 refused\n",
  );
  assert.equal(status, 0);
  assertSame(await exportLines(two), lines);
});

Deno.test({
  name: "import and export, to and from a KV Connect server: the same plants",
  ignore: DENOKV === undefined,
  fn: async () => {
    using directory = new TemporaryDirectory();
    await using server = await KvServer.start(directory.file("kv.db"));
    const random = new Random(seedOfRun());
    const lines = drawLines(random, 3_000);
    const file = write(directory.file("in"), shuffle(random, lines));
    for (const counts of ["3000 created, 0", "0 created, 3000"]) {
      const { status, stderr } = await runProgram(
        ["import", file, "--kv", server.url],
        { env: KV_ENV },
      );
      assert.ok(stderr.startsWith(`${counts} already there`), stderr);
      assert.equal(status, 0);
    }
    assertSame(await exportLines(server.url, KV_ENV), lines);
  },
});
