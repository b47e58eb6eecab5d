import assert from "node:assert/strict";
import { BodyReader, decodeUtf8, discardBody } from "../../src/http/body.ts";
import { ERROR, Refusal } from "../../src/errors.ts";
import {
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
} from "../../src/limits.ts";

/** A body that gives its parts and then ends, fails, or does neither. */
function streamOf(
  parts: readonly (string | Uint8Array)[],
  end: "ends" | "fails" | "hangs" = "ends",
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let next = 0;
  return new ReadableStream({
    async pull(controller) {
      const part = parts[next++];
      if (part !== undefined) {
        controller.enqueue(
          typeof part === "string"
            ? new TextEncoder().encode(part)
            : new Uint8Array(part),
        );
      } else if (end === "ends") controller.close();
      else if (end === "fails") controller.error(new TypeError("cut off"));
      else await new Promise(() => {});
    },
  }, { highWaterMark: 0 });
}

function requestOf(body: BodyInit | null, length?: number): Request {
  return new Request("http://plants.test/", {
    method: "POST",
    body,
    ...(length !== undefined && {
      headers: { "content-length": `${length}` },
    }),
  });
}

async function errorOf(read: Promise<string | Refusal>): Promise<number> {
  const outcome = await read;
  assert.ok(outcome instanceof Refusal, `no refusal: ${outcome}`);
  return outcome.error;
}

/** Runs something while the clock says that so much time has passed. */
function later(ms: number, run: () => void): void {
  const { now } = performance;
  const nowMs = performance.now();
  performance.now = () => nowMs + ms;
  try {
    run();
  } finally {
    performance.now = now;
  }
}

for (const length of [0, 1, BODY_BYTES_MAX - 1, BODY_BYTES_MAX]) {
  Deno.test(`read() gives a body of ${length} bytes`, async () => {
    const text = "x".repeat(length);
    const bodies = new BodyReader();
    assert.equal(await bodies.read(requestOf(text, length)), text);
    assert.equal(await bodies.read(requestOf(text)), text);
    assert.equal(
      await bodies.read(
        requestOf(streamOf([...text.match(/.{1,999}/g) ?? []])),
      ),
      text,
    );
  });
}

Deno.test("read() gives nothing where there is no body", async () => {
  assert.equal(await new BodyReader().read(requestOf(null)), "");
});

Deno.test("read() refuses a body of one byte too many", async () => {
  const text = "x".repeat(BODY_BYTES_MAX + 1);
  const bodies = new BodyReader();
  for (
    const request of [
      requestOf(text, text.length),
      requestOf(text),
      requestOf(streamOf([text])),
      requestOf(streamOf([text.slice(1), "x"])),
      requestOf(streamOf(Array.from(text))),
    ]
  ) assert.equal(await errorOf(bodies.read(request)), ERROR.BODY_TOO_LARGE);
});

/** A body without end, and what becomes of it. */
function endlessBody(): {
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Fulfilled on cancel, with how many bytes were taken. */
  readonly cancelled: Promise<number>;
  readonly takenBytes: () => number;
} {
  const cancelled = Promise.withResolvers<number>();
  let bytes = 0;
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      controller.enqueue(new Uint8Array(1024));
      bytes += 1024;
    },
    cancel: () => cancelled.resolve(bytes),
  }, { highWaterMark: 0 });
  return { stream, cancelled: cancelled.promise, takenBytes: () => bytes };
}

Deno.test("read() refuses a body without end, and takes a bounded part of it", async () => {
  const { stream, cancelled } = endlessBody();
  const read = new BodyReader().read(requestOf(stream));
  assert.equal(await errorOf(read), ERROR.BODY_TOO_LARGE);
  assert.equal(
    await cancelled,
    BODY_BYTES_MAX + 1024 + BODY_DISCARD_BYTES_MAX,
  );
});

Deno.test("read() refuses a length beyond the limit without reading", async () => {
  const { stream, takenBytes } = endlessBody();
  const read = new BodyReader().read(requestOf(stream, BODY_BYTES_MAX + 1));
  assert.equal(await errorOf(read), ERROR.BODY_TOO_LARGE);
  assert.equal(takenBytes(), 0);
});

for (const length of [undefined, BODY_BYTES_MAX + 1]) {
  Deno.test(`discardBody() takes a bounded part of a body with the length ${length}`, async () => {
    const { stream, cancelled } = endlessBody();
    discardBody(requestOf(stream, length));
    assert.equal(await cancelled, BODY_DISCARD_BYTES_MAX);
  });
}

