import assert from "node:assert/strict";
import { Program, TemporaryDirectory, TOKEN } from "../support/program.ts";
import {
  chunked,
  exchange,
  joined,
  type Reply,
  request,
  toBytes,
  Wire,
} from "../support/wire.ts";

const SECOND_TOKEN = "second.token~1";
const THIRD_TOKEN = "third+/token-_==";
const TOKENS = [TOKEN, SECOND_TOKEN, THIRD_TOKEN];

const BODY_BYTES_MAX = 32_768;
const DEPTH_MAX = 64;

/** What is stored before the first request of the tables. */
const FIRST = { id: 1n, plant: { name: "Monstera", tag: "climber" } };

/** A body that could be stored, for requests that are refused before it. */
const GOOD = '{"id":2,"name":"Fern"}';

const ID = "id: expected an integer from -9223372036854775808 to " +
  "9223372036854775807, got ";

interface Refused {
  readonly what: string;
  readonly sends: Uint8Array;
  readonly error: number;
  /** The message, or what it must match. */
  readonly says: string | RegExp;
}

interface Accepted {
  readonly what: string;
  readonly sends: Uint8Array;
  readonly id: bigint;
  readonly plant: { readonly name: string; readonly tag?: string };
}

function refused(
  error: number,
  what: string,
  sends: Uint8Array | string,
  says: string | RegExp,
): Refused {
  const bytes = typeof sends === "string" ? request(sends) : sends;
  return { what, sends: bytes, error, says };
}

function accepted(
  what: string,
  sends: Uint8Array | string,
  id: bigint,
  name: string,
  tag?: string,
): Accepted {
  const bytes = typeof sends === "string" ? request(sends) : sends;
  const plant = tag === undefined ? { name } : { name, tag };
  return { what, sends: bytes, id, plant };
}

function to(target: string, method = "POST"): Uint8Array {
  return request(GOOD, { line: `${method} ${target} HTTP/1.1` });
}

function authorized(...credentials: string[]): Uint8Array {
  return request(GOOD, {
    headers: credentials.map((text) => `authorization: ${text}`),
  });
}

function typed(...types: string[]): Uint8Array {
  return request(GOOD, {
    headers: types.map((type) => `content-type: ${type}`),
  });
}

function inChunks(body: string | Uint8Array, size: number): Uint8Array {
  return request(chunked(body, size), {
    headers: ["transfer-encoding: chunked"],
  });
}

/** A create of a body with bytes in the place of `*`. */
function withBytes(body: string, ...bytes: number[]): Uint8Array {
  const [before = "", after = ""] = body.split("*");
  return request(joined(before, new Uint8Array(bytes), after));
}

/** The name that makes a body of so many bytes, the id having three digits. */
function nameOf(bytes: number): string {
  return "x".repeat(bytes - '{"id":100,"name":""}'.length);
}

/** A body of exactly so many bytes. */
function bodyOf(bytes: number, id: number): string {
  assert.equal(String(id).length, 3);
  return `{"id":${id},"name":"${nameOf(bytes)}"}`;
}

/** Arrays in a member that nobody asked for, so many levels with the object. */
function nested(levels: number, id: number): string {
  const inner = "[".repeat(levels - 1) + "]".repeat(levels - 1);
  return `{"id":${id},"name":"Nest","more":${inner}}`;
}

const NO_TOKEN = 'Authorization: expected "Bearer" and one token';
const WRONG_TOKEN = "Authorization: this token is not accepted";

