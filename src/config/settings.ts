/** The table of all settings, and the readers of their values. */
import { isIP } from "node:net";
import { resolve } from "node:path";
import { OperatorError } from "../operator_error.ts";
import { LOG_FORMATS, type LogFormat } from "../telemetry/log.ts";
import type { FileSetting } from "./files.ts";
import { KV_TOKEN, readTokens } from "./tokens.ts";

/** A configured value, and the flag or variable that contained it. */
export interface RawValue {
  readonly name: string;
  readonly value: string;
}

/** A setting: a flag or an environment variable. The flag takes precedence. */
export interface Setting<Value = unknown> {
  /** Absent for a secret: the arguments of a process are public. */
  readonly flag?: string;
  readonly variable: string;
  /** Placeholder of the value in the help. */
  readonly placeholder: string;
  readonly default?: string;
  readonly help: string;
  /** Whether an empty variable is refused rather than counting as unset. */
  readonly refusesEmpty?: true;
  /** @throws {OperatorError} if the value is invalid */
  readonly read: (raw: RawValue) => Value;
}

/** Every setting, in the order of the help. */
export const SETTINGS = {
  host: {
    flag: "--host",
    variable: "HOST",
    placeholder: "ADDRESS",
    default: "127.0.0.1",
    help: "address to listen on; 0.0.0.0 for all interfaces",
    read: readHost,
  },
  port: {
    flag: "--port",
    variable: "PORT",
    placeholder: "NUMBER",
    default: "8000",
    help: "port to listen on; 0 picks a free one",
    read: readPort,
  },
  kv: {
    flag: "--kv",
    variable: "KV_PATH",
    placeholder: "FILE|URL",
    default: "plants.db",
    help: "file of the store, or URL of a KV Connect server",
    read: readFileOrServer,
  },
  accessToken: {
    variable: "ACCESS_TOKEN",
    placeholder: "TOKEN[,TOKEN]",
    help: "accepted tokens; without any, one is generated for the run",
    refusesEmpty: true,
    read: ({ name, value }) => readTokens(name, value.split(",")),
  },
  tokenFile: {
    flag: "--token-file",
    variable: "ACCESS_TOKEN_FILE",
    placeholder: "FILE",
    help: "accepted tokens, one per line; reloaded on SIGHUP",
    refusesEmpty: true,
    read: readPath,
  },
  baseUrl: {
    flag: "--base-url",
    variable: "BASE_URL",
    placeholder: "URL",
    help: "public address; its path prefixes all paths",
    read: readBaseUrl,
  },
  tlsCert: {
    flag: "--tls-cert",
    variable: "TLS_CERT",
    placeholder: "FILE",
    help: "certificate chain as PEM: serves https",
    read: readPath,
  },
  tlsKey: {
    flag: "--tls-key",
    variable: "TLS_KEY",
    placeholder: "FILE",
    help: "private key of the certificate as PEM",
    read: readPath,
  },
  logFormat: {
    flag: "--log-format",
    variable: "LOG_FORMAT",
    placeholder: "text|json|journal",
    default: "text",
    help: "lines for people, JSON objects, or lines with systemd's levels",
    read: readLogFormat,
  },
} as const satisfies Readonly<Record<string, Setting>>;

/** The rows of {@link SETTINGS}. */
export const ALL_SETTINGS: readonly Setting[] = Object.values(SETTINGS);

function unexpected({ name, value }: RawValue, expected: string) {
  // A URL with an @ may contain a password.
  const got = value.includes("@") ? "one with an @" : `"${value}"`;
  return new OperatorError(`${name}: expected ${expected}, got ${got}`);
}

function readHost(raw: RawValue): string {
  // An IPv6 address may be in brackets, as in a URL.
  const host = raw.value.replace(/^\[(.*:.*)\]$/, "$1");
  // A name of digits and dots alone would be an invalid IPv4 address.
  const name = /^(?![\d.]+$)[a-z\d_-]{1,63}(\.[a-z\d_-]{1,63})*\.?$/i;
  if (isIP(host) !== 0 || name.test(host)) return host;
  throw unexpected(raw, "an address such as 127.0.0.1");
}

function readPort(raw: RawValue): number {
  const port = Number(raw.value);
  if (/^\d{1,5}$/.test(raw.value) && port <= 65535) return port;
  throw unexpected(raw, "a whole number from 0 to 65535");
}

/** Returns an absolute path, or the URL of a KV Connect server. */
function readFileOrServer(raw: RawValue): string | URL {
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

function readPath(raw: RawValue): FileSetting {
  if (raw.value === "") throw unexpected(raw, "a file");
  return { name: raw.name, path: resolve(raw.value) };
}

function readBaseUrl(raw: RawValue): string {
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

function readLogFormat(raw: RawValue): LogFormat {
  const format = LOG_FORMATS.find((format) => format === raw.value);
  if (format !== undefined) return format;
  throw unexpected(raw, "text, json or journal");
}
