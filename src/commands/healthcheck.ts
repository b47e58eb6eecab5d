import http from "node:http";
import https from "node:https";
import type { Address } from "../config/settings.ts";
import { HEALTHCHECK_MS_MAX } from "../limits.ts";
import { errorMessage } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { READY_PATH } from "../http/handler.ts";
import { localAddressOf } from "../http/origin.ts";

/**
 * Asks the service at an address whether it is ready.
 * @returns the exit status
 * @throws {OperatorError} if it is not ready or does not answer
 */
export async function checkHealth(address: Address): Promise<number> {
  const { port, baseUrl, names } = address;
  if (port === 0) {
    throw new OperatorError(
      `${names.port}: 0 does not name a port: give the port of the service`,
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
      `no answer from ${where}: ${errorMessage(error)}: check ${names.host}, ` +
        `${names.port} and ${names.tlsCert}`,
      EXIT_FAILURE,
    );
  }
  if (status === 200) return 0;
  const advice = status === 404
    ? `give the service's ${names.baseUrl}`
    : "see the log of the service";
  throw new OperatorError(
    `not ready: ${where} answers ${path} with ${status}: ${advice}`,
    EXIT_FAILURE,
  );
}

/** Returns the status of the reply to a GET; does not wait for its body. */
function getStatus(
  host: string,
  port: number,
  path: string,
  isTls: boolean,
): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const request = (isTls ? https : http).get({
    host,
    port,
    path,
    agent: false,
    // The certificate is for the public name. Without `ca`, Deno reads those of
    // the system, which needs a further permission.
    rejectUnauthorized: false,
    ca: "",
  }, (reply) => {
    resolve(reply.statusCode ?? 0);
    request.destroy();
  }).on("error", reject);
  const timer = setTimeout(() => {
    const seconds = HEALTHCHECK_MS_MAX / 1000;
    request.destroy(new Error(`no reply within ${seconds} s`));
  }, HEALTHCHECK_MS_MAX);
  return promise.finally(() => clearTimeout(timer));
}
