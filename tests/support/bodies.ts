/** Bodies of requests, as clients send them. */

type Bytes = Uint8Array<ArrayBuffer>;

/**
 * Returns a stream of parts, which are read one by one, and what its reader does.
 * @param end how it behaves after the last part
 */
export function streamOf(
  parts: Iterable<string | Bytes>,
  end: "ends" | "fails" | "hangs" = "ends",
) {
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
      else if (end === "fails") {
        controller.error(new Deno.errors.Http("cut off"));
      } else return new Promise(() => {});
    },
    cancel: () => cancelled.resolve(),
  }, { highWaterMark: 0 });
  return {
    stream,
    /** Returns how many bytes were read. */
    readBytes: () => readBytes,
    /** Resolves when all parts were read and the next one is requested. */
    exhausted: exhausted.promise,
    /** Adds a part to a stream that hangs. */
    send: (part: Bytes) => controller?.enqueue(part),
    /** Resolves when the reader cancels the stream. */
    cancelled: cancelled.promise,
  };
}

/** Returns a request with a body, and a Content-Length if one is given. */
export function bodyRequest(
  body: BodyInit | null,
  contentLength?: number | string,
): Request {
  const request = new Request("http://plants.test", { method: "POST", body });
  if (contentLength !== undefined) {
    request.headers.set("content-length", `${contentLength}`);
  }
  return request;
}
