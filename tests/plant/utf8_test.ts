import assert from "node:assert/strict";
import { decodeUtf8 } from "../../src/plant/utf8.ts";

const encoder = new TextEncoder();

Deno.test("decodeUtf8() returns well-formed text unchanged, with byte order marks", () => {
  for (
    const text of [
      ...["", "a", "é", "草", "🌱", "a\ufffdb", "\0", "\uffff", "\u{10ffff}"],
      ...["\ud7ff\ue000", "\ufeff", "\ufeffa", "\ufeff\ufeffa", "a\ufeff"],
    ]
  ) assert.equal(decodeUtf8(encoder.encode(text)), text);
});

Deno.test("decodeUtf8() returns undefined for bytes that are not UTF-8, and keeps no state", () => {
  for (
    const bytes of [
      // A continuation byte alone, and bytes that UTF-8 never has.
      ...[[0x80], [0xef, 0xbf, 0xbd, 0x80], [0xff]],
      // A sequence without its end.
      ...[[0xc3], [0xe2, 0x82], [0xf0, 0x9f, 0x8c], [0xc3, 0x28]],
      // An overlong sequence, a surrogate, and a code point above U+10FFFF.
      ...[[0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80]],
    ]
  ) {
    const hex = new Uint8Array(bytes).toHex();
    for (const whole of [bytes, [0x61, ...bytes, 0x61]]) {
      assert.equal(decodeUtf8(Uint8Array.from(whole)), undefined, hex);
    }
    assert.equal(decodeUtf8(encoder.encode("ab")), "ab", hex);
  }
});