const REFUSED: readonly Refused[] = [
  // The path, before all else.
  refused(40401, "/plants/", to("/plants/"), "there is no /plants/"),
  refused(40401, "/Plants", to("/Plants"), "there is no /Plants"),
  refused(40401, "//plants", to("//plants"), "there is no //plants"),
  refused(40401, "/plants/1", to("/plants/1"), "there is no /plants/1"),
  refused(40401, "an escape in the path", to("/%70lants"), /%70lants$/),
  refused(40401, "a parameter in the path", to("/plants;x"), /\/plants;x$/),
  refused(40401, "dots in the path", to("/x/../plants"), /x\/\.\.\/plants$/),
  refused(40401, "a path before its query", to("/ferns?/plants"), /\/ferns$/),
  refused(
    40401,
    "a URL in the place of the path, with another path",
    to("http://plants.test/ferns"),
    "there is no /ferns",
  ),
  refused(
    40401,
    "a Host header that looks like the path",
    request(GOOD, {
      line: "POST /ferns HTTP/1.1",
      headers: ["host: plants.test/plants?"],
    }),
    "there is no /ferns",
  ),
  refused(
    40401,
    "a long path, of which it shows a part",
    to(`/${"a".repeat(300)}`),
    /^there is no \/a{20,80}…$/,
  ),
  refused(
    40401,
    "a path that is not there, before the method and the token",
    request("", { line: "DELETE /ferns HTTP/1.1", without: ["authorization"] }),
    "there is no /ferns",
  ),

  // The method, before the token.
  ...["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO"].map(
    (method) =>
      refused(
        40501,
        `the method ${method}`,
        to("/plants", method),
        `expected the method POST, got ${method}`,
      ),
  ),
  refused(40501, "post in lower case", to("/plants", "post"), /got post$/),
  refused(
    40501,
    "a long method, of which it shows a part",
    to("/plants", "A".repeat(300)),
    /got A{20,80}…$/,
  ),
  refused(
    40501,
    "another method before no token",
    request("", {
      line: "PUT /plants HTTP/1.1",
      without: ["authorization", "content-type"],
    }),
    /got PUT$/,
  ),

  // The token, before everything that is in the request.
  refused(
    40101,
    "no token",
    request(GOOD, { without: ["authorization"] }),
    NO_TOKEN,
  ),
  refused(40101, "an empty header", authorized(""), NO_TOKEN),
  refused(40101, "a scheme alone", authorized("Bearer"), NO_TOKEN),
  refused(40101, "a scheme and spaces", authorized("Bearer   "), NO_TOKEN),
  refused(40101, "Basic", authorized("Basic dXNlcjpzZWNyZXQ="), NO_TOKEN),
  refused(40101, "a token without a scheme", authorized(TOKEN), NO_TOKEN),
  refused(
    40101,
    "no space after the scheme",
    authorized(`Bearer${TOKEN}`),
    NO_TOKEN,
  ),
  refused(
    40101,
    "a tab after the scheme",
    authorized(`Bearer\t${TOKEN}`),
    NO_TOKEN,
  ),
  refused(
    40101,
    "two credentials in one header",
    authorized(`Bearer ${TOKEN}, Bearer ${TOKEN}`),
    NO_TOKEN,
  ),
  refused(
    40101,
    "two tokens with a comma",
    authorized(`Bearer ${TOKEN},${SECOND_TOKEN}`),
    NO_TOKEN,
  ),
  refused(
    40101,
    "two tokens with a space",
    authorized(`Bearer ${TOKEN} ${SECOND_TOKEN}`),
    NO_TOKEN,
  ),
  refused(
    40101,
    "the right credentials twice",
    authorized(`Bearer ${TOKEN}`, `Bearer ${TOKEN}`),
    NO_TOKEN,
  ),
  refused(
    40101,
    "two headers of two schemes",
    authorized("Basic dXNlcjpzZWNyZXQ=", `Bearer ${TOKEN}`),
    NO_TOKEN,
  ),
  refused(40101, "a quoted token", authorized(`Bearer "${TOKEN}"`), NO_TOKEN),
  refused(
    40101,
    "a named token",
    authorized(`Bearer token=${TOKEN}`),
    NO_TOKEN,
  ),
  refused(40101, "a token beyond ASCII", authorized("Bearer tökén"), NO_TOKEN),
  refused(
    40102,
    "a token with one character wrong",
    authorized(`Bearer ${TOKEN.slice(0, -1)}m`),
    WRONG_TOKEN,
  ),
  refused(
    40102,
    "a part of the token",
    authorized(`Bearer ${TOKEN.slice(0, -1)}`),
    WRONG_TOKEN,
  ),
  refused(
    40102,
    "a token and one character more",
    authorized(`Bearer ${TOKEN}x`),
    WRONG_TOKEN,
  ),
  refused(
    40102,
    "a token with padding of its own",
    authorized(`Bearer ${TOKEN}=`),
    WRONG_TOKEN,
  ),
  refused(
    40102,
    "a token in capitals",
    authorized(`Bearer ${TOKEN.toUpperCase()}`),
    WRONG_TOKEN,
  ),
  refused(
    40102,
    "a token of 8,000 characters",
    authorized(`Bearer ${"t".repeat(8000)}`),
    WRONG_TOKEN,
  ),
  refused(
    40101,
    "no token before a content type, a length and a body that are wrong",
    request("nonsense", {
      without: ["authorization"],
      headers: ["content-type: text/html", "content-length: 99999"],
    }),
    NO_TOKEN,
  ),
  refused(
    40102,
    "a wrong token before a content type, a length and a body that are wrong",
    request("nonsense", {
      headers: [
        "authorization: Bearer guess-of-mine",
        "content-type: text/html",
        "content-length: 99999",
      ],
    }),
    WRONG_TOKEN,
  ),
  refused(
    40102,
    "a wrong token before an id that is taken",
    request('{"id":1,"name":"Other"}', {
      headers: ["authorization: Bearer guess-of-mine"],
    }),
    WRONG_TOKEN,
  ),

  // The content type, before the length.
  refused(
    41501,
    "no content type",
    request(GOOD, { without: ["content-type"] }),
    "Content-Type: expected application/json, got nothing",
  ),
  refused(
    41501,
    "an empty content type",
    typed(""),
    /^Content-Type: expected /,
  ),
  refused(41501, "text/json", typed("text/json"), /got text\/json$/),
  refused(41501, "text/plain", typed("text/plain"), /got text\/plain$/),
  refused(41501, "application/jsonx", typed("application/jsonx"), /jsonx$/),
  refused(
    41501,
    "application/json-seq",
    typed("application/json-seq"),
    /json-seq$/,
  ),
  refused(
    41501,
    "application/problem+json",
    typed("application/problem+json"),
    /\+json$/,
  ),
  refused(
    41501,
    "a form",
    typed("application/x-www-form-urlencoded"),
    /urlencoded$/,
  ),
  refused(
    41501,
    "two types in one header",
    typed("application/json, a/b"),
    /./,
  ),
  refused(
    41501,
    "two content types",
    typed("application/json", "application/json"),
    /./,
  ),
  refused(
    41501,
    "a long content type, of which it shows a part",
    typed("a".repeat(300)),
    /got a{20,80}…$/,
  ),
  refused(
    41501,
    "another content type before a length beyond the limit",
    request("", { headers: ["content-type: a/b", "content-length: 99999"] }),
    /got a\/b$/,
  ),

  // The length, before the body.
  refused(
    41301,
    "a body of 32,769 bytes",
    bodyOf(BODY_BYTES_MAX + 1, 300),
    "body: expected at most 32768 bytes",
  ),
  refused(
    41301,
    "a body of 32,769 bytes in one chunk",
    inChunks(bodyOf(BODY_BYTES_MAX + 1, 300), BODY_BYTES_MAX + 1),
    "body: expected at most 32768 bytes",
  ),
  refused(
    41301,
    "a body of 32,769 bytes in chunks of 7",
    inChunks(bodyOf(BODY_BYTES_MAX + 1, 300), 7),
    "body: expected at most 32768 bytes",
  ),
  refused(
    41301,
    "chunks without end",
    inChunks("x".repeat(1_000_000), 10_000).subarray(0, -5),
    "body: expected at most 32768 bytes",
  ),
  refused(
    41301,
    "a length beyond the limit, before any of the body came",
    request("", { headers: ["content-length: 32769"] }),
    "body: expected at most 32768 bytes",
  ),
  refused(
    41301,
    "a length of 2^60",
    request("", { headers: ["content-length: 1152921504606846976"] }),
    "body: expected at most 32768 bytes",
  ),
  refused(
    41301,
    "a length beyond the limit before bytes that are no JSON",
    "!".repeat(BODY_BYTES_MAX + 1),
    "body: expected at most 32768 bytes",
  ),

  // UTF-8 without repair.
  ...([
    ["a lone continuation byte", [0x80]],
    ["an overlong slash", [0xc0, 0xaf]],
    ["an overlong NUL", [0xe0, 0x80, 0x80]],
    ["the bytes of a surrogate", [0xed, 0xa0, 0x80]],
    ["the bytes of a surrogate pair", [0xed, 0xa0, 0xbd, 0xed, 0xb2, 0x90]],
    ["a character cut off", [0xe2, 0x82]],
    ["a code point above U+10FFFF", [0xf4, 0x90, 0x80, 0x80]],
    ["the byte FF", [0xff]],
    ["U+FFFD beside a byte that is not UTF-8", [0xef, 0xbf, 0xbd, 0xfe]],
  ] satisfies [string, number[]][]).flatMap(([what, bytes]) => [
    refused(
      40001,
      `${what} in a name`,
      withBytes('{"id":2,"name":"a*b"}', ...bytes),
      /^body: expected well-formed UTF-8/,
    ),
    refused(
      40001,
      `${what} after the object`,
      withBytes(`${GOOD}*`, ...bytes),
      /^body: expected well-formed UTF-8/,
    ),
  ]),
  refused(
    40001,
    "bytes that are not UTF-8 in a member that nobody asked for",
    withBytes('{"id":2,"name":"a","more":"*"}', 0xff),
    /UTF-8/,
  ),
  refused(
    40001,
    "UTF-16",
    request(
      new Uint8Array([...GOOD].flatMap((letter) => [letter.charCodeAt(0), 0]))
        .with(1, 0xff),
    ),
    /UTF-8/,
  ),

  // One JSON text.
  refused(40002, "an empty body", "", /^expected a JSON text, got nothing$/),
  refused(
    40002,
    "no length at all",
    request("", { without: ["content-length"] }),
    /got nothing$/,
  ),
  refused(40002, "white space alone", " \r\n\t", /^line 2, column 2: expected/),
  refused(40002, "a byte order mark", `\uFEFF${GOOD}`, /byte order mark/),
  refused(40002, "two JSON texts", `${GOOD}${GOOD}`, /^line 1, column 23: /),
  refused(
    40002,
    "two lines of JSON",
    `${GOOD}\n${GOOD}`,
    /^line 2, column 1: /,
  ),
  refused(40002, "an object cut off", GOOD.slice(0, -1), /the end of the text/),
  refused(40002, "a name cut off", '{"id":2,"name":"Fe', /closing quote/),
  refused(40002, "a comma at the end", '{"id":2,"name":"a",}', /column 20: /),
  refused(40002, "a comment", '{"id":2,/**/"name":"a"}', /column 9: /),
  refused(40002, "single quotes", "{'id':2,'name':'a'}", /column 2: /),
  refused(40002, "names without quotes", '{id:2,name:"a"}', /column 2: /),
  refused(40002, "an id of +1", '{"id":+1,"name":"a"}', /column 7: /),
  refused(40002, "an id of 01", '{"id":01,"name":"a"}', /leading zero/),
  refused(40002, "an id of 1.", '{"id":1.,"name":"a"}', /a digit after "\."/),
  refused(40002, "an id of 1e", '{"id":1e,"name":"a"}', /in the exponent/),
  refused(40002, "an id of 0x10", '{"id":0x10,"name":"a"}', /column 8: /),
  refused(40002, "an id of NaN", '{"id":NaN,"name":"a"}', /column 7: /),
  refused(40002, "an id of Infinity", '{"id":Infinity,"name":"a"}', /7: /),
  refused(40002, "True", '{"id":2,"name":True}', /column 16: /),
  refused(40002, "nothing after a colon", '{"id":,"name":"a"}', /a value/),
  refused(
    40002,
    "a control character",
    '{"id":2,"name":"a\tb"}',
    /18: .*escape/,
  ),
  refused(40002, "a NUL byte", withBytes('{"id":2,"name":"*"}', 0), /U\+0000/),
  refused(40002, "an unknown escape", '{"id":2,"name":"\\x41"}', /backslash/),
  refused(40002, "half an escape", '{"id":2,"name":"\\u00"}', /hexadecimal/),
  refused(
    40002,
    "a fault in a member that nobody asked for",
    '{"id":2,"name":"a",\n"more":[1,2,]}',
    /^line 2, column 13: /,
  ),
  refused(
    40002,
    `nesting of ${DEPTH_MAX + 1} levels`,
    nested(DEPTH_MAX + 1, 2),
    new RegExp(`at most ${DEPTH_MAX} levels`),
  ),
  refused(40002, "30,000 brackets", "[".repeat(30_000), /at most 64 levels/),
  refused(40002, "a form's fields", "id=2&name=Fern", /column 1: /),

  // A NewPlant: what is no object.
  ...[
    ["null", "null"],
    ["a boolean", "true"],
    ["a number", "7"],
    ["a string", '"plant"'],
    ["an array", `[${GOOD}]`],
  ].map(([what = "", body = ""]) =>
    refused(
      40003,
      `${what} in place of the object`,
      body,
      `expected an object with id and name, got ${
        what === "null" ? "null" : what
      }`,
    )
  ),

  // The id.
  refused(40003, "an object without members", "{}", /^id: .* got nothing$/),
  refused(40003, "no id", '{"name":"a"}', `${ID}nothing`),
  refused(40003, "a null id", '{"id":null,"name":"a"}', `${ID}null`),
  refused(40003, "a boolean id", '{"id":true,"name":"a"}', `${ID}a boolean`),
  refused(40003, "an array id", '{"id":[2],"name":"a"}', `${ID}an array`),
  refused(40003, "an object id", '{"id":{},"name":"a"}', `${ID}an object`),
  refused(40003, "a string id", '{"id":"2","name":"a"}', `${ID}a string`),
  refused(40003, "an id in capitals", '{"ID":2,"name":"a"}', `${ID}nothing`),
  refused(40003, "an id given twice", '{"id":2,"id":2,"name":"a"}', /twice$/),
  refused(
    40003,
    "an id given twice, once with escapes",
    '{"id":2,"name":"a","\\u0069\\u0064":3}',
    "id: given twice",
  ),
  ...[
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "99999999999999999999999999",
    "1.5",
    "-0.5",
    "0.99999999999999999999",
    "1.0000000000000000000000001",
    "9223372036854775807.5",
    "1e-1",
    "1e-400",
    "1e19",
    "1e400",
    "-1e400",
    "1e999999999",
    "1e-999999999",
    "9.3e18",
    "1E99999999999999999999999",
  ].map((id) =>
    refused(40003, `an id of ${id}`, `{"id":${id},"name":"a"}`, ID + id)
  ),
  refused(
    40003,
    "an id of 30,000 digits, of which it shows a part",
    `{"id":${"9".repeat(30_000)},"name":"a"}`,
    /got 9{20,80}…$/,
  ),
  refused(
    40003,
    "an id of 30,000 zeros and a one behind the point",
    `{"id":0.${"0".repeat(30_000)}1,"name":"a"}`,
    /got 0\.0{20,80}…$/,
  ),

  // The name and the tag.
  ...["name", "tag"].flatMap((member) => {
    const other = member === "tag" ? '"name":"a",' : "";
    const of = (value: string) => `{"id":2,${other}"${member}":${value}}`;
    return [
      ...[
        ["null", "null"],
        ["a boolean", "false"],
        ["a number", "7"],
        ["an array", '["a"]'],
        ["an object", '{"a":"b"}'],
      ].map(([kind = "", value = ""]) =>
        refused(
          40003,
          `a ${member} that is ${kind}`,
          of(value),
          `${member}: expected a string, got ${kind}`,
        )
      ),
      refused(
        40003,
        `a ${member} with the first half of a pair`,
        of('"a\\ud83cb"'),
        new RegExp(`^${member}: .*unpaired surrogate$`),
      ),
      refused(
        40003,
        `a ${member} with the second half of a pair`,
        of('"\\uDF31"'),
        new RegExp(`^${member}: .*unpaired surrogate$`),
      ),
      refused(
        40003,
        `a ${member} with a pair in the wrong order`,
        of('"\\udf31\\ud83c"'),
        new RegExp(`^${member}: .*unpaired surrogate$`),
      ),
      refused(
        40003,
        `a ${member} given twice`,
        `{"id":2,${other}"${member}":"a","${member}":"a"}`,
        `${member}: given twice`,
      ),
    ];
  }),
  refused(40003, "no name", '{"id":2}', "name: expected a string, got nothing"),
  refused(
    40003,
    "no name but a tag",
    '{"id":2,"tag":"a"}',
    /^name: .*nothing$/,
  ),
  refused(
    40003,
    "a name given twice, once with escapes",
    '{"id":2,"name":"a","n\\u0061me":"a"}',
    "name: given twice",
  ),
  refused(
    40003,
    "the members one level too deep",
    `{"plant":${GOOD}}`,
    `${ID}nothing`,
  ),

  // The store.
  refused(
    40901,
    "another name under an id that is taken",
    '{"id":1,"name":"Fern","tag":"climber"}',
    "id: 1 names another plant already",
  ),
  refused(
    40901,
    "no tag under an id that is taken",
    '{"id":1.0,"name":"Monstera"}',
    "id: 1 names another plant already",
  ),
];

