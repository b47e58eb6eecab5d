import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../clock.ts";
import { ApiError } from "../api_errors.ts";
import {
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
} from "../limits.ts";
import { decodeUtf8 } from "../plant/utf8.ts";

/** The client disconnected before the end of its body. */
export const DISCONNECTED = new ApiError(
  "notJson",
  "body: expected all of it, got a part",
);

const TOO_LARGE = new ApiError("bodyTooLarge");

/** The bytes of a body, or why there are none. */
type Received = Uint8Array | ApiError;

/** Ends the arrival of a body; only the first call has an effect. */
type Settle = (received: Received) => void;

/** Reads the bodies of requests, bounded in bytes and in time. */
export class BodyReader {
  readonly #clock: Clock;
  /** The bodies that are still arriving, with their deadlines. */
  readonly #arriving = new Map<Settle, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Reads the body of a request that has just arrived, as text.
   * @returns the text, or why there is none: the body is too large, too slow, not
   * complete or not UTF-8, or {@link refuseAll} was called
   */
  read(request: Request): Promise<string | ApiError> {
    const length = contentLength(request);
    if (length !== undefined && length > BODY_BYTES_MAX) {
      return Promise.resolve(TOO_LARGE);
    }
    return new Promise((resolve, reject) => {
      const settle: Settle = (received) => {
        this.#arriving.delete(settle);
        resolve(toText(received));
      };
      this.#arriving.set(settle, this.#clock() + BODY_MS_MAX);
      if (length === undefined) {
        const isArriving = () => this.#arriving.has(settle);
        this.#receiveChunks(request, isArriving).then(settle, reject);
        return;
      }
      // A tenth faster than reading chunks. It is not ended by a deadline: until
      // the client disconnects, the runtime keeps what has arrived, at most this
      // length. It takes the body of an HTTP/2 stream that the client resets
      // without an error as complete.
      request.bytes().then(
        (bytes) => settle(bytes.length < length ? DISCONNECTED : bytes),
        // Deno has several classes of errors for a connection that ended, and for
        // one that is no HTTP any more. A mistake here would be a TypeError.
        (error) =>
          error instanceof TypeError ? reject(error) : settle(DISCONNECTED),
      );
    });
  }

  /**
   * Discards the body of a request that was refused without reading it. The
   * runtime would read a body of any length to its end, or answer with
   * `Connection: close`, which is acceptable only for a short body.
   */
  discard(request: Request): void {
    const isShort = (contentLength(request) ?? Infinity) <= BODY_BYTES_MAX;
    // The length first: bodyUsed makes the runtime take the body.
    if (isShort || request.bodyUsed) return;
    const reader = request.body?.getReader();
    if (reader !== undefined) this.#discardRest(reader);
  }

  /** Refuses the bodies that have reached their deadline. Call it regularly. */
  expire(): void {
    const nowMs = this.#clock();
    for (const [settle, deadlineMs] of this.#arriving) {
      if (deadlineMs <= nowMs) settle(new ApiError("bodyTimedOut"));
    }
  }

  /** Refuses every body that is still arriving. */
  refuseAll(refusal: ApiError): void {
    for (const settle of this.#arriving.keys()) settle(refusal);
  }

  /**
   * Receives a body of unknown length. It copies the bytes as they arrive,
   * because a chunk of one byte may occupy 64 KiB.
   */
  async #receiveChunks(
    request: Request,
    isArriving: () => boolean,
  ): Promise<Received> {
    let bytes = new Uint8Array();
    let length = 0;
    const reader = request.body?.getReader();
    if (reader === undefined) return bytes;
    for (;;) {
      let chunk: Uint8Array | undefined;
      try {
        ({ value: chunk } = await reader.read());
      } catch {
        return DISCONNECTED;
      }
      if (chunk === undefined) return bytes.subarray(0, length);
      const end = length + chunk.length;
      // A body that was refused already is not kept; its result has no effect.
      if (end > BODY_BYTES_MAX || !isArriving()) {
        this.#discardRest(reader);
        return TOO_LARGE;
      }
      if (end > bytes.length) {
        const room = Math.min(2 * end, BODY_BYTES_MAX);
        bytes = new Uint8Array(bytes.buffer.transfer(room));
      }
      bytes.set(chunk, length);
      length = end;
    }
  }

  /**
   * Discards a bounded part of the rest while the client sends it, so that most
   * clients finish and see the reply, and then closes the connection. The reply
   * must be sent first: the runtime reads a body that is cancelled earlier to its
   * end.
   */
  async #discardRest(
    reader: ReadableStreamDefaultReader<Uint8Array>,
  ): Promise<void> {
    try {
      let bytes = 0;
      while (bytes < BODY_DISCARD_BYTES_MAX) {
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

function toText(received: Received): string | ApiError {
  return received instanceof Uint8Array
    ? decodeUtf8(received) ?? new ApiError("notUtf8")
    : received;
}

/** Returns the length of a body if it is known in advance. */
function contentLength({ headers }: Request): number | undefined {
  const length = headers.get("content-length") ?? "";
  return /^\d+$/.test(length) ? Number(length) : undefined;
}
