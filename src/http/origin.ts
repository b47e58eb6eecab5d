import type { Address } from "../config/settings.ts";
import { OperatorError } from "../operator_error.ts";

/** Returns the origin of the URLs of an address. */
export function originOf(host: string, port: number, isTls: boolean): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return `${isTls ? "https" : "http"}://${name}:${port}`;
}

/** Returns an origin for the clients of one that may be a wildcard address. */
export function clientOriginOf(origin: string): string {
  return origin.replace(/\/\/(0\.0\.0\.0|\[::\]):/, "//localhost:");
}

/**
 * Returns the public URL of a service that need not run.
 * @throws {OperatorError} if only its start will know it
 */
export function publicUrlOf({ host, port, baseUrl, isTls }: Address): string {
  if (baseUrl !== undefined) return baseUrl;
  if (port !== 0) return clientOriginOf(originOf(host, port, isTls));
  throw new OperatorError("port 0 has no address yet: set BASE_URL, or PORT");
}
