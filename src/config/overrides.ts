import { OperatorError } from "../operator_error.ts";

/** Deno's own variables that would move the store or the service. */
const OVERRIDES = [
  "DENO_KV_DB_MODE",
  "DENO_KV_PATH_PREFIX",
  "DENO_SERVE_ADDRESS",
] as const;

/**
 * Deletes the variables that would override the configuration. Deno reads them
 * when it opens a store or listens.
 * @throws {OperatorError} if Deno lacks the permission
 */
export function deleteOverrides(): void {
  try {
    for (const name of OVERRIDES) Deno.env.delete(name);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    throw new OperatorError(error.message);
  }
}