const ACCEPTED: readonly Accepted[] = [
  accepted("a plant without a tag", '{"id":100,"name":"Fern"}', 100n, "Fern"),
  accepted(
    "a plant with a tag",
    '{"id":101,"name":"Fern","tag":"shade"}',
    101n,
    "Fern",
    "shade",
  ),
  accepted("an empty name", '{"id":102,"name":""}', 102n, ""),
  accepted("an empty tag", '{"id":103,"name":"a","tag":""}', 103n, "a", ""),
  accepted("an id of 0", '{"id":0,"name":"a"}', 0n, "a"),
  accepted("a negative id", '{"id":-7,"name":"a"}', -7n, "a"),
  ...[
    ["9223372036854775807", 9223372036854775807n],
    ["-9223372036854775808", -9223372036854775808n],
    ["9223372036854775806", 9223372036854775806n],
    ["9007199254740991", 9007199254740991n],
    ["9007199254740992", 9007199254740992n],
    ["9007199254740993", 9007199254740993n],
    ["-9007199254740993", -9007199254740993n],
    ["1234567890123456789", 1234567890123456789n],
    ["110.0", 110n],
    ["1.11e2", 111n],
    ["112000e-3", 112n],
    ["1e3", 1000n],
    ["1E+4", 10_000n],
    ["9.223372036854775805e18", 9223372036854775805n],
    ["-9.223372036854775807000E+18", -9223372036854775807n],
    [`113.${"0".repeat(5000)}`, 113n],
    [`${"0.".padEnd(400, "0")}114e401`, 114n],
  ].map(([text, id]) =>
    accepted(
      `an id of ${String(text).slice(0, 30)}`,
      `{"id":${text},"name":"a"}`,
      BigInt(id ?? 0),
      "a",
    )
  ),
  accepted(
    "members that nobody asked for",
    '{"more":{"id":9,"name":[null,true,1e5,"x"]},"id":120,"":0,"name":"a","m":1,"m":2}',
    120n,
    "a",
  ),
  accepted(
    "members in another order, with white space",
    '\r\n\t {\n"tag" : "t" ,\t"name":"a", "id" :121 }\n ',
    121n,
    "a",
    "t",
  ),
  accepted(
    "member names with escapes",
    '{"\\u0069d":122,"n\\u0061me":"a","\\u0074ag":"t"}',
    122n,
    "a",
    "t",
  ),
  accepted(
    "every escape",
    '{"id":123,"name":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9"}',
    123n,
    '"\\/\b\f\n\r\tAé',
  ),
  accepted("a NUL escape", '{"id":124,"name":"a\\u0000b"}', 124n, "a\0b"),
  accepted("an emoji", '{"id":125,"name":"🌱","tag":"👩‍🌾"}', 125n, "🌱", "👩‍🌾"),
  accepted(
    "an emoji as a pair",
    '{"id":126,"name":"\\ud83c\\udf31"}',
    126n,
    "🌱",
  ),
  accepted(
    "U+FFFD in a name",
    '{"id":127,"name":"a\uFFFDb"}',
    127n,
    "a\uFFFDb",
  ),
  accepted(
    "U+FFFD as an escape",
    '{"id":128,"name":"\\ufffd"}',
    128n,
    "\uFFFD",
  ),
  accepted(
    "a byte order mark in a name",
    '{"id":129,"name":"\uFEFFa"}',
    129n,
    "\uFEFFa",
  ),
  accepted(
    "letters of many scripts",
    '{"id":130,"name":"Ñ草נצҐ"}',
    130n,
    "Ñ草נצҐ",
  ),
  accepted(
    "a name that is not normalized",
    '{"id":131,"name":"e\u0301"}',
    131n,
    "e\u0301",
  ),
  accepted("a name of white space", '{"id":132,"name":"  "}', 132n, "  "),
  accepted(
    "__proto__ as a member",
    '{"id":133,"name":"a","__proto__":{"tag":"t"}}',
    133n,
    "a",
  ),
  accepted("U+2028 in a name", '{"id":134,"name":"\u2028"}', 134n, "\u2028"),
  accepted(
    `nesting of ${DEPTH_MAX} levels`,
    nested(DEPTH_MAX, 135),
    135n,
    "Nest",
  ),
  accepted(
    "a body of 32,768 bytes",
    bodyOf(BODY_BYTES_MAX, 136),
    136n,
    nameOf(BODY_BYTES_MAX),
  ),
  accepted(
    "a body of 32,768 bytes in one chunk",
    inChunks(bodyOf(BODY_BYTES_MAX, 137), BODY_BYTES_MAX),
    137n,
    nameOf(BODY_BYTES_MAX),
  ),
  accepted(
    "a body of 32,768 bytes in chunks of 7",
    inChunks(bodyOf(BODY_BYTES_MAX, 138), 7),
    138n,
    nameOf(BODY_BYTES_MAX),
  ),
  accepted(
    "chunks of one byte",
    inChunks('{"id":139,"name":"é🌱"}', 1),
    139n,
    "é🌱",
  ),
  accepted(
    "the same Content-Length twice",
    request('{"id":140,"name":"a"}', {
      headers: ["content-length: 21", "content-length: 21"],
    }),
    140n,
    "a",
  ),
  accepted(
    "a client that waits for 100 Continue",
    request('{"id":141,"name":"a"}', { headers: ["expect: 100-continue"] }),
    141n,
    "a",
  ),
  ...[
    "APPLICATION/JSON",
    "Application/Json",
    "application/json;charset=utf-8",
    "application/json; charset=UTF-8; x=y",
    "application/json ;charset=latin1",
    'application/json; x="a, b"',
  ].map((type, i) =>
    accepted(
      `the content type ${type}`,
      request(`{"id":${150 + i},"name":"a"}`, {
        headers: [`content-type: ${type}`],
      }),
      150n + BigInt(i),
      "a",
    )
  ),
  ...["/plants?x=1", "/plants?", "/plants?/plants/", "http://a.test/plants"]
    .map((target, i) =>
      accepted(
        `the target ${target}`,
        request(`{"id":${160 + i},"name":"a"}`, {
          line: `POST ${target} HTTP/1.1`,
        }),
        160n + BigInt(i),
        "a",
      )
    ),
  ...["", "a b", "a/b", "[::", "a:99999", "a@b", "a#b", "a?b", "é", "%"].map(
    (host, i) =>
      accepted(
        `the Host header "${host}"`,
        request(`{"id":${170 + i},"name":"a"}`, { headers: [`host: ${host}`] }),
        170n + BigInt(i),
        "a",
      ),
  ),
  accepted(
    "a request without Host",
    request('{"id":181,"name":"a"}', { without: ["host"] }),
    181n,
    "a",
  ),
  accepted(
    "HTTP/1.0 without Host",
    request('{"id":182,"name":"a"}', {
      line: "POST /plants HTTP/1.0",
      without: ["host"],
    }),
    182n,
    "a",
  ),
  ...[
    `bearer ${TOKEN}`,
    `BEARER ${TOKEN}`,
    `Bearer     ${TOKEN}`,
    `Bearer ${TOKEN}  `,
    `Bearer ${SECOND_TOKEN}`,
    `Bearer ${THIRD_TOKEN}`,
  ].map((credentials, i) =>
    accepted(
      `the credentials "${credentials}"`,
      request(`{"id":${190 + i},"name":"a"}`, {
        headers: [`authorization: ${credentials}`],
      }),
      190n + BigInt(i),
      "a",
    )
  ),
];

