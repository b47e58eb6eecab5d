import { setTimeout as sleep } from "node:timers/promises";
import { ErrorReply, errorReply } from "../errors.ts";
import {
  BODIES_HELD_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
} from "../limits.ts";
import { decodeUtf8 } from "../plant/utf8.ts";

/** The refusal of a body beyond {@link BODIES_HELD_BYTES_MAX}. */
export const BODIES_FULL: ErrorReply = new ErrorReply("queueFull");

/** The refusal of a body whose client stopped sending before its end. */
export const INCOMPLETE: ErrorReply = errorReply(
  "notJson",
  "body: expected all of it, got a part",
);

/** A body that is still arriving. */
interface Arrival {
  readonly deadlineMs: number;
  /** Bytes counted as held. */
  bytes: number;
  /** Only the first call has an effect. */
  readonly settle: (outcome: Uint8Array | ErrorReply) => void;
}

/** Reads the bodies of requests, bounded in bytes and in time. */
export class BodyReader {
  readonly #nowMs: () => number;
  readonly #arriving = new Set<Arrival>();
  #heldBytes = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Bytes of all bodies that are arriving or in use. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Reads the body of a request, and uses its text. Its bytes count as held
   * until then.
   *
   * @returns the result of `use`, or a refusal: the body is too large, too slow,
   * incomplete or not UTF-8, too many bytes are held, or {@link refuseAll} was
   * called
   */
  async read<Result>(
    request: Request,
    use: (text: string) => Result | Promise<Result>,
  ): Promise<Result | ErrorReply> {
    const { promise: received, resolve: settle } = Promise.withResolvers<
      Uint8Array | ErrorReply
    >();
    const deadlineMs = this.#nowMs() + BODY_MS_MAX;
    const arrival: Arrival = { deadlineMs, bytes: 0, settle };
    this.#arriving.add(arrival);
    try {
      this.#receive(request, arrival).then(settle, () => settle(INCOMPLETE));
      const bytes = await received;
      this.#arriving.delete(arrival);
      if (bytes instanceof ErrorReply) return bytes;
      const text = decodeUtf8(bytes);
      return text === undefined ? new ErrorReply("notUtf8") : await use(text);
    } finally {
      this.#heldBytes -= arrival.bytes;
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
        arrival.settle(new ErrorReply("bodyTimedOut"));
      }
    }
  }

  /** Refuses every body that is still arriving. */
  refuseAll(refusal: ErrorReply): void {
    for (const arrival of this.#arriving) arrival.settle(refusal);
  }

  /** Receives a body, and counts its bytes. */
  #receive(
    request: Request,
    arrival: Arrival,
  ): Promise<Uint8Array | ErrorReply> {
    const length = contentLength(request);
    if (length === undefined) return this.#receiveChunks(request, arrival);
    // The runtime enforces the Content-Length.
    const refusal = this.#hold(length, arrival);
    return refusal === undefined ? request.bytes() : Promise.resolve(refusal);
  }

  /**
   * Receives a body of unknown length. It copies the bytes as they arrive,
   * because a chunk of one byte may occupy 64 KiB.
   */
  async #receiveChunks(
    request: Request,
    arrival: Arrival,
  ): Promise<Uint8Array | ErrorReply> {
    let bytes = new Uint8Array();
    const reader = request.body?.getReader();
    if (reader === undefined) return bytes;
    for (;;) {
      const { value: chunk } = await reader.read();
      const kept = arrival.bytes;
      if (chunk === undefined) return bytes.subarray(0, kept);
      const refusal = this.#hold(chunk.length, arrival);
      if (refusal !== undefined) {
        this.#discardRest(reader);
        return refusal;
      }
      if (arrival.bytes > bytes.length) {
        bytes = new Uint8Array(bytes.buffer.transfer(2 * arrival.bytes));
      }
      bytes.set(chunk, kept);
    }
  }

  /** Counts bytes as held, unless they exceed a bound. */
  #hold(bytes: number, arrival: Arrival): ErrorReply | undefined {
    // The request is answered already, so any error ends its body.
    if (!this.#arriving.has(arrival)) return INCOMPLETE;
    if (arrival.bytes + bytes > BODY_BYTES_MAX) {
      return new ErrorReply("bodyTooLarge");
    }
    if (this.#heldBytes + bytes > BODIES_HELD_BYTES_MAX) return BODIES_FULL;
    arrival.bytes += bytes;
    this.#heldBytes += bytes;
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
