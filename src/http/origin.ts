/** Origins and paths of the URLs that the service is reached at. */

/** The path that says whether a create would be stored now. */
export const READY_PATH = "/readyz";

/** Returns the path of a base URL, which prefixes all paths, without a last slash. */
export function prefixOf(baseUrl: string): string {
  return new URL(baseUrl).pathname.replace(/\/$/, "");
}

/** Returns the origin of the URLs of an address. */
export function originOf(host: string, port: number, isTls: boolean): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return `${isTls ? "https" : "http"}://${name}:${port}`;
}

/** Replaces a wildcard address, which clients cannot call, by localhost. */
export function clientOriginOf(origin: string): string {
  return origin.replace(/\/\/(0\.0\.0\.0|\[::\]):/, "//localhost:");
}
