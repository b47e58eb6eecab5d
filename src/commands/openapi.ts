import type { Settings } from "../config/settings.ts";
import { writeStdout } from "../console/output.ts";
import { clientOriginOf, originOf } from "../http/origin.ts";
import { descriptionText } from "../reference/openapi.ts";

/**
 * Writes the OpenAPI description of a service that need not run.
 * @returns the exit status
 * @throws {OperatorError} if the address of the service is not known, or stdout
 * cannot be written
 */
export async function writeDescription(settings: Settings): Promise<number> {
  const { host, baseUrl } = settings.address();
  const url = baseUrl ??
    clientOriginOf(originOf(host, settings.knownPort(), settings.isTls()));
  await writeStdout(descriptionText(url));
  return 0;
}
