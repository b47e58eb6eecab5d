/** The configuration: a table of all settings, and their readers. */
import { isIP } from "node:net";
import { resolve } from "node:path";
import { TOKEN_FILE_BYTES_MAX, TOKEN_FILE_MS_MAX } from "./limits.ts";
import { fileProblem } from "./messages.ts";
import { OperatorError } from "./operator_error.ts";
import type { StoreLocation } from "./store/kv_store.ts";
import type { LogFormat } from "./telemetry/log.ts";

const decoder = new TextDecoder();

const TOO_LARGE = `it is larger than ${TOKEN_FILE_BYTES_MAX / 2 ** 20} MiB`;

/** The grammar of a bearer token (RFC 6750, section 2.1: `b64token`). */
export const BEARER_TOKEN = String.raw`[A-Za-z0-9\-._~+/]+=*`;

/** A name of digits and dots alone would be an invalid IPv4 address. */
const HOST_NAME =
  /^(?![\d.]+$)(?=.{1,254}$)[a-z\d_-]{1,63}(\.[a-z\d_-]{1,63})*\.?$/i;

/** A configured value, and the flag or variable that contained it. */
interface Given {
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
  readonly fallback?: string;
  readonly help: string;
  /** Whether an empty variable is refused rather than counting as unset. */
  readonly refusesEmpty?: true;
  /** @throws {OperatorError} if the value is invalid */
  readonly read: (given: Given) => Value;
}

/** Every setting, in the order of the help. */
const SETTINGS = {
  host: {
    flag: "--host",
    variable: "HOST",
    placeholder: "ADDRESS",
    fallback: "127.0.0.1",
    help: "address to listen on; 0.0.0.0 for all interfaces",
    read: readHost,
  },
  port: {
    flag: "--port",
    variable: "PORT",
    placeholder: "NUMBER",
    fallback: "8000",
    help: "port to listen on; 0 picks a free one",
    read: readPort,
  },
  kv: {
    flag: "--kv",
    variable: "KV_PATH",
    placeholder: "FILE|URL",
    fallback: "plants.db",
    help: "file of the store, or URL of a KV Connect server",
    read: readStore,
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
    fallback: "text",
    help: "lines for people, or one JSON object per line",
    read: readLogFormat,
  },
} as const satisfies Readonly<Record<string, Setting>>;

/** The rows of {@link SETTINGS}. */
export const ALL_SETTINGS: readonly Setting[] = Object.values(SETTINGS);

/** The configured store, without the token of a server. */
type StoreSetting =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "server"; readonly url: string };

/** Deno's own variables that affect the store. */
const KV_TOKEN_VARIABLE = "DENO_KV_ACCESS_TOKEN";
const KV_MODE_VARIABLE = "DENO_KV_DB_MODE";
const KV_PREFIX_VARIABLE = "DENO_KV_PATH_PREFIX";

/** The configuration of a run of the service, validated. */
export interface Config {
  readonly host: string;
  /** From 0 to 65535; 0 picks a free one. */
  readonly port: number;
  readonly store: StoreLocation;
  /** Empty if no token is configured. */
  readonly tokens: readonly string[];
  /** The file to reload the tokens from. */
  readonly tokenFile: FileSetting | undefined;
  /** Without a trailing slash; `undefined` means the bound address. */
  readonly baseUrl: string | undefined;
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  readonly logFormat: LogFormat;
}

/** A configured file, and the flag or variable that contained its path. */
export interface FileSetting {
  readonly name: string;
  /** Absolute. */
  readonly path: string;
}

/** Where a running service listens, for its clients and its health check. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly baseUrl: string | undefined;
  readonly isTls: boolean;
}

/** The part of `Deno.env` that the configuration uses. */
type Environment = Pick<typeof Deno.env, "get" | "set">;

/**
 * The configuration from flags and environment. Each reader evaluates only the
 * settings that its command needs: a backup does not read the TLS key.
 */
export class Settings {
  readonly #flags: ReadonlyMap<string, string>;
  readonly #env: Environment;

  constructor(flags: ReadonlyMap<string, string>, env: Environment) {
    this.#flags = flags;
    this.#env = env;
  }

  /** Reads the configuration of the service. @throws {OperatorError} */
  config(): Config {
    const tokenFile = this.#read(SETTINGS.tokenFile);
    return {
      ...this.#listenAddress(),
      logFormat: this.logFormat(),
      tls: this.#tls(),
      tokens: this.#tokens(tokenFile),
      tokenFile,
      store: this.store(),
    };
  }

