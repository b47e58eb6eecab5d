import assert from "node:assert/strict";
import { Log, type LogFormat } from "../../src/telemetry/log.ts";

/** Returns a log and the texts that it writes. */
function logOf(format: LogFormat): { log: Log; written: string[] } {
  const written: string[] = [];
  return { log: new Log(format, (text) => written.push(text)), written };
}

/** Returns one entry of a JSON log, without its time. */
function parseEntry(written: readonly string[]): Record<string, unknown> {
  const [line = "", ...others] = written;
  assert.deepEqual(others, []);
  assert.ok(!line.includes("\n"), line);
  const { time, ...entry } = JSON.parse(line);
  assert.equal(new Date(time).toISOString(), time);
  return entry;
}

class Bug extends Error {
  override readonly name = "Bug";
}

function throwBug(): never {
  throw new Bug("the\nmessage", { cause: new Error("the cause") });
}

function makeBug(): unknown {
  try {
    throwBug();
  } catch (error) {
    return error;
  }
}

Deno.test("Log writes an entry as time, level and message in text", () => {
  const { log, written } = logOf("text");
  log.info("started", "listening", { port: 8000 });
  log.warn("new store", "the store is new");
  log.error("failed", "the store fails: disk full");
  assert.equal(written.length, 3);
  assert.match(written[0] ?? "", /^\d{4}-\d\d-\d\dT[\d:.]+Z info: listening$/);
  assert.match(written[1] ?? "", /Z warning: the store is new$/);
  assert.match(written[2] ?? "", /Z error: the store fails: disk full$/);
});

Deno.test("Log writes an entry as one object with its fields in JSON", () => {
  const { log, written } = logOf("json");
  log.warn("started", 'listening on "::1"', { port: 8000, isTls: false });
  assert.deepEqual(parseEntry(written), {
    level: "warning",
    event: "started",
    message: 'listening on "::1"',
    port: 8000,
    isTls: false,
  });
});

Deno.test("Log writes each line with its level for systemd in the format of the journal", () => {
  const { log, written } = logOf("journal");
  log.info("started", "listening", { port: 8000 });
  log.warn("new store", "the store is new");
  log.internalError(makeBug());
  const [info, warning, error = ""] = written;
  assert.equal(info, "<6>listening");
  assert.equal(warning, "<4>the store is new");
  const [first = "", ...stack] = error.split("\n");
  assert.match(first, /^<3>internal error [\da-f-]{36}$/);
  assert.equal(stack[0], "<3>Bug: the");
  for (const line of stack) assert.match(line, /^<3>/);
});

Deno.test("Log puts a message with control characters on one line", () => {
  const { log, written } = logOf("text");
  log.error("failed", "\x1b[31mred\r\n  next ");
  const [line = ""] = written;
  assert.ok(line.endsWith(String.raw` error: \u{1b}[31mred next`), line);
});

Deno.test("Log.internalError() writes the stack and the cause in text", () => {
  const { log, written } = logOf("text");
  const id = log.internalError(makeBug());
  const [text = ""] = written;
  assert.match(id, /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
  const [first = "", ...stack] = text.split("\n");
  assert.match(first, new RegExp(`Z error: internal error ${id}$`));
  assert.match(stack.join("\n"), /^Bug: the\nmessage\n {4}at throwBug .*:\d+/);
  assert.match(stack.join("\n"), /cause.*: Error: the cause\n/i);
});

Deno.test("Log.internalError() writes the stack as a field in JSON", () => {
  const { log, written } = logOf("json");
  const id = log.internalError(makeBug());
  const { stack, ...entry } = parseEntry(written);
  assert.deepEqual(entry, {
    level: "error",
    event: "internal error",
    message: `internal error ${id}`,
    id,
  });
  assert.match(String(stack), /^Bug: the\nmessage\n {4}at throwBug .*:\d+/);
});

Deno.test("Log.internalError() accepts whatever was thrown, and returns another id each time", () => {
  const values = [undefined, null, "text", 7n, Symbol("s"), { a: [1] }];
  const ids = values.map((value) => {
    const { log, written } = logOf("json");
    const id = log.internalError(value);
    assert.equal(parseEntry(written).stack, Deno.inspect(value));
    return id;
  });
  assert.equal(new Set(ids).size, values.length);
});
