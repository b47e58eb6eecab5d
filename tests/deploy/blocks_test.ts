/** The blocks of the pages for operators are those that the tests run. */
import assert from "node:assert/strict";
import {
  CONTAINER,
  HANDBOOK,
  KV_CONNECT,
  LITESTREAM,
  PROMETHEUS,
} from "../support/handbook.ts";
import { blocksIn, filesIn, read } from "../support/readme.ts";

for (
  const [page, of, blocks] of [
    ["README.md", "HANDBOOK", HANDBOOK],
    ["container/README.md", "CONTAINER", CONTAINER],
    ["kv-connect/README.md", "KV_CONNECT", KV_CONNECT],
    ["litestream/README.md", "LITESTREAM", LITESTREAM],
    ["prometheus/README.md", "PROMETHEUS", PROMETHEUS],
  ] as const
) {
  Deno.test(`every block of deploy/${page} has a name, and a test uses it`, () => {
    const printed = blocksIn(`src/deploy/${page}`).map(({ text }) => text);
    assert.deepEqual(Object.values(blocks).sort(), printed.sort());
    const paths = [...filesIn("tests/end-to-end/"), "tests/support/machine.ts"];
    const tests = paths.map(read).join("");
    for (const name of Object.keys(blocks)) {
      const use = new RegExp(`\\b${of}\\.${name}\\b`);
      assert.match(tests, use, `no test uses ${of}.${name}`);
    }
  });
}
