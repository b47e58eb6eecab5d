import assert from "node:assert/strict";
import { serialize } from "node:v8";
import { STOP_RETRY_MS } from "../src/api_errors.ts";
import { LINE_BYTES_MAX } from "../src/console/lines.ts";
import { LAST_REPLIES_MS_MAX } from "../src/commands/serve.ts";
import {
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  SWEEP_MS,
  WRITE_MS_MAX,
} from "../src/limits.ts";
import { samples } from "../src/reference/samples.ts";
import { COMMIT_CHARS_MAX } from "../src/store/committer.ts";

/** Returns how long the samples of the API reference wait for a reply, by language. */
function replyMsMax(): Readonly<Record<string, number>> {
  const { curl = "", TypeScript = "", Python = "" } = samples("http://x.test");
  const numberIn = (sample: string, pattern: RegExp) =>
    Number(pattern.exec(sample)?.[1]?.replace("_", ""));
  return {
    curl: 1_000 * numberIn(curl, /--max-time (\d+)/),
    TypeScript: numberIn(TypeScript, /AbortSignal\.timeout\(([\d_]+)\)/),
    Python: 1_000 * numberIn(Python, /timeout=(\d+)/),
  };
}

/** Deno KV's limit for a value. */
const VALUE_BYTES_MAX = 65_536;

Deno.test("every plant of an import fits a commit", () => {
  // One that does not fit would wait for ever.
  assert.ok(LINE_BYTES_MAX <= COMMIT_CHARS_MAX);
});

Deno.test("a drain and the wait of a client are longer than what they include", () => {
  // Clients retry after a drain: a commit that starts with it, and its reply.
  assert.ok(WRITE_MS_MAX + SWEEP_MS + LAST_REPLIES_MS_MAX <= STOP_RETRY_MS);
  // Clients wait longer for a reply than the body and the commit may take.
  for (const [language, waitMs] of Object.entries(replyMsMax())) {
    assert.ok(
      BODY_MS_MAX + WRITE_MS_MAX < waitMs,
      `${language}: ${waitMs} ms`,
    );
  }
});

Deno.test("the plant of the largest body fits a value of Deno KV", () => {
  // A "ж" has two bytes in a body, and makes V8 store every character of its string
  // with two bytes.
  const longest = (bytes: number) => "ж".padEnd(bytes - 1, "a");
  const nameBytes = BODY_BYTES_MAX - '{"id":0,"name":""}'.length;
  const bothBytes = nameBytes - ',"tag":""'.length;
  const plants = [
    { name: longest(nameBytes) },
    { name: longest(bothBytes / 2), tag: longest(bothBytes / 2) },
    { name: longest(bothBytes - 2), tag: "ж" },
    { name: "ж", tag: longest(bothBytes - 2) },
  ];
  for (const plant of plants) {
    assert.ok(serialize(plant).length <= VALUE_BYTES_MAX);
  }
});