  /** Reads the location of the store. @throws {OperatorError} */
  store(): StoreLocation {
    const location = this.#readOrDefault(SETTINGS.kv);
    if (location.kind === "server") {
      const token = readKvToken(this.#variable(KV_TOKEN_VARIABLE));
      // Deno reads the variable itself, and does not trim it.
      this.#env.set(KV_TOKEN_VARIABLE, token);
      return { ...location, token };
    }
    if (this.#variable(KV_MODE_VARIABLE) === "memory") {
      throw new OperatorError(
        `${KV_MODE_VARIABLE}=memory would store no plant: unset it`,
      );
    }
    if (this.#variable(KV_PREFIX_VARIABLE) !== undefined) {
      throw new OperatorError(
        `${KV_PREFIX_VARIABLE} would move the store elsewhere: unset it`,
      );
    }
    return location;
  }

  /** Reads the address of the service. @throws {OperatorError} */
  address(): Address {
    return {
      ...this.#listenAddress(),
      isTls: this.#given(SETTINGS.tlsCert) !== undefined,
    };
  }

  /** Reads the log format. @throws {OperatorError} */
  logFormat(): LogFormat {
    return this.#readOrDefault(SETTINGS.logFormat);
  }

  #listenAddress() {
    return {
      host: this.#readOrDefault(SETTINGS.host),
      port: this.#readOrDefault(SETTINGS.port),
      baseUrl: this.#read(SETTINGS.baseUrl),
    };
  }

  #tokens(file: FileSetting | undefined): readonly string[] {
    const tokens = this.#read(SETTINGS.accessToken);
    if (file === undefined) return tokens ?? [];
    if (tokens === undefined) return parseTokens(file, readFile(file));
    throw new OperatorError(
      `${SETTINGS.accessToken.variable} and ${file.name} are both given: ` +
        "give one of them",
    );
  }

  #tls(): Config["tls"] {
    const cert = this.#read(SETTINGS.tlsCert);
    const key = this.#read(SETTINGS.tlsKey);
    if (cert === undefined && key === undefined) return undefined;
    if (cert === undefined || key === undefined) {
      const { flag } = cert === undefined ? SETTINGS.tlsCert : SETTINGS.tlsKey;
      throw new OperatorError(
        `${(cert ?? key)?.name} is given without ${flag}: give both or none`,
      );
    }
    return {
      cert: readPem(cert, /-----BEGIN CERTIFICATE-----/, "a certificate"),
      key: readPrivateKey(key),
    };
  }

  #read<Value>(setting: Setting<Value>): Value | undefined {
    const given = this.#given(setting);
    return given && setting.read(given);
  }

  #readOrDefault<Value>(
    setting: Setting<Value> & { readonly flag: string; fallback: string },
  ): Value {
    const { flag: name, fallback: value } = setting;
    return setting.read(this.#given(setting) ?? { name, value });
  }

  #given({ flag, variable, refusesEmpty }: Setting): Given | undefined {
    const ofFlag = flag === undefined ? undefined : this.#flags.get(flag);
    if (flag !== undefined && ofFlag !== undefined) {
      return { name: flag, value: ofFlag };
    }
    const value = this.#variable(variable, refusesEmpty);
    return value === undefined ? undefined : { name: variable, value };
  }

  /** Reads a variable. An empty one counts as unset, unless it is kept. */
  #variable(variable: string, isEmptyKept = false): string | undefined {
    let value: string | undefined;
    try {
      value = this.#env.get(variable);
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) {
        throw new OperatorError(error.message);
      }
      throw new OperatorError(`${variable}: expected UTF-8`);
    }
    return value === "" && !isEmptyKept ? undefined : value;
  }
}

/** Quotes a value in a message, unless it may contain a password. */
function quote(value: string): string {
  return value.includes("@") ? "one with an @" : `"${value}"`;
}

function unexpected(
  { name, value }: Given,
  expected: string,
): OperatorError {
  return new OperatorError(
    `${name}: expected ${expected}, got ${quote(value)}`,
  );
}

function readHost(given: Given): string {
  const { value } = given;
  // An IPv6 address may be in brackets, as in a URL.
  const inBrackets = /^\[(.*)\]$/.exec(value)?.[1] ?? "";
  if (isIP(inBrackets) === 6) return inBrackets;
  if (isIP(value) !== 0 || HOST_NAME.test(value)) return value;
  throw unexpected(given, "an address such as 127.0.0.1");
}

function readPort(given: Given): number {
  const { value } = given;
  if (/^\d{1,5}$/.test(value) && Number(value) <= 65535) return Number(value);
  throw unexpected(given, "a whole number from 0 to 65535");
}

