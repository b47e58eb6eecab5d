import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";
import {
  BODIES_RESERVED_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
} from "../limits.ts";
import { decodeUtf8 } from "../plant/utf8.ts";

/** The outcome of a body whose client stopped sending before its end. */
export type Incomplete = "incomplete";

/** The bytes of a body, or why there are none. */
type Received = Uint8Array | ApiError | Incomplete;

/** A body that is still arriving. */
interface Arrival {
  readonly deadlineMs: number;
  /** Bytes that are reserved for it. */
  reservedBytes: number;
  /** Only the first call has an effect. */
  readonly settle: (outcome: Received) => void;
}

/** Reads the bodies of requests, bounded in bytes and in time. */
export class BodyReader {
  readonly #nowMs: () => number;
  readonly #arriving = new Set<Arrival>();
  #reservedBytes = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Bytes reserved for all bodies that are arriving or in use. */
  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  /**
   * Reads the body of a request, and uses its text. Its bytes are reserved until
   * then.
   *
   * @returns the result of `use`, or a refusal: the body is too large, too slow
   * or not UTF-8, too many bytes are reserved, or {@link refuseAll} was called
   */
  async read<Result>(
    request: Request,
    use: (text: string) => Result | Promise<Result>,
  ): Promise<Result | ApiError | Incomplete> {
    const { promise: received, resolve: settle } = Promise.withResolvers<
      Received
    >();
    const deadlineMs = this.#nowMs() + BODY_MS_MAX;
    const arrival: Arrival = { deadlineMs, reservedBytes: 0, settle };
    this.#arriving.add(arrival);
    try {
      this.#settle(request, arrival);
      const bytes = await received;
      this.#arriving.delete(arrival);
      if (!(bytes instanceof Uint8Array)) return bytes;
      const text = decodeUtf8(bytes);
      return text === undefined ? new ApiError("notUtf8") : await use(text);
    } finally {
      this.#reservedBytes -= arrival.reservedBytes;
    }
  }

  /**
   * Discards the body of a request that was refused without reading it. The
   * runtime would read a body of any length to its end, which is acceptable only
   * for a short one.
   */
  discard(request: Request): void {
    if (request.bodyUsed) return;
    if ((contentLength(request) ?? Infinity) <= BODY_BYTES_MAX) return;
    const reader = request.body?.getReader();
    if (reader !== undefined) this.#discardRest(reader);
  }

  /** Refuses the bodies that have reached their deadline. Call it regularly. */
  expire(): void {
    const nowMs = this.#nowMs();
    for (const arrival of this.#arriving) {
      if (arrival.deadlineMs <= nowMs) {
        arrival.settle(new ApiError("bodyTimedOut"));
      }
    }
  }

  /** Refuses every body that is still arriving. */
  refuseAll(refusal: ApiError): void {
    for (const arrival of this.#arriving) arrival.settle(refusal);
  }

  /** Receives a body, and settles its arrival. */
  async #settle(request: Request, arrival: Arrival): Promise<void> {
    const length = contentLength(request);
    try {
      const received = length === undefined
        ? await this.#receiveChunks(request, arrival)
        : this.#reserve(length, arrival) ?? await request.bytes();
      // The runtime takes the body of an HTTP/2 stream that the client resets
      // without an error as complete.
      const isIncomplete = received instanceof Uint8Array &&
        received.length < (length ?? 0);
      arrival.settle(isIncomplete ? "incomplete" : received);
    } catch {
      arrival.settle("incomplete");
    }
  }

  /**
   * Receives a body of unknown length. It copies the bytes as they arrive,
   * because a chunk of one byte may occupy 64 KiB.
   */
  async #receiveChunks(request: Request, arrival: Arrival): Promise<Received> {
    let bytes = new Uint8Array();
    const reader = request.body?.getReader();
    if (reader === undefined) return bytes;
    for (;;) {
      const { value: chunk } = await reader.read();
      const length = arrival.reservedBytes;
      if (chunk === undefined) return bytes.subarray(0, length);
      const refusal = this.#reserve(chunk.length, arrival);
      if (refusal !== undefined) {
        this.#discardRest(reader);
        return refusal;
      }
      if (arrival.reservedBytes > bytes.length) {
        bytes = new Uint8Array(
          bytes.buffer.transfer(2 * arrival.reservedBytes),
        );
      }
      bytes.set(chunk, length);
    }
  }

  /** Reserves bytes for a body, unless they exceed a bound. */
  #reserve(bytes: number, arrival: Arrival): ApiError | Incomplete | undefined {
    // The request is answered already, so any outcome ends its body.
    if (!this.#arriving.has(arrival)) return "incomplete";
    if (arrival.reservedBytes + bytes > BODY_BYTES_MAX) {
      return new ApiError("bodyTooLarge");
    }
    if (this.#reservedBytes + bytes > BODIES_RESERVED_BYTES_MAX) {
      return new ApiError("queueFull");
    }
    arrival.reservedBytes += bytes;
    this.#reservedBytes += bytes;
    return undefined;
  }

  /**
   * Discards a bounded part of the rest, so that most clients finish sending
   * and see the reply, and then closes the connection. The reply must be sent
   * first: the runtime reads a body that is cancelled earlier to its end.
   */
  async #discardRest(
    reader: ReadableStreamDefaultReader<Uint8Array>,
  ): Promise<void> {
    const untilMs = this.#nowMs() + BODY_MS_MAX;
    try {
      let bytes = 0;
      while (bytes < BODY_DISCARD_BYTES_MAX && this.#nowMs() < untilMs) {
        const { value } = await reader.read();
        if (value === undefined) return;
        bytes += value.length;
      }
      await sleep(0);
      await reader.cancel();
    } catch {
      // The client has disconnected.
    }
  }
}

/**
 * Returns the length of a body if it is known in advance. Transfer-Encoding
 * overrides Content-Length (RFC 9112, section 6.3): Deno 2.6 passes both headers
 * on and decodes the chunks.
 */
function contentLength({ headers }: Request): number | undefined {
  const length = headers.get("content-length");
  if (length === null || headers.has("transfer-encoding")) return undefined;
  return /^\d+$/.test(length) ? Number(length) : undefined;
}