Deno.test("discardBody() gives a body that trickles up when its time is up", async () => {
  const { now } = performance;
  // Whole numbers, or the steps would not add up to exactly the bound.
  let nowMs = 0;
  performance.now = () => nowMs;
  let chunks = 0;
  const cancelled = Promise.withResolvers<void>();
  const trickle = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      chunks++;
      nowMs += 1000;
      controller.enqueue(new Uint8Array(1));
    },
    cancel: () => cancelled.resolve(),
  }, { highWaterMark: 0 });
  try {
    discardBody(requestOf(trickle));
    await cancelled.promise;
  } finally {
    performance.now = now;
  }
  assert.equal(chunks, BODY_MS_MAX / 1000);
});

Deno.test("discardBody() leaves a short body to the runtime", async () => {
  const { stream, takenBytes } = endlessBody();
  const request = requestOf(stream, BODY_BYTES_MAX);
  discardBody(request);
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.equal(takenBytes(), 0);
  assert.equal(request.bodyUsed, false);
});

Deno.test("discardBody() is quiet where there is no body, or it breaks off", async () => {
  discardBody(requestOf(null));
  discardBody(requestOf(streamOf(["{}"], "fails")));
  await new Promise((resolve) => setTimeout(resolve, 0));
});

Deno.test("read() refuses a body that is cut off", async () => {
  const bodies = new BodyReader();
  const long = requestOf(streamOf(["{}"], "fails"), 100);
  assert.equal(await errorOf(bodies.read(long)), ERROR.NOT_JSON);
  const chunks = requestOf(streamOf(["{}"], "fails"));
  assert.equal(await errorOf(bodies.read(chunks)), ERROR.NOT_JSON);
});

for (const length of [undefined, 100]) {
  const what = length === undefined ? "in chunks" : "with a length";

  Deno.test(`sweep() refuses a body ${what} when its time is up, not before`, async () => {
    const bodies = new BodyReader();
    const read = bodies.read(requestOf(streamOf(["{"], "hangs"), length));
    let isOpen = true;
    read.then(() => isOpen = false);
    bodies.sweep();
    later(BODY_MS_MAX - 1000, () => bodies.sweep());
    await new Promise((resolve) => setTimeout(resolve, 0));
    assert.ok(isOpen);
    later(BODY_MS_MAX, () => bodies.sweep());
    assert.equal(await errorOf(read), ERROR.BODY_TIMED_OUT);
  });

  Deno.test(`refuseAll() refuses a body ${what} that still arrives`, async () => {
    const bodies = new BodyReader();
    const read = bodies.read(requestOf(streamOf(["{"], "hangs"), length));
    const refusal = new Refusal(ERROR.SHUTTING_DOWN, "stopping");
    bodies.refuseAll(refusal);
    assert.equal(await read, refusal);
  });
}

Deno.test("sweep() and refuseAll() leave a body alone that has arrived", async () => {
  const bodies = new BodyReader();
  assert.equal(await bodies.read(requestOf("{}", 2)), "{}");
  later(BODY_MS_MAX, () => bodies.sweep());
  bodies.refuseAll(new Refusal(ERROR.SHUTTING_DOWN, "stopping"));
  assert.equal(await bodies.read(requestOf("[]", 2)), "[]");
});

Deno.test("read() puts a character together that came in two parts", async () => {
  const [a, b, c, d] = new TextEncoder().encode("🌱");
  const parts = [a, b, c, d].map((byte) => Uint8Array.of(byte ?? 0));
  const bodies = new BodyReader();
  assert.equal(await bodies.read(requestOf(streamOf(parts))), "🌱");
});

Deno.test("decodeUtf8() gives well-formed text as it is, U+FFFD and marks too", () => {
  for (
    const text of [
      "",
      "a",
      "é",
      "草",
      "🌱",
      "a\uFFFDb",
      "\uFFFD",
      "\uFEFFa",
      "\0",
      "\uFFFF",
    ]
  ) assert.equal(decodeUtf8(new TextEncoder().encode(text)), text);
});

for (
  const bytes of [
    ...[[0x80], [0xbf], [0xff], [0xfe], [0xc0, 0x80], [0xc1, 0xbf]],
    ...[[0xc3], [0xe2, 0x82], [0xf0, 0x9f, 0x8c], [0xc3, 0x28]],
    ...[[0xe0, 0x9f, 0xbf], [0xf0, 0x8f, 0xbf, 0xbf], [0xf4, 0x90, 0x80, 0x80]],
    ...[[0xed, 0xa0, 0x80], [0xed, 0xbf, 0xbf], [0xf8, 0x88, 0x80, 0x80, 0x80]],
    [0xef, 0xbf, 0xbd, 0x80],
  ]
) {
  const hex = new Uint8Array(bytes).toHex();
  Deno.test(`decodeUtf8() refuses the bytes ${hex}`, () => {
    const found = decodeUtf8(Uint8Array.of(0x61, ...bytes, 0x61));
    assert.ok(found instanceof Refusal, `no refusal: ${found}`);
    assert.equal(found.error, ERROR.NOT_UTF8);
  });
}
