import { Buffer } from "node:buffer";
import { WAIT_MS_MAX } from "./waiting.ts";

/** The token of a create. */
export const TOKEN = "a-token-of-the-tests";

/** A reply as received. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  /** The body, as text. */
  readonly text: string;
}

/** How a request differs from an ordinary create. */
export interface Differences {
  readonly line?: string;
  /** Header lines, which replace ordinary ones of the same name. */
  readonly headers?: readonly string[];
  /** Names of ordinary headers to leave out, in lower case. */
  readonly without?: readonly string[];
}

const END_OF_HEAD = "\r\n\r\n";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const latin1 = new TextDecoder("latin1");

/** Encodes a text as UTF-8; bytes stay as they are. */
export function toBytes(text: string | Uint8Array): Uint8Array {
  return typeof text === "string" ? encoder.encode(text) : text;
}

/** Concatenates texts and bytes. */
export function concatenate(
  ...parts: (string | Uint8Array)[]
): Uint8Array<ArrayBuffer> {
  return Buffer.concat(parts.map(toBytes));
}

/** Returns the bytes of a create, with a Content-Length unless one is given. */
export function createBytes(
  body: string | Uint8Array,
  {
    line = "POST /plants HTTP/1.1",
    headers = [],
    without = [],
  }: Differences = {},
): Uint8Array {
  const names = headers.map((header) => header.split(":")[0]?.toLowerCase());
  const isChunked = names.includes("transfer-encoding");
  const ordinary = [
    "host: plants.test",
    `authorization: Bearer ${TOKEN}`,
    "content-type: application/json",
    ...(isChunked ? [] : [`content-length: ${toBytes(body).length}`]),
  ].filter((header) => {
    const [name = ""] = header.split(":");
    return !names.includes(name) && !without.includes(name);
  });
  const head = [line, ...ordinary, ...headers].join("\r\n") + END_OF_HEAD;
  return concatenate(head, body);
}

/** Encodes a body in chunks of a size (RFC 9112, section 7.1). */
export function chunked(body: string | Uint8Array, size: number): Uint8Array {
  const bytes = toBytes(body);
  const parts: (string | Uint8Array)[] = [];
  for (let from = 0; from < bytes.length; from += size) {
    const chunk = bytes.subarray(from, from + size);
    parts.push(`${chunk.length.toString(16)}\r\n`, chunk, "\r\n");
  }
  return concatenate(...parts, `0${END_OF_HEAD}`);
}

/** A TCP connection, which can send anything. */
export class Wire implements Disposable {
  readonly #connection: Deno.TcpConn;
  readonly #timeout: NodeJS.Timeout;
  #received: Uint8Array = new Uint8Array();

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
    // Longer than the wait for a program that hangs until its clients leave.
    this.#timeout = setTimeout(() => connection.close(), 2 * WAIT_MS_MAX);
  }

  static async connect(port: number): Promise<Wire> {
    return new Wire(await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  /** Sends bytes, and reports whether all were accepted. */
  async send(text: string | Uint8Array): Promise<boolean> {
    const bytes = toBytes(text);
    try {
      for (let sent = 0; sent < bytes.length;) {
        sent += await this.#connection.write(bytes.subarray(sent));
      }
      return true;
    } catch (error) {
      if (!isDisconnect(error)) throw error;
      return false;
    }
  }

  /** Reads the next reply; `undefined` if the connection ended first. */
  async reply(): Promise<Reply | undefined> {
    let head = -1;
    while ((head = this.#text().indexOf(END_OF_HEAD)) === -1) {
      if (!await this.#receive()) return undefined;
    }
    const [line = "", ...lines] = this.#text().slice(0, head).split("\r\n");
    const headers = new Headers(lines.map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    }));
    const from = head + END_OF_HEAD.length;
    const to = from + Number(headers.get("content-length") ?? "0");
    while (this.#received.length < to) {
      if (!await this.#receive()) return undefined;
    }
    const text = decoder.decode(this.#received.subarray(from, to));
    this.#received = this.#received.slice(to);
    return { status: Number(line.split(" ")[1]), headers, text };
  }

  /** Reads everything until the connection ends. */
  async rest(): Promise<string> {
    while (await this.#receive());
    return this.#text();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timeout);
    try {
      this.#connection.close();
    } catch (error) {
      // Closed already by the time-out.
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }

  /** Returns the received bytes, one character each. */
  #text(): string {
    return latin1.decode(this.#received);
  }

  async #receive(): Promise<boolean> {
    const buffer = new Uint8Array(65_536);
    const length = await this.#connection.read(buffer).catch((error) => {
      if (!isDisconnect(error)) throw error;
      return null;
    });
    if (length === null) return false;
    this.#received = concatenate(this.#received, buffer.subarray(0, length));
    return true;
  }
}

function isDisconnect(error: unknown): boolean {
  return error instanceof Deno.errors.ConnectionReset ||
    error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.ConnectionAborted;
}

/** Sends bytes on a new connection and reads the reply. */
export async function exchange(
  port: number,
  bytes: string | Uint8Array,
): Promise<Reply | undefined> {
  using wire = await Wire.connect(port);
  await wire.send(bytes);
  return await wire.reply();
}
