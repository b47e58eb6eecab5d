import type { Address } from "../config.ts";
import { originOf } from "../http/server.ts";
import { descriptionText } from "../reference/openapi.ts";
import { writeStdout } from "./stdout.ts";

/**
 * Writes the OpenAPI description to stdout, for the base URL or, without one, for
 * the configured address.
 * @returns the exit status
 */
export async function writeDescription(
  { host, port, baseUrl, isTls }: Address,
): Promise<number> {
  await writeStdout(descriptionText(baseUrl ?? originOf(host, port, isTls)));
  return 0;
}
