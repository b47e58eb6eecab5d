/** Returns the origin of the URLs of an address. */
export function originOf(host: string, port: number, isTls: boolean): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return `${isTls ? "https" : "http"}://${name}:${port}`;
}

/** Returns the origin by which this machine reaches a server that listens. */
export function localOriginOf(
  host: string,
  port: number,
  isTls: boolean,
): string {
  const isAnyAddress = host === "0.0.0.0" || host === "::";
  return originOf(isAnyAddress ? "localhost" : host, port, isTls);
}
