/** The configuration: a table of all settings, and their readers. */
import { fstatSync } from "node:fs";
import { isIP } from "node:net";
import { resolve } from "node:path";
import {
  type FileSetting,
  readTlsPair,
  readTokenFile,
  readTokens,
} from "./tokens.ts";
import { OperatorError } from "../operator_error.ts";
import type { StoreLocation } from "../store/location.ts";
import type { LogFormat } from "../telemetry/log.ts";

/** Deno's own variables that affect the store or the address. */
const KV_TOKEN = "DENO_KV_ACCESS_TOKEN";
const KV_MODE = "DENO_KV_DB_MODE";
const KV_PREFIX = "DENO_KV_PATH_PREFIX";
const SERVE_ADDRESS = "DENO_SERVE_ADDRESS";

/** Device and inode of the journal, if stderr is one: systemd.exec(5). */
const JOURNAL = "JOURNAL_STREAM";

/** The file descriptor of stderr. */
const STDERR = 2;

/** A configured value, and the flag or variable that contained it. */
interface RawValue {
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
const SETTINGS = {
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
    placeholder: "text|json",
    default: "text",
    help: "lines for people, or one JSON object per line",
    read: readLogFormat,
  },
} as const satisfies Readonly<Record<string, Setting>>;

/** The rows of {@link SETTINGS}. */
export const ALL_SETTINGS: readonly Setting[] = Object.values(SETTINGS);

/** The validated configuration of a run of the service. */
export type Config = Readonly<ReturnType<Settings["config"]>>;

/** Where a running service listens, for its clients and its health check. */
export type Address = Readonly<ReturnType<Settings["address"]>>;

/**
 * The configuration from flags and environment. Each reader evaluates only the
 * settings that its command needs: a backup does not read the TLS key.
 */
export class Settings {
  readonly #flags: ReadonlyMap<string, string>;
  readonly #env: Pick<typeof Deno.env, "get">;

  constructor(
    flags: ReadonlyMap<string, string>,
    env: Pick<typeof Deno.env, "get">,
  ) {
    this.#flags = flags;
    this.#env = env;
  }

  /** Reads the configuration of the service. @throws {OperatorError} */
  config() {
    if (this.#variable(SERVE_ADDRESS)) {
      throw new OperatorError(
        `${SERVE_ADDRESS} would override --host and --port: unset it`,
      );
    }
    const tokenFile = this.#read(SETTINGS.tokenFile);
    return {
      ...this.address(),
      logFormat: this.logFormat(),
      tls: this.#tls(),
      /** Empty if no token is configured. */
      tokens: this.#tokens(tokenFile),
      tokenFile,
      store: this.store(),
    };
  }

  /** Reads the location of the store. @throws {OperatorError} */
  store(): StoreLocation {
    const store = this.#readOrDefault(SETTINGS.kv);
    if (store instanceof URL) {
      return { kind: "server", url: store.href, token: this.#kvToken() };
    }
    if (this.#variable(KV_MODE) === "memory") {
      throw new OperatorError(
        `${KV_MODE}=memory would store no plant: unset it`,
      );
    }
    if (this.#variable(KV_PREFIX)) {
      throw new OperatorError(
        `${KV_PREFIX} would move the store elsewhere: unset it`,
      );
    }
    return { kind: "file", path: store };
  }

  /** Reads the address of the service. @throws {OperatorError} */
  address() {
    return {
      host: this.#readOrDefault(SETTINGS.host),
      port: this.#readOrDefault(SETTINGS.port),
      /** Without a trailing slash; `undefined` means the bound address. */
      baseUrl: this.#read(SETTINGS.baseUrl),
      isTls: this.#raw(SETTINGS.tlsCert) !== undefined,
    };
  }

  /** Reads the log format. @throws {OperatorError} */
  logFormat(): LogFormat {
    const format = this.#readOrDefault(SETTINGS.logFormat);
    const journal = this.#variable(JOURNAL);
    // Programs inherit the variable, and may redirect stderr.
    const isJournal = Boolean(journal) && journal === identifyStderr();
    return format === "text" && isJournal ? "journal" : format;
  }

  #tokens(file: FileSetting | undefined): readonly string[] {
    const tokens = this.#read(SETTINGS.accessToken);
    if (file === undefined) return tokens ?? [];
    if (tokens === undefined) return readTokenFile(file);
    throw new OperatorError(
      `ACCESS_TOKEN and ${file.name} are both given: give one of them`,
    );
  }

  #kvToken(): string {
    const token = this.#variable(KV_TOKEN)?.trim() ?? "";
    if (token === "") {
      throw new OperatorError(
        `${KV_TOKEN} is not set: a KV Connect server needs its token`,
      );
    }
    if (/^[\x21-\x7e]+$/.test(token)) return token;
    throw new OperatorError(
      `${KV_TOKEN}: expected a token without white space or ` +
        "characters beyond ASCII",
    );
  }

  #tls() {
    const cert = this.#read(SETTINGS.tlsCert);
    const key = this.#read(SETTINGS.tlsKey);
    if (cert !== undefined && key !== undefined) return readTlsPair(cert, key);
    const given = cert ?? key;
    if (given === undefined) return undefined;
    const { flag } = cert === undefined ? SETTINGS.tlsCert : SETTINGS.tlsKey;
    throw new OperatorError(
      `${given.name} is given without ${flag}: give both or none`,
    );
  }

  #read<Value>(setting: Setting<Value>): Value | undefined {
    const raw = this.#raw(setting);
    return raw && setting.read(raw);
  }

  #readOrDefault<Value>(setting: Setting<Value> & { default: string }): Value {
    const byDefault = { name: setting.variable, value: setting.default };
    return setting.read(this.#raw(setting) ?? byDefault);
  }

  #raw({ flag = "", variable, refusesEmpty }: Setting): RawValue | undefined {
    const ofFlag = this.#flags.get(flag);
    if (ofFlag !== undefined) return { name: flag, value: ofFlag };
    const value = this.#variable(variable);
    if (value === undefined || (value === "" && !refusesEmpty)) return;
    return { name: variable, value };
  }

  #variable(name: string): string | undefined {
    try {
      return this.#env.get(name);
    } catch (error) {
      const isDenied = error instanceof Deno.errors.NotCapable;
      const message = isDenied ? error.message : `${name}: expected UTF-8`;
      throw new OperatorError(message);
    }
  }
}

function identifyStderr(): string | undefined {
  try {
    const { dev, ino } = fstatSync(STDERR);
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}

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

function readLogFormat(raw: RawValue): "text" | "json" {
  if (raw.value === "text" || raw.value === "json") return raw.value;
  throw unexpected(raw, "text or json");
}