/** What the runtime refuses before the program sees it. */
const BARE: readonly (readonly [string, Uint8Array])[] = [
  [
    "two lengths that differ",
    request(GOOD, { headers: ["content-length: 22", "content-length: 21"] }),
  ],
  [
    "two lengths in one header",
    request(GOOD, { headers: ["content-length: 22, 22"] }),
  ],
  ["a negative length", request(GOOD, { headers: ["content-length: -22"] })],
  ["a length with a sign", request(GOOD, { headers: ["content-length: +22"] })],
  [
    "a length beyond 2^64",
    request(GOOD, { headers: ["content-length: 99999999999999999999"] }),
  ],
  [
    "a transfer coding that is not chunked",
    request(GOOD, { headers: ["transfer-encoding: gzip"] }),
  ],
  ["a target that is no path", to("plants")],
  ["the target *", to("*")],
  ["CONNECT", to("/plants", "CONNECT")],
  ["what is not HTTP", toBytes("hello\r\n\r\n")],
  ["the start of TLS", new Uint8Array([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])],
];

/** What some versions of the runtime refuse and others read. */
const DOUBTFUL: readonly (readonly [string, Uint8Array])[] = [
  [
    "a length beside chunks",
    request(chunked(GOOD, 5), {
      headers: ["content-length: 22", "transfer-encoding: chunked"],
    }),
  ],
  ["two Host headers", request(GOOD, { headers: ["host: a", "host: b"] })],
  [
    "an offer to change to HTTP/2, as Java's HttpClient makes it",
    request(GOOD, {
      headers: [
        "connection: Upgrade, HTTP2-Settings",
        "upgrade: h2c",
        "http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
      ],
    }),
  ],
];

