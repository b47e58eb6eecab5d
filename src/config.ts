import { resolve } from "node:path";
import { isBearerToken } from "./auth.ts";
import { fileFault } from "./faults.ts";
import type { LogFormat } from "./log.ts";
import { StartError } from "./start_error.ts";
import type { StoreLocation } from "./store.ts";

/** A setting: a flag, or the environment variable beside it; the flag wins. */
export interface Setting {
  /** Absent where a value must not stand among the arguments. */
  readonly flag?: string;
  readonly variable: string;
  /** What stands for the value in the help. */
  readonly value: string;
  readonly fallback?: string;
  readonly help: string;
}

/** Every setting, in the order of the help. */
export const SETTINGS = {
  host: {
    flag: "--host",
    variable: "HOST",
    value: "ADDRESS",
    fallback: "127.0.0.1",
    help: "address to listen on; 0.0.0.0 for all of the machine's",
  },
  port: {
    flag: "--port",
    variable: "PORT",
    value: "NUMBER",
    fallback: "8000",
    help: "port to listen on; 0 takes a free one",
  },
  kv: {
    flag: "--kv",
    variable: "KV_PATH",
    value: "FILE|URL",
    fallback: "plants.db",
    help: "file of the store, or URL of a KV Connect server",
  },
  accessToken: {
    variable: "ACCESS_TOKEN",
    value: "TOKEN[,TOKEN]",
    help: "accepted tokens; without any, one is made for the run",
  },
  tokenFile: {
    flag: "--token-file",
    variable: "ACCESS_TOKEN_FILE",
    value: "FILE",
    help: "accepted tokens, one a line",
  },
  baseUrl: {
    flag: "--base-url",
    variable: "BASE_URL",
    value: "URL",
    help: "public address; its path is the prefix of all paths",
  },
  tlsCert: {
    flag: "--tls-cert",
    variable: "TLS_CERT",
    value: "FILE",
    help: "certificate chain as PEM: serves https",
  },
  tlsKey: {
    flag: "--tls-key",
    variable: "TLS_KEY",
    value: "FILE",
    help: "private key of the certificate as PEM",
  },
  logFormat: {
    flag: "--log-format",
    variable: "LOG_FORMAT",
    value: "text|json",
    fallback: "text",
    help: "lines for people, or one JSON object a line",
  },
} as const satisfies Record<string, Setting>;

type SettingName = keyof typeof SETTINGS;

/** Deno's own variables that the service has to look at. */
const KV_TOKEN_VARIABLE = "DENO_KV_ACCESS_TOKEN";
const KV_MODE_VARIABLE = "DENO_KV_DB_MODE";
const KV_PREFIX_VARIABLE = "DENO_KV_PATH_PREFIX";

/** The configuration of a run of the service, checked. */
export interface Config {
  readonly host: string;
  /** From 0 to 65535; 0 stands for a free one. */
  readonly port: number;
  readonly store: StoreLocation;
  /** Empty where no token was configured. */
  readonly tokens: readonly string[];
  /** Where the tokens came from, to read them again. */
  readonly tokenFile: TokenFile | undefined;
  /** Without a slash at its end; `undefined` stands for the bound address. */
  readonly baseUrl: string | undefined;
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  readonly logFormat: LogFormat;
}

/** A file of tokens, and the flag or variable that named it. */
export interface TokenFile {
  readonly name: string;
  /** Absolute. */
  readonly path: string;
}

/** Where a running service is: what its clients and its probes need to know. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly baseUrl: string | undefined;
  /** Whether it serves https. */
  readonly isTls: boolean;
}

/** What was given for a setting, and by what name. */
interface Given {
  /** The flag or variable that the value came from. */
  readonly name: string;
  readonly value: string;
}

/** Values of flags, by flag. */
export type Flags = ReadonlyMap<string, string>;

/**
 * The configuration of flags and environment. Each reader looks only at the
 * settings that it is for: who makes a backup needs not read the TLS key.
 */
export class Settings {
  readonly #flags: Flags;
  readonly #env: typeof Deno.env;

  constructor(flags: Flags, env: typeof Deno.env) {
    this.#flags = flags;
    this.#env = env;
  }