function readStore(given: Given): StoreSetting {
  const { name, value } = given;
  if (!/^(https?:|[a-z][a-z\d+.-]*:\/\/)/i.test(value)) {
    if (value === "" || value.includes("\0")) {
      throw unexpected(given, "a file or a URL");
    }
    return { kind: "file", path: resolve(value) };
  }
  const url = URL.parse(value);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw unexpected(given, "a file, or a URL such as https://kv.example");
  }
  if (url.username !== "" || url.password !== "") {
    throw new OperatorError(
      `${name}: expected a URL without a user or a password: put the token ` +
        `of a KV Connect server into ${KV_TOKEN_VARIABLE}`,
    );
  }
  return { kind: "server", url: url.href };
}

function readKvToken(value = ""): string {
  const token = value.trim();
  if (token === "") {
    throw new OperatorError(
      `${KV_TOKEN_VARIABLE} is not set: a KV Connect server needs its token`,
    );
  }
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new OperatorError(
    `${KV_TOKEN_VARIABLE}: expected a token without white space or ` +
      "characters beyond ASCII",
  );
}

function readPath(given: Given): FileSetting {
  const { name, value } = given;
  if (value === "") throw unexpected(given, "a file");
  return { name, path: resolve(value) };
}

/**
 * Reloads the tokens of a file while the service runs. It must be a regular
 * file: reading from a pipe could block forever.
 * @throws {OperatorError} if the file cannot be read, or a line is not a token
 */
export async function reloadTokens(
  file: FileSetting,
): Promise<readonly string[]> {
  let bytes: Uint8Array;
  try {
    const { isFile, size } = await Deno.stat(file.path);
    if (!isFile) throw new Error("it is not a regular file");
    if (size > TOKEN_FILE_BYTES_MAX) throw new Error(TOO_LARGE);
    const signal = AbortSignal.timeout(TOKEN_FILE_MS_MAX);
    bytes = await Deno.readFile(file.path, { signal });
  } catch (error) {
    throw cannotRead(file, error);
  }
  return parseTokens(file, decoder.decode(bytes));
}

/** Parses a token file: one token per line, ignoring empty lines. */
function parseTokens(
  { name, path }: FileSetting,
  text: string,
): readonly string[] {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  return readTokens(`${name}: ${path}`, lines);
}

function readTokens(
  name: string,
  texts: readonly string[],
): readonly string[] {
  const tokens = texts.map((text) => text.trim());
  if (tokens.length === 0 || tokens.includes("")) {
    throw new OperatorError(
      `${name}: expected a token, got an empty one: write one, or unset it`,
    );
  }
  const syntax = new RegExp(`^${BEARER_TOKEN}$`);
  const invalid = tokens.findIndex((token) => !syntax.test(token));
  if (invalid < 0) return tokens;
  // The message is logged, so it must not quote the token.
  const which = tokens.length === 1 ? "the token" : `token ${invalid + 1}`;
  throw new OperatorError(
    `${name}: ${which} has a character that a bearer token cannot have: ` +
      "write letters, digits and -._~+/ only, = at the end",
  );
}

function readBaseUrl(given: Given): string {
  const url = URL.parse(given.value);
  if (
    url !== null && /^https?:$/.test(url.protocol) && !/[?#]/.test(url.href) &&
    url.username === "" && url.password === ""
  ) return url.href.replace(/\/+$/, "");
  throw unexpected(given, "a URL such as https://plants.example/api");
}

function readPem(file: FileSetting, block: RegExp, expected: string): string {
  const pem = readFile(file);
  if (block.test(pem)) return pem;
  throw new OperatorError(
    `${file.name}: expected ${expected} as PEM in ${file.path}`,
  );
}

function readPrivateKey(file: FileSetting): string {
  const block = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
  const pem = readPem(file, block, "a private key");
  if (!/BEGIN ENCRYPTED|^Proc-Type: .*ENCRYPTED/m.test(pem)) return pem;
  throw new OperatorError(
    `${file.name}: expected a key without a passphrase in ${file.path}`,
  );
}

/** Reads a file at start-up. It may be a pipe, so the size is bounded. */
function readFile(file: FileSetting): string {
  const bytes = new Uint8Array(TOKEN_FILE_BYTES_MAX + 1);
  try {
    using open = Deno.openSync(file.path);
    for (let length = 0; length < bytes.length;) {
      const count = open.readSync(bytes.subarray(length));
      if (count === null) return decoder.decode(bytes.subarray(0, length));
      length += count;
    }
    throw new Error(TOO_LARGE);
  } catch (error) {
    throw cannotRead(file, error);
  }
}

function cannotRead(
  { name, path }: FileSetting,
  error: unknown,
): OperatorError {
  return new OperatorError(
    `${name}: cannot read ${path}: ${fileProblem(error)}`,
  );
}

function readLogFormat(given: Given): LogFormat {
  const { value } = given;
  if (value === "text" || value === "json") return value;
  throw unexpected(given, "text or json");
}
