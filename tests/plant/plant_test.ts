import assert from "node:assert/strict";
import { ERROR, Refusal } from "../../src/errors.ts";
import { BODY_BYTES_MAX, ID_MAX, ID_MIN } from "../../src/limits.ts";
import { type NewPlant, readNewPlant } from "../../src/plant/plant.ts";
import { Random, seedOfRun } from "../support/random.ts";

const AN_ID = "an integer from -9223372036854775808 to 9223372036854775807";

function accept(text: string): NewPlant {
  const read = readNewPlant(text);
  if (read instanceof Refusal) assert.fail(`${text}: ${read.message}`);
  return read;
}

/** The message of a refusal. */
function refuse(text: string, error: number = ERROR.NOT_A_NEW_PLANT): string {
  const read = readNewPlant(text);
  assert.ok(read instanceof Refusal, `${text} is accepted`);
  assert.equal(read.error, error, read.message);
  return read.message;
}

/** The two ways to an id: a body in its usual spelling, and in another. */
function withId(id: string): string[] {
  return [`{"id":${id},"name":"a"}`, `{"name":"a","id": ${id} }`];
}

Deno.test("readNewPlant() makes a NewPlant of a body with id, name and tag", () => {
  assert.deepEqual(accept('{"id":7,"name":"Monstera","tag":"climber"}'), {
    id: 7n,
    plant: { name: "Monstera", tag: "climber" },
  });
});

Deno.test("readNewPlant() leaves out a tag that is not given", () => {
  for (const text of ['{"id":7,"name":"Aloe"}', '{"name":"Aloe","id":7}']) {
    const { plant } = accept(text);
    assert.deepEqual(plant, { name: "Aloe" });
    assert.deepEqual(Object.keys(plant), ["name"]);
  }
});

Deno.test("readNewPlant() takes the members in any order and with any white space", () => {
  const expected = { id: 7n, plant: { name: "a", tag: "b" } };
  const members = ['"id":7', '"name":"a"', '"tag":"b"'];
  for (
    const [i, j, k] of [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [
      2,
      1,
      0,
    ]] as const
  ) {
    assert.deepEqual(
      accept(`{${members[i]},${members[j]},${members[k]}}`),
      expected,
    );
  }
  assert.deepEqual(accept('{"id": 7, "name": "a", "tag": "b"}'), expected);
  assert.deepEqual(
    accept('\r\n{\t"id"\n: 7 ,"name" :"a","tag":"b" }\n'),
    expected,
  );
});

Deno.test("readNewPlant() takes the empty string as a name and as a tag", () => {
  assert.deepEqual(accept('{"id":1,"name":"","tag":""}').plant, {
    name: "",
    tag: "",
  });
  assert.deepEqual(accept('{"tag":"","name":"","id":1}').plant, {
    name: "",
    tag: "",
  });
});

Deno.test("readNewPlant() decodes names and tags, also beyond the Basic Multilingual Plane", () => {
  const plant = {
    name: 'a"\\/\b\f\n\r\t\u0000é観🌵\ufeff',
    tag: "\u2028🌵\x7f",
  };
  assert.deepEqual(
    accept(`{"id":1,${JSON.stringify(plant).slice(1)}`).plant,
    plant,
  );
  assert.deepEqual(
    accept(String.raw`{"id":1,"name":"\uD83C\uDF35\/","tag":"\u00e9"}`).plant,
    { name: "🌵/", tag: "é" },
  );
});

Deno.test("readNewPlant() drops members that the description does not name", () => {
  const { id, plant } = accept(
    '{"a":[{"id":"no"}],"id":1,"ID":2,"name":"n","__proto__":{"tag":"t"},"constructor":null,"a":0}',
  );
  assert.equal(id, 1n);
  assert.deepEqual(Object.keys(plant), ["name"]);
  assert.equal(Object.getPrototypeOf(plant), Object.prototype);
});

