import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import tls from "node:tls";
import type { Settings } from "../config/settings.ts";
import { READY_PATH } from "../http/handler.ts";
import { prefixOf } from "../http/origin.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { errorMessage } from "../text.ts";

/** Time for the service to answer a healthcheck, more than a probe takes. */
export const HEALTHCHECK_MS_MAX = 3_000;

/**
 * Asks the service whether it is ready.
 * @returns the exit status
 * @throws {OperatorError} if it is not ready or does not answer
 */
export async function checkHealth(settings: Settings): Promise<number> {
  const { host, baseUrl } = settings.address();
  const port = settings.knownPort();
  const prefix = baseUrl === undefined ? "" : prefixOf(baseUrl);
  const path = prefix + READY_PATH;
  const where = `${host} port ${port}`;
  const signal = AbortSignal.timeout(HEALTHCHECK_MS_MAX);
  let status: number;
  try {
    const request = http.get({
      host,
      port,
      path,
      signal,
      // An agent of Node would obey the variables for a proxy.
      createConnection: () => connect(host, port, settings.isTls()),
    });
    const [reply] = await once(request, "response");
    status = reply.statusCode;
    request.destroy();
  } catch (error) {
    const problem = errorMessage(signal.aborted ? signal.reason : error);
    const names = settings.nameOf("host", "port", "tlsCert");
    throw new OperatorError(
      `no answer from ${where}: ${problem}: check ${names}`,
      EXIT_FAILURE,
    );
  }
  if (status === 200) return 0;
  throw new OperatorError(
    `${where} answers ${path} with ${status}: ` +
      `see the log of the service, and check ${settings.nameOf("baseUrl")}`,
    EXIT_FAILURE,
  );
}

function connect(host: string, port: number, isTls: boolean): net.Socket {
  if (!isTls) return net.connect({ host, port });
  // The certificate is for the public name. Without `ca`, Deno reads those of the
  // system, which needs a further permission.
  return tls.connect({ host, port, rejectUnauthorized: false, ca: "" });
}
