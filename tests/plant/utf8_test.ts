import assert from "node:assert/strict";
import { decodeUtf8 } from "../../src/plant/utf8.ts";

const encoder = new TextEncoder();

Deno.test("decodeUtf8() returns well-formed text unchanged", () => {
  const texts = [
    "",
    "a",
    "é",
    "草",
    "🌱",
    "a\ufffdb",
    "\ufffd",
    "\0",
    "\uffff",
  ];
  for (
    const text of [...texts, "\u{10ffff}", "\ud7ff\ue000", "x".repeat(9999)]
  ) {
    assert.equal(decodeUtf8(encoder.encode(text)), text);
  }
});

Deno.test("decodeUtf8() keeps byte order marks", () => {
  for (const text of ["\ufeff", "\ufeffa", "\ufeff\ufeffa", "a\ufeff"]) {
    assert.equal(decodeUtf8(encoder.encode(text)), text);
  }
});

for (
  const [problem, sequences] of [
    ["a continuation byte alone", [[0x80], [0xbf], [0xef, 0xbf, 0xbd, 0x80]]],
    ["a byte that UTF-8 never has", [[0xff], [0xfe]]],
    ["a sequence without its end", [
      ...[[0xc3], [0xe2, 0x82], [0xf0, 0x9f, 0x8c], [0xc3, 0x28]],
    ]],
    ["an overlong sequence", [
      ...[[0xc0, 0x80], [0xc1, 0xbf], [0xe0, 0x9f, 0xbf]],
      [0xf0, 0x8f, 0xbf, 0xbf],
    ]],
    ["a surrogate", [[0xed, 0xa0, 0x80], [0xed, 0xbf, 0xbf]]],
    ["a code point above U+10FFFF", [
      [0xf4, 0x90, 0x80, 0x80],
      [0xf8, 0x88, 0x80, 0x80, 0x80],
    ]],
  ] as const
) {
  Deno.test(`decodeUtf8() returns undefined for ${problem}`, () => {
    for (const bytes of sequences) {
      const hex = new Uint8Array(bytes).toHex();
      assert.equal(decodeUtf8(Uint8Array.of(...bytes)), undefined, hex);
      assert.equal(
        decodeUtf8(Uint8Array.of(0x61, ...bytes, 0x61)),
        undefined,
        hex,
      );
      // An error leaves no state behind.
      assert.equal(decodeUtf8(encoder.encode("ab")), "ab", hex);
    }
  });
}