Deno.test("readNewPlant() checks the grammar of what it drops", () => {
  assert.equal(
    refuse('{"id":1,"name":"n","x":[01]}', ERROR.NOT_JSON),
    'line 1, column 26: expected no digit after a leading zero, found "1"',
  );
});

Deno.test("readNewPlant() lets a fault of grammar win over one of meaning before it", () => {
  for (
    const text of [
      '{"id":1,"id":2,"name":3',
      '{"id":"x"}}',
      "[1,]",
      '{"name":"\\ud800"',
    ]
  ) {
    assert.match(refuse(text, ERROR.NOT_JSON), /^line 1, column \d+: /);
  }
});

Deno.test("readNewPlant() refuses what is not JSON in the reader's words", () => {
  assert.equal(
    refuse('{"id":}', ERROR.NOT_JSON),
    'line 1, column 7: expected a value, found "}"',
  );
  assert.equal(refuse("", ERROR.NOT_JSON), "expected a JSON text, got nothing");
  assert.match(
    refuse('\ufeff{"id":1,"name":"a"}', ERROR.NOT_JSON),
    /byte order mark/,
  );
  assert.match(
    refuse('{"id":1,"name":"a"}{}', ERROR.NOT_JSON),
    /^line 1, column 20: /,
  );
  assert.match(refuse('{"id":1,"name":"a\tb"}', ERROR.NOT_JSON), /U\+0009$/);
  assert.match(refuse('{"id":01,"name":"a"}', ERROR.NOT_JSON), /leading zero/);
});

Deno.test("readNewPlant() refuses a text that is no object", () => {
  const kinds = [
    ["[]", "an array"],
    ['[{"id":1,"name":"a"}]', "an array"],
    ['"id"', "a string"],
    ["1", "a number"],
    ["-0.5", "a number"],
    ["true", "a boolean"],
    ["false", "a boolean"],
    ["null", "null"],
  ] as const;
  for (const [text, kind] of kinds) {
    assert.equal(
      refuse(text),
      `expected an object with id and name, got ${kind}`,
    );
  }
});

Deno.test("readNewPlant() refuses a missing id or name", () => {
  assert.equal(refuse("{}"), `id: expected ${AN_ID}, got nothing`);
  assert.equal(refuse('{"name":"a"}'), `id: expected ${AN_ID}, got nothing`);
  assert.equal(refuse('{"id":1}'), "name: expected a string, got nothing");
  assert.equal(
    refuse('{"id":1,"tag":"t"}'),
    "name: expected a string, got nothing",
  );
});

Deno.test("readNewPlant() refuses members of the wrong kind", () => {
  const kinds = [
    ["true", "a boolean"],
    ["null", "null"],
    ["[1]", "an array"],
    ['{"id":1}', "an object"],
  ] as const;
  for (const [value, kind] of [...kinds, ['"1"', "a string"]] as const) {
    for (const text of withId(value)) {
      assert.equal(refuse(text), `id: expected ${AN_ID}, got ${kind}`);
    }
  }
  for (const [value, kind] of [...kinds, ["1", "a number"]] as const) {
    assert.equal(
      refuse(`{"id":1,"name":${value},"tag":"t"}`),
      `name: expected a string, got ${kind}`,
    );
    assert.equal(
      refuse(`{"id":1,"name":"a","tag":${value}}`),
      `tag: expected a string, got ${kind}`,
    );
  }
});

Deno.test("readNewPlant() refuses a member given twice, also with the same value", () => {
  assert.equal(refuse('{"id":1,"id":1,"name":"a"}'), "id: given twice");
  assert.equal(refuse('{"id":1,"name":"a","name":"a"}'), "name: given twice");
  assert.equal(
    refuse('{"id":1,"name":"a","tag":"t","tag":"t"}'),
    "tag: given twice",
  );
  assert.equal(
    refuse('{"id":1,"name":"a","tag":"t","tag":null}'),
    "tag: given twice",
  );
  assert.equal(
    refuse(String.raw`{"id":1,"\u0069d":2,"name":"a"}`),
    "id: given twice",
  );
  assert.equal(
    refuse(String.raw`{"id":1,"name":"a","n\u0061me":"b"}`),
    "name: given twice",
  );
});