let directory: TemporaryDirectory;
let program: Program;
let kv: Deno.Kv;

Deno.test.beforeAll(async () => {
  directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  program = await Program.start(["--kv", file], {
    env: { ACCESS_TOKEN: TOKENS.join(",") },
  });
  const { id, plant } = FIRST;
  const reply = await program.create(
    `{"id":${id},"name":"${plant.name}",` +
      `"tag":"${plant.tag}"}`,
  );
  assert.equal(reply.status, 200, await reply.text());
  // The same file beside the running program, to see what it stored.
  kv = await Deno.openKv(file);
});

Deno.test.afterAll(async () => {
  // A start that failed is reported for itself.
  if (kv === undefined) return;
  kv.close();
  const { status, stderr } = await program.stop();
  directory[Symbol.dispose]();
  assert.equal(status, 0, stderr);
  assert.doesNotMatch(stderr, /error:|fault/);
});

/** All that is stored. */
function stored(): Promise<Deno.KvEntry<unknown>[]> {
  return Array.fromAsync(kv.list({ prefix: [] }));
}

/** The credentials in the bytes of a request, and those that are accepted. */
function secrets(sent: Uint8Array): string[] {
  const head = new TextDecoder().decode(sent).split("\r\n\r\n")[0] ?? "";
  const given = [...head.matchAll(/^authorization: \S+ +(\S{4,})/gim)];
  return [...TOKENS, ...given.map(([, token = ""]) => token)];
}

