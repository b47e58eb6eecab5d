/** The parsers of values: each returns `undefined` for an invalid one. */
import { LOG_FORMATS, type LogFormat } from "../telemetry/log.ts";

/**
 * Maximum accepted tokens; a rotation needs two. A request compares its token
 * with all of them, and 100 take about as long as the rest of a create.
 */
export const TOKENS_MAX = 100;

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

/** The grammar of a bearer token (RFC 6750, section 2.1: `b64token`). */
export const BEARER_TOKEN = String.raw`[A-Za-z0-9\-._~+/]+=*`;

/** What {@link parseTokens} expects. */
export const TOKENS_EXPECTED =
  `1 to ${TOKENS_MAX} tokens of letters, digits and -._~+/, with = at the end only`;

const TOKEN = new RegExp(`^${BEARER_TOKEN}$`);

/** Parses tokens, which may repeat and have white space around them. */
export function parseTokens(
  texts: readonly string[],
): readonly string[] | undefined {
  const tokens = [...new Set(texts.map((text) => text.trim()))];
  const isValid = tokens.length <= TOKENS_MAX &&
    tokens.every((token) => TOKEN.test(token));
  return isValid ? tokens : undefined;
}

/** Parses the token of a KV Connect server. Deno panics if it has a line break. */
export function parseKvToken(text: string): string | undefined {
  return /^[\x21-\x7e]+$/.exec(text.trim())?.[0];
}
