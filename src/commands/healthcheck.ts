import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import type { Address } from "../config/settings.ts";
import { READY_PATH } from "../http/handler.ts";
import { HEALTHCHECK_MS_MAX } from "../limits.ts";
import { errorMessage } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";

/**
 * Asks the service at an address whether it is ready.
 * @returns the exit status
 * @throws {OperatorError} if it is not ready or does not answer
 */
export async function checkHealth(
  { host, port, baseUrl, isTls }: Address,
): Promise<number> {
  const path = new URL(baseUrl ?? "http://a").pathname.replace(/\/$/, "") +
    READY_PATH;
  const where = `${host} port ${port}`;
  const signal = AbortSignal.timeout(HEALTHCHECK_MS_MAX);
  let status: number;
  try {
    const request = (isTls ? https : http).get({
      host,
      port,
      path,
      agent: false,
      // The certificate is for the public name. Without `ca`, Deno reads those
      // of the system, which needs a further permission.
      rejectUnauthorized: false,
      ca: "",
      signal,
    });
    const [reply] = await once(request, "response");
    status = reply.statusCode;
    request.destroy();
  } catch (error) {
    const why = errorMessage(signal.aborted ? signal.reason : error);
    throw new OperatorError(
      `no answer from ${where}: ${why}: check HOST, PORT and TLS_CERT`,
      EXIT_FAILURE,
    );
  }
  if (status === 200) return 0;
  throw new OperatorError(
    `${where} answers ${path} with ${status}: ` +
      "see the log of the service, and check BASE_URL",
    EXIT_FAILURE,
  );
}
