/** The parsers of values: each returns `undefined` for an invalid one. */
import { LOG_FORMATS, type LogFormat } from "../telemetry/log.ts";

/**
 * Parses a host, which the runtime checks; IPv6 may be in brackets. A zone is
 * refused: the runtime listens there, but no URL has one, and Node connects to none.
 */
export function parseHost(text: string): string | undefined {
  const host = text.replace(/^\[(.*)\]$/, "$1");
  return host === "" || host.includes("%") ? undefined : host;
}

export function parsePort(text: string): number | undefined {
  return /^\d+$/.test(text) && Number(text) <= 65535 ? Number(text) : undefined;
}

/** Parses a path, or the URL of a KV Connect server. */
export function parseStore(text: string): string | URL | undefined {
  // For `Deno.openKv` a store in memory; here it would be a file of that name.
  if (text === ":memory:") return undefined;
  return /^[a-z][a-z\d+.-]*:\/\//i.test(text)
    ? parseHttpUrl(text)
    : parsePath(text);
}

export function parseYesOrNo(text: string): boolean | undefined {
  return /^(yes|no)$/.test(text) ? text === "yes" : undefined;
}

/** Parses a path. A control character is a mistake: the CR of a line of Windows. */
export function parsePath(text: string): string | undefined {
  return /^\P{Cc}+$/u.exec(text)?.[0];
}

/** Parses a URL, and removes the slashes at its end. */
export function parseBaseUrl(text: string): string | undefined {
  const href = parseHttpUrl(text)?.href;
  if (href === undefined || /[?#]/.test(href)) return undefined;
  return href.replace(/\/+$/, "");
}

/** Parses an http or https URL without a user and a password. */
function parseHttpUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined;
  return url.username === "" && url.password === "" ? url : undefined;
}

export function parseLogFormat(text: string): LogFormat | undefined {
  return LOG_FORMATS.find((format) => format === text);
}

/** Parses the token of a KV Connect server. Deno panics if it has a line break. */
export function parseKvToken(text: string): string | undefined {
  return /^[\x21-\x7e]+$/.exec(text.trim())?.[0];
}
