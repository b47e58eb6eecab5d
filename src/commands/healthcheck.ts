import { get as getHttp } from "node:http";
import { get as getHttps } from "node:https";
import type { Address } from "../config.ts";
import { HEALTHCHECK_MS_MAX } from "../limits.ts";
import { errorMessage } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";

/** Loopback addresses, by the address that listens on all of the machine. */
const LOOPBACK: Readonly<Record<string, string>> = {
  "0.0.0.0": "127.0.0.1",
  "::": "::1",
};

/**
 * Asks the service at an address whether it is ready.
 * @returns the exit status
 * @throws {OperatorError} if it is not ready or does not answer
 */
export async function checkHealth(address: Address): Promise<number> {
  const { port, baseUrl } = address;
  if (port === 0) {
    throw new OperatorError(
      "--port 0 does not name a port: give the service's own",
    );
  }
  const host = LOOPBACK[address.host] ?? address.host;
  const prefix = baseUrl === undefined ? "" : new URL(baseUrl).pathname;
  const path = `${prefix === "/" ? "" : prefix}/readyz`;
  const where = `${host} port ${port}`;
  let status: number;
  try {
    status = await getStatus(host, port, path, address.isTls);
  } catch (error) {
    throw new OperatorError(
      `no answer from ${where}: ${errorMessage(error)}`,
      EXIT_FAILURE,
    );
  }
  if (status === 200) return 0;
  const advice = status === 404 ? ": give the service's --base-url" : "";
  throw new OperatorError(
    `not ready: ${where} answers ${path} with ${status}${advice}`,
    EXIT_FAILURE,
  );
}

/**
 * Returns the status of the reply to a GET. Not by `fetch`, which verifies the
 * certificate: that is for the public name, and this is the machine itself.
 */
function getStatus(
  host: string,
  port: number,
  path: string,
  isTls: boolean,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const options = {
      host,
      port,
      path,
      agent: false,
      rejectUnauthorized: false,
      signal: AbortSignal.timeout(HEALTHCHECK_MS_MAX),
    };
    const request = (isTls ? getHttps : getHttp)(options, (response) => {
      response.destroy();
      resolve(response.statusCode ?? 0);
    });
    request.on("error", reject);
  });
}
