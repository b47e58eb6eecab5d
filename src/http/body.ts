import { ApiError } from "../api_errors.ts";
import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import { BODY_BYTES_MAX } from "../limits.ts";

/** The client disconnected before the end of its body. */
const DISCONNECTED = new ApiError(
  "notJson",
  "body: expected all of it, got a part",
);

const TOO_LARGE = new ApiError("bodyTooLarge");

/** The bytes of a body, or why there are none. */
type BytesOrRefusal = Uint8Array | ApiError;

/** A body that is arriving. */
interface PendingBody {
  /** When its headers arrived. */
  readonly startMs: number;
  readonly resolve: (result: BytesOrRefusal) => void;
}

/**
 * Reads the bodies of requests, bounded in bytes and in time. If a body is refused
 * before its end, the bytes that have arrived stay in memory until the client
 * disconnects.
 */
export class BodyReader {
  readonly #clock: Clock;
  /** The bodies that have neither arrived nor been refused. */
  readonly #pending = new Set<PendingBody>();

  constructor({ clock = SYSTEM_CLOCK }: { readonly clock?: Clock } = {}) {
    this.#clock = clock;
  }

  /**
   * Reads the body of a request that has just arrived.
   * @returns the bytes, or why there are none: the body is too large, too slow or
   * not complete, or {@link refuseAll} was called
   */
  read(request: Request): Promise<BytesOrRefusal> {
    const length = contentLength(request);
    if (length !== undefined && length > BODY_BYTES_MAX) {
      return Promise.resolve(TOO_LARGE);
    }
    return new Promise((resolve, reject) => {
      const body = { startMs: this.#clock(), resolve };
      this.#pending.add(body);
      const receiving = length === undefined
        ? receiveChunks(request, () => this.#pending.has(body))
        : receiveAll(request, length);
      receiving.then((result) => this.#settle(body, result), reject);
    });
  }

  /** Refuses the bodies that have been arriving for this time. Call it regularly. */
  expire(timeoutMs: number): void {
    const latestMs = this.#clock() - timeoutMs;
    for (const body of this.#pending) {
      if (body.startMs > latestMs) continue;
      this.#settle(body, new ApiError("bodyTimedOut", `${timeoutMs / 1000}`));
    }
  }

  /** Refuses every body that is still arriving, because the service stops. */
  refuseAll(): void {
    for (const body of this.#pending) {
      this.#settle(body, new ApiError("shuttingDown"));
    }
  }

  /** Resolves the promise of a body; the first result counts. */
  #settle(body: PendingBody, result: BytesOrRefusal): void {
    if (this.#pending.delete(body)) body.resolve(result);
  }
}

/**
 * Receives a body of unknown length. It copies the bytes as they arrive, because a
 * chunk of one byte may occupy 64 KiB.
 * @param isPending returns whether the result still counts
 */
async function receiveChunks(
  request: Request,
  isPending: () => boolean,
): Promise<BytesOrRefusal> {
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
    if (end > BODY_BYTES_MAX || !isPending()) {
      // The runtime then receives the rest, so that the client sees the reply.
      reader.cancel().catch(() => {});
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
 * Receives a body of known length, to its end even if it is refused meanwhile.
 * Measured: in chunks, a create costs 4 µs more, a fifth of its time on the JavaScript
 * thread.
 */
async function receiveAll(
  request: Request,
  length: number,
): Promise<BytesOrRefusal> {
  try {
    const bytes = await request.bytes();
    // If a client resets an HTTP/2 stream without an error, the runtime takes the
    // body as complete.
    return bytes.length < length ? DISCONNECTED : bytes;
  } catch (error) {
    // Deno throws several classes when a connection ends or breaks the protocol. A
    // TypeError is a bug in this code.
    if (error instanceof TypeError) throw error;
    return DISCONNECTED;
  }
}

/** Returns the length of a body if it is known in advance. */
function contentLength({ headers }: Request): number | undefined {
  const length = headers.get("content-length") ?? "";
  return /^\d+$/.test(length) ? Number(length) : undefined;
}
