import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Address } from "./config.ts";
import { messageOf } from "./faults.ts";
import { HEALTHCHECK_MS_MAX } from "./limits.ts";
import { EXIT_FAILURE, StartError } from "./start_error.ts";

/** How a reply of HTTP/1.1 begins (RFC 9112, section 4). */
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})[^\r\n]*\r\n/;

/**
 * Asks the service at an address whether it is ready.
 * @returns the exit status
 * @throws {StartError} where it is not, or cannot be asked
 */
export async function healthcheck(address: Address): Promise<number> {
  const { port, baseUrl } = address;
  if (port === 0) {
    throw new StartError("--port 0 could be any: name the service's own port");
  }
  const host = reachable(address.host);
  const prefix = baseUrl === undefined ? "" : new URL(baseUrl).pathname;
  const path = `${prefix === "/" ? "" : prefix}/readyz`;
  const socket = address.isTls
    // The certificate is for the public name, and this is the machine itself,
    // which is told nothing: there is nobody to be sure of.
    ? connectTls({ host, port, rejectUnauthorized: false })
    : connectTcp({ host, port });
  const where = `${host} port ${port}`;
  try {
    const status = await ask(socket, host, path);
    if (status === 200) return 0;
    const advice = status === 404 ? ": give the service's --base-url" : "";
    throw new StartError(
      `not ready: ${where} answers ${path} with ${status}${advice}`,
      EXIT_FAILURE,
    );
  } catch (error) {
    if (error instanceof StartError) throw error;
    throw new StartError(
      `no answer from ${where}: ${messageOf(error)}`,
      EXIT_FAILURE,
    );
  } finally {
    socket.destroy();
  }
}

/** Who listens on all addresses is asked on the machine's own. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  return host === "::" ? "::1" : host;
}

/** The status of the reply to a GET. */
function ask(socket: Socket, host: string, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`nothing within ${HEALTHCHECK_MS_MAX / 1000} s`)),
      HEALTHCHECK_MS_MAX,
    );
    let reply = "";
    socket.setEncoding("latin1");
    socket.on("data", (part: string) => {
      reply += part;
      const status = STATUS_LINE.exec(reply)?.[1];
      if (status !== undefined) resolve(Number(status));
      else if (reply.includes("\n")) {
        reject(new Error("it does not speak HTTP"));
      }
    });
    socket.on("error", reject);
    socket.on("close", () => {
      clearTimeout(timer);
      reject(new Error("it closed the connection"));
    });
    const authority = host.includes(":") ? `[${host}]` : host;
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`,
    );
  });
}