Deno.test("readNewPlant() refuses an unpaired surrogate in a name or a tag", () => {
  const words = "expected whole characters, got an unpaired surrogate";
  for (
    const half of [
      String.raw`\ud83c`,
      String.raw`\uDF35`,
      String.raw`a\udf35\ud83cb`,
      String.raw`\ud83c\ud83c\udf35`,
      String.raw`\ud83c \udf35`,
      "\ud83c",
      "a\udf35",
    ]
  ) {
    assert.equal(refuse(`{"id":1,"name":"${half}"}`), `name: ${words}`);
    assert.equal(
      refuse(`{"id":1,"name":"a","tag":"${half}"}`),
      `tag: ${words}`,
    );
    assert.equal(accept(`{"id":1,"name":"a","x":"${half}"}`).id, 1n);
  }
});

Deno.test("readNewPlant() names the first of several faults in the order id, name, tag", () => {
  assert.match(refuse('{"tag":1,"tag":1,"name":2}'), /^id: /);
  assert.match(
    refuse('{"tag":1,"tag":2,"name":3,"name":4,"id":5,"id":6}'),
    /^id: given twice$/,
  );
  assert.match(
    refuse('{"tag":null,"name":3,"name":4,"id":5}'),
    /^name: given twice$/,
  );
  assert.match(refuse('{"tag":null,"id":5}'), /^name: /);
  assert.match(refuse('{"tag":null,"id":5,"name":"a"}'), /^tag: /);
});

Deno.test("readNewPlant() keeps every id to the last digit, up to both ends of int64", () => {
  const ids = [
    ...[0n, 1n, -1n, 10n, 999_999_999_999_999_999n, 10n ** 18n, -(10n ** 18n)],
    ...[2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n) - 1n],
    ...[ID_MAX - 1n, ID_MAX, ID_MIN, ID_MIN + 1n],
  ];
  for (const id of ids) {
    for (const text of withId(String(id))) assert.equal(accept(text).id, id);
  }
  assert.equal(ID_MAX, 9223372036854775807n);
  assert.equal(ID_MIN, -9223372036854775808n);
});

Deno.test("readNewPlant() refuses an id beyond either end of int64", () => {
  for (
    const id of [
      ID_MAX + 1n,
      ID_MIN - 1n,
      10n ** 19n,
      -(10n ** 19n),
      2n ** 64n,
      10n ** 30n,
    ]
  ) {
    for (const text of withId(String(id))) {
      assert.equal(refuse(text), `id: expected ${AN_ID}, got ${id}`);
    }
  }
});

const INTEGERS = [
  ["-0", 0n],
  ["0.0", 0n],
  ["-0.000e5", 0n],
  ["0e999999999", 0n],
  ["0e-999999999", 0n],
  ["1.0", 1n],
  ["1e2", 100n],
  ["1E+02", 100n],
  ["-1e2", -100n],
  ["100e-2", 1n],
  ["0.1e1", 1n],
  ["0.00012e5", 12n],
  ["1.50e1", 15n],
  ["1200.00e-2", 12n],
  ["1e18", 10n ** 18n],
  ["9223372036854775807.000", ID_MAX],
  ["9223372036854775807e0", ID_MAX],
  ["9.223372036854775807e18", ID_MAX],
  ["92233720368547758070e-1", ID_MAX],
  ["-9223372036854775808.0", ID_MIN],
  ["-0.9223372036854775808e19", ID_MIN],
  ["9007199254740993.0", 9007199254740993n],
  [`1${"0".repeat(5000)}e-5000`, 1n],
  [`0.${"0".repeat(5000)}7e5001`, 7n],
  [`1e${"0".repeat(5000)}2`, 100n],
  [`1.${"0".repeat(5000)}`, 1n],
  [`0e${"9".repeat(5000)}`, 0n],
  [`0e-${"9".repeat(5000)}`, 0n],
] as const;

