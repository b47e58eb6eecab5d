import assert from "node:assert/strict";
import { Log, type LogFormat } from "../../src/telemetry/log.ts";

function logOf(format: LogFormat) {
  const written: string[] = [];
  return { log: new Log(format, (entry) => written.push(entry)), written };
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

function makeBug(): Error {
  return new RangeError("the\nmessage", { cause: new Error("the cause") });
}

Deno.test("Log writes an entry as time, level and message on one line in text", () => {
  const { log, written } = logOf("text");
  log.info("started", "listening", { port: 8000 });
  log.warn("new store", "the store is new");
  log.error("failed", "\x1b[31mred\r\n  next ");
  assert.equal(written.length, 3);
  assert.match(written[0] ?? "", /^\d{4}-\d\d-\d\dT[\d:.]+Z info: listening$/);
  assert.match(written[1] ?? "", /Z warning: the store is new$/);
  assert.match(written[2] ?? "", /Z error: \\u\{1b\}\[31mred next$/);
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
  assert.equal(stack[0], "<3>RangeError: the");
  for (const line of stack) assert.match(line, /^<3>/);
});

const STACK = /^RangeError: the\nmessage\n {4}at makeBug .*:\d+/;

Deno.test("Log.internalError() writes the stack and the cause, in JSON as a field", () => {
  const text = logOf("text");
  const id = text.log.internalError(makeBug());
  assert.match(id, /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
  const [first = "", ...stack] = text.written.join().split("\n");
  assert.match(first, new RegExp(`Z error: internal error ${id}$`));
  assert.match(stack.join("\n"), STACK);
  assert.match(stack.join("\n"), /cause.*: Error: the cause\n/i);

  const json = logOf("json");
  const other = json.log.internalError(makeBug());
  assert.notEqual(other, id);
  const { stack: field, ...entry } = parseEntry(json.written);
  const message = `internal error ${other}`;
  const event = "internal error";
  assert.deepEqual(entry, { level: "error", event, message, id: other });
  assert.match(String(field), STACK);
});