/** Asserts what holds for every refusal of the program. */
function assertRefusal(
  reply: Reply | undefined,
  { sends, error, says }: Refused,
): void {
  assert.ok(reply, "the connection ended without a reply");
  const { status, headers, text } = reply;
  assert.equal(status, Math.floor(error / 100), text);
  assert.equal(headers.get("content-type"), "application/json");
  const body = JSON.parse(text);
  assert.deepEqual(Object.keys(body), ["error", "message"]);
  assert.equal(body.error, error, text);
  if (typeof says === "string") assert.equal(body.message, says);
  else assert.match(body.message, says);

  assert.equal(
    headers.get("www-authenticate"),
    error === 40101
      ? 'Bearer realm="plants"'
      : error === 40102
      ? 'Bearer realm="plants", error="invalid_token"'
      : null,
  );
  assert.equal(headers.get("allow"), error === 40501 ? "POST" : null);
  assert.equal(headers.get("retry-after"), null);

  const whole = `${text} ${[...headers].join()}`;
  for (const secret of secrets(sends)) {
    assert.ok(!whole.includes(secret), `${whole} holds a token`);
  }
  assert.ok(body.message.length <= 200, "the message is long");
  const [, ...bodyParts] = new TextDecoder().decode(sends).split("\r\n\r\n");
  const sentBody = bodyParts.join("\r\n\r\n");
  if (sentBody.length > 10) {
    assert.ok(!body.message.includes(sentBody), "the message holds the body");
  }
}

