/** The readers of values: each returns one that is valid, or throws. */
import { isIP } from "node:net";
import { resolve } from "node:path";
import { OperatorError } from "../operator_error.ts";
import { LOG_FORMATS, type LogFormat } from "../telemetry/log.ts";
import type { FileSetting } from "./files.ts";
import { KV_TOKEN } from "../store/location.ts";

/** A configured value, and the flag or variable that contained it. */
export interface RawValue {
  readonly name: string;
  readonly value: string;
}

function unexpected({ name, value }: RawValue, expected: string) {
  // A URL with an @ may contain a password.
  const got = value.includes("@") ? "one with an @" : `"${value}"`;
  return new OperatorError(`${name}: expected ${expected}, got ${got}`);
}

/** Reads the address of an interface, or its name. */
export function readHost(raw: RawValue): string {
  // An IPv6 address may be in brackets, as in a URL.
  const host = raw.value.replace(/^\[(.*:.*)\]$/, "$1");
  // A name of digits and dots alone would be an invalid IPv4 address.
  const name = /^(?![\d.]+$)[a-z\d_-]{1,63}(\.[a-z\d_-]{1,63})*\.?$/i;
  if (isIP(host) !== 0 || name.test(host)) return host;
  throw unexpected(raw, "an address such as 127.0.0.1");
}

/** Reads a port; 0 picks a free one. */
export function readPort(raw: RawValue): number {
  const port = Number(raw.value);
  if (/^\d{1,5}$/.test(raw.value) && port <= 65535) return port;
  throw unexpected(raw, "a whole number from 0 to 65535");
}

/** Reads a path, and makes it absolute, or the URL of a KV Connect server. */
export function readFileOrServer(raw: RawValue): string | URL {
  if (raw.value === "") throw unexpected(raw, "a file or a URL");
  if (!/^(https?:|[a-z][a-z\d+.-]*:\/\/)/i.test(raw.value)) {
    return resolve(raw.value);
  }
  const url = parseHttpUrl(raw.value);
  if (url !== undefined) return url;
  throw unexpected(
    raw,
    `a file, or a URL such as https://kv.example with the token in ${KV_TOKEN}`,
  );
}

/** Reads the path of a file, and makes it absolute. */
export function readPath(raw: RawValue): FileSetting {
  if (raw.value === "") throw unexpected(raw, "a file");
  return { name: raw.name, path: resolve(raw.value) };
}

/** Reads a URL, and removes the slashes at its end. */
export function readBaseUrl(raw: RawValue): string {
  const href = parseHttpUrl(raw.value)?.href ?? "";
  if (href !== "" && !/[?#]/.test(href)) return href.replace(/\/+$/, "");
  throw unexpected(raw, "a URL such as https://plants.example/api");
}

/** Parses an http or https URL without a user and a password. */
function parseHttpUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (url === null || !["http:", "https:"].includes(url.protocol)) return;
  return url.username === "" && url.password === "" ? url : undefined;
}

/** Reads the format of the log. */
export function readLogFormat(raw: RawValue): LogFormat {
  const format = LOG_FORMATS.find((format) => format === raw.value);
  if (format !== undefined) return format;
  throw unexpected(raw, "text, json or journal");
}