  /**
   * What the service needs.
   * @throws {StartError} that says what to write
   */
  config(): Config {
    const tokenFile = this.#tokenFile();
    return {
      host: readHost(this.#givenOr("host")),
      port: readPort(this.#givenOr("port")),
      store: this.store(),
      tokens: readTokens(this.#given("accessToken"), tokenFile),
      tokenFile,
      baseUrl: readBaseUrl(this.#given("baseUrl")),
      tls: readTls(this.#given("tlsCert"), this.#given("tlsKey")),
      logFormat: readLogFormat(this.#givenOr("logFormat")),
    };
  }

  /**
   * Where the plants are.
   * @throws {StartError} that says what to write
   */
  store(): StoreLocation {
    return readStore(this.#givenOr("kv"), this.#env);
  }

  /**
   * Where the service is.
   * @throws {StartError} that says what to write
   */
  address(): Address {
    return {
      host: readHost(this.#givenOr("host")),
      port: readPort(this.#givenOr("port")),
      baseUrl: readBaseUrl(this.#given("baseUrl")),
      isTls: this.#given("tlsCert") !== undefined,
    };
  }

  #given(setting: SettingName): Given | undefined {
    const { flag, variable }: Setting = SETTINGS[setting];
    const value = flag === undefined ? undefined : this.#flags.get(flag);
    if (flag !== undefined && value !== undefined) return { name: flag, value };
    const set = readVariable(this.#env, variable);
    return set === undefined ? undefined : { name: variable, value: set };
  }

  #givenOr(setting: "host" | "port" | "kv" | "logFormat"): Given {
    const { flag, fallback } = SETTINGS[setting];
    return this.#given(setting) ?? { name: flag, value: fallback };
  }

  #tokenFile(): TokenFile | undefined {
    const file = this.#given("tokenFile");
    if (file?.value === "") {
      throw new StartError(`${file.name}: expected a file`);
    }
    return file && { name: file.name, path: resolve(file.value) };
  }
}

function readVariable(
  env: typeof Deno.env,
  variable: string,
): string | undefined {
  try {
    return env.get(variable);
  } catch {
    throw new StartError(`${variable}: expected UTF-8`);
  }
}

function readHost({ name, value }: Given): string {
  if (value === "" || /[\s/]/.test(value)) {
    throw new StartError(
      `${name}: expected an address such as 127.0.0.1, got "${value}"`,
    );
  }
  // As an IPv6 address stands in a URL.
  return /^\[(.+)\]$/.exec(value)?.[1] ?? value;
}

function readPort({ name, value }: Given): number {
  if (!/^\d{1,5}$/.test(value) || Number(value) > 65535) {
    throw new StartError(
      `${name}: expected a whole number from 0 to 65535, got "${value}"`,
    );
  }
  return Number(value);
}

function readStore(
  { name, value }: Given,
  env: typeof Deno.env,
): StoreLocation {
  if (!/^https?:/i.test(value)) {
    if (/^[a-z][a-z\d+.-]*:\/\//i.test(value)) {
      throw new StartError(
        `${name}: expected a file, or a URL that begins with https: or http:`,
      );
    }
    if (value === "" || value.includes("\0")) {
      throw new StartError(`${name}: expected a file or a URL, got "${value}"`);
    }
    if (readVariable(env, KV_MODE_VARIABLE) === "memory") {
      throw new StartError(
        `${KV_MODE_VARIABLE}=memory would keep no plant: unset it`,
      );
    }
    if (readVariable(env, KV_PREFIX_VARIABLE) !== undefined) {
      throw new StartError(
        `${KV_PREFIX_VARIABLE} would move the store elsewhere: unset it`,
      );
    }
    return resolve(value);
  }
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url?.username || url?.password) {
    throw new StartError(
      `${name}: expected a URL without a user or a password: the token of a ` +
        `KV Connect server goes into ${KV_TOKEN_VARIABLE}`,
    );
  }
  if (url === undefined) {
    throw new StartError(
      `${name}: expected a URL such as https://kv.example, got ${shown(value)}`,
    );
  }
  const token = readVariable(env, KV_TOKEN_VARIABLE)?.trim() ?? "";
  if (token === "") {
    throw new StartError(
      `${KV_TOKEN_VARIABLE} is not set: a KV Connect server needs its token`,
    );
  }
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new StartError(
      `${KV_TOKEN_VARIABLE}: expected a token without white space or ` +
        "characters beyond ASCII",
    );
  }
  // Deno reads the variable itself, and would not trim it.
  env.set(KV_TOKEN_VARIABLE, token);
  return url;
}

function readTokens(
  list: Given | undefined,
  file: TokenFile | undefined,
): readonly string[] {
  if (list !== undefined && file !== undefined) {
    throw new StartError(
      `${list.name} and ${file.name} are both given: give one of them`,
    );
  }
  if (file !== undefined) return readTokenFile(file);
  if (list !== undefined) return toTokens(list.name, list.value.split(","));
  return [];
}

/**
 * The tokens of a file, one a line; empty lines do not count.
 * @throws {StartError} for an unreadable file or a line that is no token
 */
export function readTokenFile({ name, path }: TokenFile): readonly string[] {
  const lines = readFile(name, path).split(/\r?\n/);
  return toTokens(
    `${name}: ${path}`,
    lines.filter((line) => line.trim() !== ""),
  );
}

function toTokens(name: string, texts: readonly string[]): readonly string[] {
  const tokens = texts.map((text) => text.trim());
  if (tokens.length === 0 || tokens.includes("")) {
    throw new StartError(
      `${name}: expected a token, got an empty one: write one, or unset it`,
    );
  }
  tokens.forEach((token, i) => {
    if (isBearerToken(token)) return;
    const nth = tokens.length === 1 ? "the token" : `token ${i + 1}`;
    // Never the token itself: this line ends in logs.
    throw new StartError(
      `${name}: ${nth} has a character that a bearer token cannot have: ` +
        "write letters, digits and -._~+/ only, = at the end",
    );
  });
  return tokens;
}

function readBaseUrl(given: Given | undefined): string | undefined {
  if (given === undefined) return undefined;
  const { name, value } = given;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (
    url === undefined || !/^https?:$/.test(url.protocol) ||
    /[?#]/.test(url.href) || url.username !== "" || url.password !== ""
  ) {
    throw new StartError(
      `${name}: expected a URL such as https://plants.example/api, got ${
        shown(value)
      }`,
    );
  }
  return url.href.replace(/\/+$/, "");
}

function readTls(
  cert: Given | undefined,
  key: Given | undefined,
): Config["tls"] {
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    const { flag } = cert === undefined ? SETTINGS.tlsCert : SETTINGS.tlsKey;
    throw new StartError(
      `${(cert ?? key)?.name} is given without ${flag}: give both or none`,
    );
  }
  const pems = {
    cert: readPem(cert, /-----BEGIN CERTIFICATE-----/, "a certificate"),
    key: readPem(key, /-----BEGIN [A-Z ]*PRIVATE KEY-----/, "a private key"),
  };
  if (/BEGIN ENCRYPTED|^Proc-Type: .*ENCRYPTED/m.test(pems.key)) {
    throw new StartError(
      `${key.name}: expected a key without a passphrase in ` +
        resolve(key.value),
    );
  }
  return pems;
}

function readPem({ name, value }: Given, begin: RegExp, what: string): string {
  if (value === "") throw new StartError(`${name}: expected a file`);
  const text = readFile(name, value);
  if (!begin.test(text)) {
    throw new StartError(
      `${name}: expected ${what} as PEM in ${resolve(value)}`,
    );
  }
  return text;
}

function readFile(name: string, path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw new StartError(
      `${name}: cannot read ${resolve(path)}: ${fileFault(error)}`,
    );
  }
}

function readLogFormat({ name, value }: Given): LogFormat {
  if (value === "text" || value === "json") return value;
  throw new StartError(`${name}: expected text or json, got "${value}"`);
}

/** A URL for a message, unless it may hold a password. */
function shown(url: string): string {
  return url.includes("@") ? "one with an @" : `"${url}"`;
}