for (const row of REFUSED) {
  Deno.test(`POST /plants refuses ${row.what} with ${row.error}`, async () => {
    const before = await stored();
    assertRefusal(await exchange(program.port, row.sends), row);
    assert.deepEqual(await stored(), before);
  });
}

for (const { what, sends, id, plant } of ACCEPTED) {
  Deno.test(`POST /plants accepts ${what}`, async () => {
    const before = await stored();
    const reply = await exchange(program.port, sends);
    assert.equal(reply?.status, 200, reply?.text);
    assert.equal(reply.headers.get("content-type"), "application/json");
    assert.equal(reply.text, JSON.stringify(plant));
    const entry = await kv.get(["plants", id]);
    assert.deepEqual(entry.key, ["plants", id]);
    assert.deepEqual(entry.value, plant);
    assert.equal((await stored()).length, before.length + 1);
  });
}

for (const [what, sends] of BARE) {
  Deno.test(`the runtime answers ${what} with a bare 400`, async () => {
    const before = await stored();
    const reply = await exchange(program.port, sends);
    assert.equal(reply?.status, 400, reply?.text);
    assert.equal(reply.text, "");
    assert.deepEqual(await stored(), before);
  });
}

Deno.test("HEAD /plants gets the status and headers of 405 alone", async () => {
  using wire = await Wire.connect(program.port);
  await wire.send(request("", {
    line: "HEAD /plants HTTP/1.1",
    headers: ["connection: close"],
  }));
  const reply = await wire.reply({ isToHead: true });
  assert.equal(reply?.status, 405);
  assert.equal(reply.headers.get("allow"), "POST");
  assert.equal(await wire.rest(), "");
});