Deno.test("readNewPlant() takes every spelling of an integer by its value", () => {
  for (const [source, id] of INTEGERS) {
    for (const text of withId(source)) {
      assert.equal(accept(text).id, id, source);
    }
  }
});

const NOT_INT64 = [
  "1.5",
  "-1.5",
  "0.5",
  "0.99999999999999999999",
  "1.00000000000000000000000001",
  "9007199254740992.5",
  "1e-1",
  "1e-400",
  "-1e-400",
  "15e-1",
  "1e19",
  "-1e19",
  "1e400",
  "1e999999999",
  "-1e999999999",
  "1e-999999999",
  "9223372036854775807.1",
  "9223372036854775808.0",
  "-9223372036854775809.0",
  "9.223372036854775808e18",
  "0.9223372036854775808e19",
];

Deno.test("readNewPlant() refuses a number that is no int64 and shows it", () => {
  for (const source of NOT_INT64) {
    for (const text of withId(source)) {
      assert.equal(refuse(text), `id: expected ${AN_ID}, got ${source}`);
    }
  }
});

Deno.test("readNewPlant() cuts a long number in its message", () => {
  const digits = "1234567890".repeat(4);
  assert.equal(
    refuse(`{"id":${digits},"name":"a"}`),
    `id: expected ${AN_ID}, got ${digits}`,
  );
  assert.equal(
    refuse(`{"id":${digits}1,"name":"a"}`),
    `id: expected ${AN_ID}, got ${digits}…`,
  );
  for (
    const source of [
      "9".repeat(30_000),
      `1e${"9".repeat(30_000)}`,
      `1e-${"9".repeat(30_000)}`,
      `0.${"0".repeat(30_000)}1`,
      `1.${"0".repeat(30_000)}1`,
    ]
  ) {
    for (const text of withId(source)) {
      assert.equal(
        refuse(text),
        `id: expected ${AN_ID}, got ${source.slice(0, 40)}…`,
      );
    }
  }
});

Deno.test("readNewPlant() takes a name that fills the largest body", () => {
  for (const letter of ["a", "é", "観"]) {
    const name = letter.repeat(BODY_BYTES_MAX);
    assert.equal(accept(`{"id":1,"name":"${name}"}`).plant.name, name);
    assert.equal(accept(`{"name":"${name}","id":1}`).plant.name, name);
  }
});

Deno.test("readNewPlant() judges numbers of a million digits", () => {
  const zeros = "0".repeat(2 ** 20);
  // Were one quadratic in its length, this test would not end for minutes.
  for (
    const [source, id] of [
      [`1${zeros}`, undefined],
      [`1.${zeros}`, 1n],
      [`1.${zeros}1`, undefined],
      [`0.${zeros}1`, undefined],
      [`1e${zeros}1`, 10n],
      [`1${zeros}1.${zeros}`, undefined],
      [`1e-1${zeros}`, undefined],
    ] as const
  ) {
    for (const text of withId(source)) {
      if (id === undefined) assert.ok(refuse(text).length < 200);
      else assert.equal(accept(text).id, id);
    }
  }
});

/** The int64 that a number is, by exact fractions: slow and plain. */
function modelInt64(source: string): bigint | undefined {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source);
  assert.ok(match, source);
  const [, sign, whole = "", fraction = "", exponent = "0"] = match;
  let numerator = BigInt(whole + fraction);
  let denominator = 10n ** BigInt(fraction.length);
  const power = BigInt(exponent.replace("+", ""));
  if (power >= 0n) numerator *= 10n ** power;
  else denominator *= 10n ** -power;
  if (numerator % denominator !== 0n) return undefined;
  const value = (sign === "-" ? -1n : 1n) * (numerator / denominator);
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

