import type { Address } from "../config.ts";
import { localOriginOf } from "../origin.ts";
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
  const origin = baseUrl ?? localOriginOf(host, port, isTls);
  await writeStdout(descriptionText(origin));
  return 0;
}
