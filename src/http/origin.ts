/** Origins and paths of the URLs that the service is reached at. */

/**
 * Returns the path of a base URL, normalized and without a last slash. All paths of
 * the service begin with it.
 */
export function prefixOf(baseUrl: string): string {
  return normalizePath(new URL(baseUrl).pathname).replace(/\/$/, "");
}

/** Writes percent-encodings in upper case (RFC 3986, section 6.2.2.1). */
export function normalizePath(path: string): string {
  return path.replace(/%[\da-f]{2}/gi, (encoding) => encoding.toUpperCase());
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
