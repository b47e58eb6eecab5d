import assert from "node:assert/strict";
import http2 from "node:http2";
import type { NewPlant } from "../../src/plant/plant.ts";
import { type Answer, toBody } from "./load.ts";
import { TOKEN } from "./program.ts";

/** Maximum concurrent requests that the service accepts on one connection. */
const STREAMS_MAX = 200;

const encoder = new TextEncoder();

/**
 * HTTP/2 connections: thousands of concurrent requests on few sockets. Dispose
 * of them before the service stops: Deno 2.9 can abort when it receives GOAWAY.
 */
export class Http2Clients implements Disposable {
  readonly #sessions: http2.ClientHttp2Session[];
  #next = 0;

  /** @param requests maximum number of requests at the same time */
  constructor(origin: string, requests: number) {
    this.#sessions = Array.from(
      { length: Math.ceil(requests / STREAMS_MAX) },
      () => http2.connect(origin),
    );
  }

  /** Sends a create and reads its reply; rejects if the connection is lost. */
  send(newPlant: NewPlant): Promise<Answer> {
    const body = encoder.encode(toBody(newPlant));
    const session = this.#sessions[this.#next++ % this.#sessions.length];
    assert.ok(session !== undefined);
    const stream = session.request({
      ":method": "POST",
      ":path": "/plants",
      "authorization": `Bearer ${TOKEN}`,
      "content-type": "application/json",
      "content-length": String(body.length),
    });
    return new Promise((resolve, reject) => {
      let status = 0;
      let text = "";
      stream.on("response", (headers) => {
        status = Number(headers[":status"]);
        assert.equal("retry-after" in headers, status === 503);
      });
      stream.setEncoding("utf8");
      stream.on("data", (chunk: string) => text += chunk);
      stream.on("end", () => {
        const error = Number(/"error":(\d+)/.exec(text)?.[1] ?? 0);
        resolve(error === 0 ? { status } : { status, error });
      });
      stream.on("error", reject);
      stream.end(body);
    });
  }

  [Symbol.dispose](): void {
    for (const session of this.#sessions) session.destroy();
  }
}