/** A number near an integer or an end of int64, in any of its spellings. */
function randomNumber(random: Random): string {
  const near = random.pick([
    "9223372036854775807",
    "9223372036854775808",
    "1",
    "",
  ]);
  let digits = near;
  if (near === "" || random.chance(0.3)) {
    const length = random.int(1, 22);
    digits = Array.from(
      { length },
      () => random.chance(0.4) ? 0 : random.int(0, 9),
    ).join("");
  }
  digits += "0".repeat(random.chance(0.5) ? random.int(0, 5) : 0);
  const point = random.int(0, digits.length);
  const whole = digits.slice(0, point).replace(/^0+/, "") || "0";
  const fraction = digits.slice(point);
  const power = random.chance(0.5)
    ? fraction.length + random.int(-3, 3)
    : random.int(-25, 25);
  const exponent = random.chance(0.6)
    ? random.pick(["e", "E"]) +
      (power < 0 ? "-" : random.pick(["", "+"])) +
      "0".repeat(random.int(0, 2)) + Math.abs(power)
    : "";
  return (random.chance(0.5) ? "-" : "") + whole +
    (fraction === "" ? "" : `.${fraction}`) + exponent;
}

Deno.test("readNewPlant() agrees with exact fractions on random ids", () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  let integers = 0;
  const rounds = 20_000;
  for (let round = 0; round < rounds; round++) {
    const source = randomNumber(random);
    const expected = modelInt64(source);
    if (expected !== undefined) integers++;
    const read = readNewPlant(`{"id":${source},"name":""}`);
    const id = read instanceof Refusal ? undefined : read.id;
    assert.equal(id, expected, `SEED=${seed}, round ${round}: ${source}`);
  }
  // Else the numbers would test one side only.
  assert.ok(integers > rounds / 10 && integers < rounds * 0.9, `${integers}`);
});

Deno.test("readNewPlant() reads a body alike in its usual spelling and in any other", () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  const parts = [
    "{",
    '"id"',
    ":",
    "7",
    ",",
    '"name"',
    ":",
    '"a"',
    ",",
    '"tag"',
    ":",
    '"b"',
    "}",
  ];
  let accepted = 0;
  const rounds = 20_000;
  for (let round = 0; round < rounds; round++) {
    const some = [...parts];
    some[3] = random.pick([
      "7",
      "-7",
      "0",
      "-0",
      "01",
      "1.0",
      "1e1",
      String(ID_MAX),
      "1".repeat(18),
      "1".repeat(19),
    ]);
    for (const at of [7, 11]) {
      const inside = () =>
        random.pick([
          "",
          "a",
          "é",
          "観",
          "🌵",
          "\ud83c",
          "\t",
          "\x7f",
          "\\n",
          "\\",
          '"',
          "]",
          "\ud7ff",
          "\ue000",
          "\uffff",
        ]);
      some[at] = `"${inside()}${inside()}"`;
    }
    if (random.chance(0.3)) some.splice(8, 4);
    if (random.chance(0.3)) {
      some.splice(
        random.int(0, some.length),
        random.int(0, 2),
        random.pick(parts as [string, ...string[]]),
      );
    }
    if (random.chance(0.5)) {
      some.splice(
        random.int(0, some.length),
        0,
        random.pick([" ", "  ", "\n", "\u00a0"]),
      );
    }
    const text = some.join("");
    // A line before it makes it unusual; only the place in a message changes.
    const usual = readNewPlant(text);
    const unusual = readNewPlant(`\n${text}`);
    const where = `SEED=${seed}, round ${round}: ${JSON.stringify(text)}`;
    if (usual instanceof Refusal && unusual instanceof Refusal) {
      assert.equal(usual.error, unusual.error, where);
      assert.equal(
        usual.message.replace(/^line \d+/, ""),
        unusual.message.replace(/^line \d+/, ""),
        where,
      );
    } else {
      assert.deepEqual(usual, unusual, where);
      accepted++;
    }
  }
  assert.ok(accepted > rounds / 10 && accepted < rounds * 0.9, `${accepted}`);
});
