type Bytes = Uint8Array<ArrayBuffer>;

/** How the stream of a body behaves after its last part. */
export type StreamEnd = "ends" | "fails" | "hangs";

/** The stream of a body, and what a reader does with it. */
export interface ObservedStream {
  readonly stream: ReadableStream<Bytes>;
  /** Bytes that were read. */
  readonly readBytes: () => number;
  /** Resolves when all parts were read and the next one is requested. */
  readonly exhausted: Promise<void>;
  /** Adds a part to a stream that hangs. */
  readonly send: (part: Bytes) => void;
  /** Resolves when the reader cancels the stream. */
  readonly cancelled: Promise<void>;
}

/** Returns a stream of parts, which are read one by one. */
export function streamOf(
  parts: Iterable<string | Bytes>,
  end: StreamEnd = "ends",
): ObservedStream {
  const encoder = new TextEncoder();
  const iterator = parts[Symbol.iterator]();
  const exhausted = Promise.withResolvers<void>();
  const cancelled = Promise.withResolvers<void>();
  let controller: ReadableStreamDefaultController<Bytes> | undefined;
  let readBytes = 0;
  const stream = new ReadableStream<Bytes>({
    start(started) {
      controller = started;
    },
    pull(controller) {
      const { value: part } = iterator.next();
      if (part !== undefined) {
        const bytes = typeof part === "string" ? encoder.encode(part) : part;
        readBytes += bytes.length;
        controller.enqueue(bytes);
        return;
      }
      exhausted.resolve();
      if (end === "ends") controller.close();
      else if (end === "fails") controller.error(new TypeError("cut off"));
      else return new Promise(() => {});
    },
    cancel: () => cancelled.resolve(),
  }, { highWaterMark: 0 });
  return {
    stream,
    readBytes: () => readBytes,
    exhausted: exhausted.promise,
    send: (part) => controller?.enqueue(part),
    cancelled: cancelled.promise,
  };
}

/** Returns an endless stream, in parts of some bytes. */
export function endlessStream(partBytes: number): ObservedStream {
  const part = new Uint8Array(partBytes);
  return streamOf(function* () {
    for (;;) yield part;
  }());
}

/** Returns a request with a body, and a Content-Length if one is given. */
export function requestOf(
  body: BodyInit | null,
  contentLength?: number,
): Request {
  return new Request("http://plants.test/plants", {
    method: "POST",
    body,
    ...(contentLength !== undefined && {
      headers: { "content-length": String(contentLength) },
    }),
  });
}
