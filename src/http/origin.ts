import type { Address } from "../config/settings.ts";

/** The loopback address for each wildcard address. */
const LOOPBACK: ReadonlyMap<string, string> = new Map([
  ["0.0.0.0", "127.0.0.1"],
  ["::", "::1"],
]);

/** Returns the address at which this machine reaches a server that listens. */
export function localAddressOf(host: string): string {
  return LOOPBACK.get(host) ?? host;
}

/** Returns the origin of the URLs of an address. */
export function originOf(host: string, port: number, isTls: boolean): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return `${isTls ? "https" : "http"}://${name}:${port}`;
}

/** Returns the public URL of a service, configured or by default. */
export function publicUrlOf({ host, port, baseUrl, isTls }: Address): string {
  return baseUrl ?? localOriginOf(host, port, isTls);
}

/** Returns the origin by which this machine reaches a server that listens. */
export function localOriginOf(
  host: string,
  port: number,
  isTls: boolean,
): string {
  return originOf(LOOPBACK.has(host) ? "localhost" : host, port, isTls);
}
