import { setTimeout as sleep } from "node:timers/promises";
import { ERROR, Refusal } from "./errors.ts";
import {
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
} from "./limits.ts";

const TOO_LARGE = new Refusal(
  ERROR.BODY_TOO_LARGE,
  `body: expected at most ${BODY_BYTES_MAX} bytes`,
);

const TIMED_OUT = new Refusal(
  ERROR.BODY_TIMED_OUT,
  `body: expected all of it within ${BODY_MS_MAX / 1000} s`,
);

const NOT_UTF8 = new Refusal(
  ERROR.NOT_UTF8,
  "body: expected well-formed UTF-8, got bytes that are not",
);

const CUT_OFF = new Refusal(
  ERROR.NOT_JSON,
  "body: expected all of it, got a part",
);

type BodyBytes = ReadableStreamDefaultReader<Uint8Array>;

/** A body that is still arriving. */
interface Reading {
  readonly deadlineMs: number;
  readonly refuse: (refusal: Refusal) => void;
}

/** Reads the bodies of requests, bounded in bytes and in time. */
export class BodyReader {
  readonly #arriving = new Set<Reading>();

  /**
   * The body of a request as text. The bytes are counted while they arrive,
   * whatever Content-Length says; it only serves to refuse early.
   *
   * @returns the text, or why there is none: too large, too slow, not UTF-8,
   * cut off, or {@link refuseAll} was called meanwhile. Never rejects.
   */
  read(request: Request): Promise<string | Refusal> {
    const length = Number(request.headers.get("content-length") ?? NaN);
    if (length > BODY_BYTES_MAX) return Promise.resolve(TOO_LARGE);
    return new Promise((resolve) => {
      const reading: Reading = {
        deadlineMs: performance.now() + BODY_MS_MAX,
        refuse: (refusal) => {
          this.#arriving.delete(reading);
          resolve(refusal);
        },
      };
      this.#arriving.add(reading);
      // The runtime holds a body to its Content-Length.
      const arrival = length <= BODY_BYTES_MAX
        ? request.bytes()
        : readBounded(request);
      arrival.then((bytes) => {
        this.#arriving.delete(reading);
        resolve(bytes instanceof Refusal ? bytes : decodeUtf8(bytes));
      }, () => reading.refuse(CUT_OFF));
    });
  }

  /** Gives up bodies that did not arrive in time. */
  sweep(): void {
    const nowMs = performance.now();
    for (const reading of this.#arriving) {
      if (reading.deadlineMs <= nowMs) reading.refuse(TIMED_OUT);
    }
  }

  /** Gives up every body that is still arriving, because the service stops. */
  refuseAll(refusal: Refusal): void {
    for (const reading of this.#arriving) reading.refuse(refusal);
  }
}

/**
 * Sees to the body of a request that was refused without reading it. The
 * runtime would read it to its end, were it a gigabyte; a short one it may.
 */
export function discardBody(request: Request): void {
  const length = Number(request.headers.get("content-length") ?? NaN);
  if (length <= BODY_BYTES_MAX || request.bodyUsed) return;
  const reader = request.body?.getReader();
  if (reader !== undefined) discardRest(reader);
}

/**
 * Reads on for a while, so that most clients are done with sending and see the
 * reply, and then ends the connection. Not before the reply has left: a body
 * cancelled sooner is read to its end by the runtime.
 */
async function discardRest(reader: BodyBytes): Promise<void> {
  const untilMs = performance.now() + BODY_MS_MAX;
  try {
    let bytes = 0;
    while (bytes < BODY_DISCARD_BYTES_MAX && performance.now() < untilMs) {
      const { value } = await reader.read();
      if (value === undefined) return;
      bytes += value.length;
    }
    await sleep(0);
    await reader.cancel();
  } catch {
    // The client left.
  }
}

async function readBounded(request: Request): Promise<Uint8Array | Refusal> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = request.body?.getReader();
  for (;;) {
    const chunk = await reader?.read();
    if (chunk?.value === undefined) return concatenate(chunks, length);
    length += chunk.value.length;
    if (length > BODY_BYTES_MAX) {
      if (reader !== undefined) discardRest(reader);
      return TOO_LARGE;
    }
    chunks.push(chunk.value);
  }
}

function concatenate(
  chunks: readonly Uint8Array[],
  length: number,
): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

/** Bytes as text, or a refusal where they are not well-formed UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | Refusal {
  // The lenient decoder takes a third of the time of the strict one, and puts
  // U+FFFD in the place of what is not UTF-8; only then a second look is due.
  const text = lenient.decode(bytes);
  if (!text.includes("\uFFFD")) return text;
  try {
    return strict.decode(bytes);
  } catch {
    return NOT_UTF8;
  }
}