Deno.test("POST on a path to read from is refused with 40501", async () => {
  const before = await stored();
  for (const target of ["/", "/?/plants", "http://plants.test?x=/plants"]) {
    const reply = await exchange(program.port, to(target));
    assert.equal(reply?.status, 405, reply?.text);
    assert.equal(JSON.parse(reply.text).error, 40501);
    assert.equal(reply.headers.get("allow"), "GET, HEAD");
  }
  assert.deepEqual(await stored(), before);
});

Deno.test("a body cut off by a client that stops sending is refused", async () => {
  const before = await stored();
  for (
    const sends of [
      request(GOOD, { headers: ["content-length: 23"] }),
      request(GOOD.slice(0, -1), { headers: ["content-length: 22"] }),
      request("", { headers: ["content-length: 22"] }),
      inChunks(GOOD, 10).subarray(0, -1),
      inChunks(GOOD, 10).subarray(0, -5),
      inChunks(GOOD, 10).subarray(0, -9),
    ]
  ) {
    using wire = await Wire.connect(program.port);
    await wire.send(sends);
    await wire.closeWrite();
    const row = refused(40002, "", sends, /^body: expected all of it/);
    assertRefusal(await wire.reply(), row);
    assert.equal(await wire.rest(), "");
  }
  assert.deepEqual(await stored(), before);
});

Deno.test("a refused body is not read to its end", async () => {
  const chunk = new Uint8Array(64 * 1024);
  for (
    const differences of [
      { line: "POST /nowhere HTTP/1.1" },
      { without: ["authorization"] },
      {},
    ]
  ) {
    using wire = await Wire.connect(program.port);
    const headers = ["content-length: 1000000000"];
    await wire.send(request("", { headers, ...differences }));
    assert.ok(await wire.reply() !== undefined);
    // Until the service hangs up, which a billion bytes would not reach.
    let sent = 0;
    while (await wire.send(chunk) && sent < 1e8) sent += chunk.length;
    assert.ok(sent < 1e8, `${sent} bytes were taken`);
  }
});

Deno.test("a client that leaves in mid-body stores nothing", async () => {
  const before = await stored();
  for (
    const sends of [
      request(GOOD, { headers: ["content-length: 23"] }),
      inChunks(GOOD, 10).subarray(0, -5),
      request(GOOD).subarray(0, 40),
    ]
  ) {
    using wire = await Wire.connect(program.port);
    await wire.send(sends);
  }
  // The program lives, and answers after it saw the others leave.
  const reply = await exchange(program.port, request(GOOD.slice(1)));
  assert.equal(reply?.status, 400);
  assert.deepEqual(await stored(), before);
});

Deno.test("a chunk size that is none ends the connection", async () => {
  const before = await stored();
  const sends = request("zz\r\n", { headers: ["transfer-encoding: chunked"] });
  const reply = await exchange(program.port, sends);
  assert.notEqual(reply?.status, 200);
  assert.deepEqual(await stored(), before);
});

Deno.test("what follows a body is a request of its own", async () => {
  const before = await stored();
  using wire = await Wire.connect(program.port);
  await wire.send(joined(
    request('{"id":200,"name":"a"}'),
    request(`${GOOD}\r\n\r\n`, { headers: ["content-length: 5"] }),
  ));
  assert.equal((await wire.reply())?.status, 200);
  assert.match((await wire.reply())?.text ?? "", /"error":40002/);
  assert.equal((await wire.reply())?.status, 400);
  assert.equal((await stored()).length, before.length + 1);
});

Deno.test("a connection serves on after every kind of refusal", async () => {
  using wire = await Wire.connect(program.port);
  for (
    const [sends, status] of [
      [to("/ferns"), 404],
      [to("/plants", "PUT"), 405],
      [authorized("Bearer guess-of-mine"), 401],
      [typed("text/plain"), 415],
      [withBytes('{"id":2,"name":"*"}', 0xff), 400],
      [request("[]"), 400],
      [request('{"id":1,"name":"Fern"}'), 409],
      [request('{"id":201,"name":"a"}'), 200],
    ] satisfies [Uint8Array, number][]
  ) {
    await wire.send(sends);
    const reply = await wire.reply();
    assert.equal(reply?.status, status, reply?.text);
  }
});

Deno.test("a header of 70,000 bytes is refused", async () => {
  const before = await stored();
  const sends = authorized(`Bearer ${"t".repeat(70_000)}`);
  const reply = await exchange(program.port, sends);
  assert.ok(reply?.status === 400 || reply?.status === 401, reply?.text);
  assert.deepEqual(await stored(), before);
});

for (const [what, sends] of DOUBTFUL) {
  Deno.test(`${what} is refused or stores what was sent, no more`, async () => {
    const before = await stored();
    const reply = await exchange(program.port, sends);
    if (reply?.status === 200) {
      assert.deepEqual((await kv.get(["plants", 2n])).value, { name: "Fern" });
    } else {
      assert.equal(reply?.status, 400, reply?.text);
      assert.deepEqual(await stored(), before);
    }
  });
}

Deno.test("the table has at least 110 requests", () => {
  const rows = REFUSED.length + ACCEPTED.length + BARE.length;
  assert.ok(rows >= 110, `it has ${rows}`);
});
