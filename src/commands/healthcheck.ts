import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Address } from "../config/settings.ts";
import { HEALTHCHECK_MS_MAX } from "../limits.ts";
import { errorMessage } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { READY_PATH } from "../http/handler.ts";
import { localAddressOf } from "../http/origin.ts";

/** The start of a reply (RFC 9112, section 4), and its length. */
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})[ \r]/;
const STATUS_LINE_CHARS = "HTTP/1.1 200 ".length;

/**
 * Asks the service at an address whether it is ready.
 * @returns the exit status
 * @throws {OperatorError} if it is not ready or does not answer
 */
export async function checkHealth(address: Address): Promise<number> {
  const { port, baseUrl } = address;
  if (port === 0) {
    throw new OperatorError(
      "--port 0 does not name a port: give the port of the service",
    );
  }
  const host = localAddressOf(address.host);
  const { pathname: path } = new URL(
    (baseUrl ?? "http://localhost") + READY_PATH,
  );
  const where = `${host} port ${port}`;
  let status: number;
  try {
    status = await getStatus(host, port, path, address.isTls);
  } catch (error) {
    throw new OperatorError(
      `no answer from ${where}: ${errorMessage(error)}: check --host, --port ` +
        "and --tls-cert",
      EXIT_FAILURE,
    );
  }
  if (status === 200) return 0;
  const advice = status === 404
    ? "give the service's --base-url"
    : "see the log of the service";
  throw new OperatorError(
    `not ready: ${where} answers ${path} with ${status}: ${advice}`,
    EXIT_FAILURE,
  );
}

/**
 * Returns the status of the reply to a GET. It uses a plain socket: `fetch`
 * verifies the certificate, which is for the public name, and so does
 * `node:https` in Deno 2.6.
 */
async function getStatus(
  host: string,
  port: number,
  path: string,
  isTls: boolean,
): Promise<number> {
  const socket = isTls
    ? connectTls({ host, port, rejectUnauthorized: false })
    : connectTcp({ host, port });
  const timeout = setTimeout(() => {
    const seconds = HEALTHCHECK_MS_MAX / 1000;
    socket.destroy(new Error(`no reply within ${seconds} s`));
  }, HEALTHCHECK_MS_MAX);
  const authority = host.includes(":") ? `[${host}]` : host;
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`,
  );
  try {
    let reply = "";
    for await (const part of socket.setEncoding("latin1")) {
      reply += part;
      if (reply.length >= STATUS_LINE_CHARS) break;
    }
    const status = STATUS_LINE.exec(reply)?.[1];
    if (status !== undefined) return Number(status);
    const isClosed = reply.length < STATUS_LINE_CHARS;
    throw new Error(
      isClosed ? "the connection was closed" : "the reply is not HTTP",
    );
  } finally {
    clearTimeout(timeout);
    socket.destroy();
  }
}
