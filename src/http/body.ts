import { setTimeout as sleep } from "node:timers/promises";
import { ErrorReply, errorReply } from "../errors.ts";
import {
  BODIES_HELD_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
} from "../limits.ts";
import { decodeUtf8 } from "../plant/utf8.ts";

const TOO_LARGE = new ErrorReply("bodyTooLarge");
const TIMED_OUT = new ErrorReply("bodyTimedOut");
const NOT_UTF8 = new ErrorReply("notUtf8");
const QUEUE_FULL = new ErrorReply("queueFull");
const INCOMPLETE = errorReply(
  "notJson",
  "body: expected all of it, got a part",
);

/** A body, which counts as held until {@link BodyReader.release}. */
export interface Body {
  readonly text: string;
  readonly bytes: number;
}

/** A body that is still arriving. */
interface Arrival {
  readonly deadlineMs: number;
  /** Bytes counted as held. */
  bytes: number;
  /** Only the first call has an effect. A refusal releases the bytes. */
  readonly settle: (outcome: Body | ErrorReply) => void;
}

type BytesReader = ReadableStreamDefaultReader<Uint8Array>;

/** Reads the bodies of requests, bounded in bytes and in time. */
export class BodyReader {
  readonly #nowMs: () => number;
  readonly #arriving = new Set<Arrival>();
  #heldBytes = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Bytes of all bodies that are arriving or not yet released. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Reads the body of a request. The caller must release it. Never rejects.
   *
   * @returns the body, or a refusal: it is too large, too slow, incomplete or
   * not UTF-8, too many bytes are held, or {@link refuseAll} was called
   */
  read(request: Request): Promise<Body | ErrorReply> {
    const { promise, resolve } = Promise.withResolvers<Body | ErrorReply>();
    const arrival: Arrival = {
      deadlineMs: this.#nowMs() + BODY_MS_MAX,
      bytes: 0,
      settle: (outcome) => {
        if (!this.#arriving.delete(arrival)) return;
        if (outcome instanceof ErrorReply) this.release(arrival);
        resolve(outcome);
      },
    };
    this.#arriving.add(arrival);
    const length = contentLength(request);
    const refusal = this.#hold(length ?? 0, arrival);
    if (refusal !== undefined) {
      arrival.settle(refusal);
      return promise;
    }
    // The runtime enforces the Content-Length.
    const received = length === undefined
      ? this.#receiveChunks(request, arrival)
      : request.bytes();
    received.then(
      (bytes) => arrival.settle(toBody(bytes, arrival)),
      () => arrival.settle(INCOMPLETE),
    );
    return promise;
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

  /** Stops counting the bytes of a body as held. */
  release({ bytes }: { readonly bytes: number }): void {
    this.#heldBytes -= bytes;
  }

  /** Refuses the bodies that have reached their deadline. Call it regularly. */
  expire(): void {
    const nowMs = this.#nowMs();
    for (const arrival of this.#arriving) {
      if (arrival.deadlineMs <= nowMs) arrival.settle(TIMED_OUT);
    }
  }

  /** Refuses every body that is still arriving. */
  refuseAll(refusal: ErrorReply): void {
    for (const arrival of this.#arriving) arrival.settle(refusal);
  }

  /**
   * Receives a body of unknown length, and counts its bytes as they arrive. It
   * copies them, because a chunk of one byte may occupy 64 KiB.
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
      const length = arrival.bytes;
      if (chunk === undefined) return bytes.subarray(0, length);
      const refusal = this.#hold(chunk.length, arrival);
      if (refusal !== undefined) {
        this.#discardRest(reader);
        return refusal;
      }
      if (arrival.bytes > bytes.length) {
        bytes = new Uint8Array(bytes.buffer.transfer(2 * arrival.bytes));
      }
      bytes.set(chunk, length);
    }
  }

  /**
   * Discards a bounded part of the rest, so that most clients finish sending
   * and see the reply, and then closes the connection. The reply must be sent
   * first: the runtime reads a body that is cancelled earlier to its end.
   */
  async #discardRest(reader: BytesReader): Promise<void> {
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

  /** Counts bytes as held, unless they exceed a bound. */
  #hold(bytes: number, arrival: Arrival): ErrorReply | undefined {
    if (!this.#arriving.has(arrival)) return INCOMPLETE;
    if (arrival.bytes + bytes > BODY_BYTES_MAX) return TOO_LARGE;
    if (this.#heldBytes + bytes > BODIES_HELD_BYTES_MAX) return QUEUE_FULL;
    arrival.bytes += bytes;
    this.#heldBytes += bytes;
    return undefined;
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

function toBody(
  received: Uint8Array | ErrorReply,
  { bytes }: Arrival,
): Body | ErrorReply {
  if (received instanceof ErrorReply) return received;
  const text = decodeUtf8(received);
  return text === undefined ? NOT_UTF8 : { text, bytes };
}
