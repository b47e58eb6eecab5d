/** The configuration: every setting in one table, and the flags' grammar. */
import { isIP } from "node:net";
import { resolve } from "node:path";
import { TOKEN_FILE_BYTES_MAX, TOKEN_FILE_MS_MAX } from "./limits.ts";
import { fileProblem } from "./messages.ts";
import { OperatorError } from "./operator_error.ts";
import type { StoreLocation } from "./store/kv_store.ts";
import type { LogFormat } from "./telemetry/log.ts";

/** The grammar of a bearer token (RFC 6750, section 2.1: `b64token`). */
export const BEARER_TOKEN = String.raw`[A-Za-z0-9\-._~+/]+=*`;

/** A given value, and the flag or variable that it came from. */
interface Given {
  readonly name: string;
  readonly value: string;
}

/** A setting: a flag, or the environment variable beside it; the flag wins. */
export interface Setting<Value = unknown> {
  /** Absent for secrets: the arguments of a process are public. */
  readonly flag?: string;
  readonly variable: string;
  /** Stands for the value in the help. */
  readonly placeholder: string;
  readonly fallback?: string;
  readonly help: string;
  /** Whether an empty variable is refused; it counts as unset otherwise. */
  readonly refusesEmpty?: true;
  /** @throws {OperatorError} that says what was expected */
  readonly read: (given: Given) => Value;
}

/** Every setting, in the order of the help. */
export const SETTINGS = {
  host: {
    flag: "--host",
    variable: "HOST",
    placeholder: "ADDRESS",
    fallback: "127.0.0.1",
    help: "address to listen on; 0.0.0.0 for all of the machine",
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
    help: "accepted tokens, one a line; reloaded on SIGHUP",
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
    help: "lines for people, or one JSON object a line",
    read: readLogFormat,
  },
} as const satisfies Readonly<Record<string, Setting>>;

/** The rows of {@link SETTINGS}. */
export const ALL_SETTINGS: readonly Setting[] = Object.values(SETTINGS);

/** A store as configured, without the token of a server. */
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
  /** Without a slash at its end; `undefined` means the bound address. */
  readonly baseUrl: string | undefined;
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  readonly logFormat: LogFormat;
}

/** A file, and the flag or variable that named it. */
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

/** The environment, as far as the configuration uses it. */
type Environment = Pick<typeof Deno.env, "get" | "set">;

/** A command line, split into words and values of flags. */
export interface CommandLine {
  readonly words: readonly string[];
  readonly flags: ReadonlyMap<string, string>;
  /** The first unknown, duplicate or incomplete flag, in words. */
  readonly problem: string | undefined;
}

/** Splits arguments into words and flags: `--flag value` or `--flag=value`. */
export function parseArguments(args: readonly string[]): CommandLine {
  const known = new Set(ALL_SETTINGS.map(({ flag }) => flag));
  const words: string[] = [];
  const flags = new Map<string, string>();
  const problems: string[] = [];
  const rest = args.values();
  for (const arg of rest) {
    if (!arg.startsWith("-") || arg === "-") {
      words.push(arg);
      continue;
    }
    const [, flag = arg, inline] = /^([^=]*)=(.*)$/s.exec(arg) ?? [];
    if (!known.has(flag)) {
      problems.push(`unknown flag ${flag}: see --help`);
      continue;
    }
    const value = inline ?? rest.next().value;
    if (value === undefined) {
      problems.push(`${flag} needs a value: see --help`);
    } else if (inline === undefined && value.startsWith("--")) {
      problems.push(`${flag} needs a value, got the flag ${value}`);
    } else if (flags.has(flag)) {
      problems.push(`${flag} is given twice: give it once`);
    } else {
      flags.set(flag, value);
    }
  }
  return { words, flags, problem: problems[0] };
}

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

  /** Reads what the service needs. @throws {OperatorError} */
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

  /** Reads where the plants are stored. @throws {OperatorError} */
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

  /** Reads where the service listens. @throws {OperatorError} */
  address(): Address {
    return {
      ...this.#listenAddress(),
      isTls: this.#given(SETTINGS.tlsCert) !== undefined,
    };
  }

  /** Reads the format of the log. @throws {OperatorError} */
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
    return { cert: readCertificate(cert), key: readPrivateKey(key) };
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
    const value = this.#variable(variable);
    if (value === undefined || (value === "" && !refusesEmpty)) {
      return undefined;
    }
    return { name: variable, value };
  }

  #variable(variable: string): string | undefined {
    try {
      return this.#env.get(variable);
    } catch {
      throw new OperatorError(`${variable}: expected UTF-8`);
    }
  }
}

/** Shows a value, unless it can contain a password. */
function show(value: string): string {
  return value.includes("@") ? "one with an @" : `"${value}"`;
}

function unexpected(
  { name, value }: Given,
  expected: string,
): OperatorError {
  return new OperatorError(`${name}: expected ${expected}, got ${show(value)}`);
}

function readHost(given: Given): string {
  // An IPv6 address may be in brackets, as in a URL.
  const inBrackets = /^\[(.*)\]$/.exec(given.value)?.[1];
  if (inBrackets !== undefined && isIP(inBrackets) === 6) return inBrackets;
  const { value } = given;
  const isName = /^[a-z\d_-]+(\.[a-z\d_-]+)*\.?$/i.test(value) &&
    !/^[\d.]+$/.test(value);
  if (isName || isIP(value) !== 0) return value;
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
 * Reads the tokens of a file again while the service runs. Only regular files:
 * reading a pipe could wait for ever.
 * @throws {OperatorError} if the file cannot be read, or a line is not a token
 */
export async function reloadTokens(
  file: FileSetting,
): Promise<readonly string[]> {
  try {
    const { isFile, size } = await Deno.stat(file.path);
    if (!isFile) throw new Error("not a regular file");
    if (size > TOKEN_FILE_BYTES_MAX) throw new Error("too large");
    const signal = AbortSignal.timeout(TOKEN_FILE_MS_MAX);
    return parseTokens(file, await Deno.readTextFile(file.path, { signal }));
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw cannotRead(file, error);
  }
}

/** Parses the text of a token file: one token a line, empty lines ignored. */
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
  // Never quote the token: this message is logged.
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

function readCertificate(file: FileSetting): string {
  const pem = readFile(file);
  if (/-----BEGIN CERTIFICATE-----/.test(pem)) return pem;
  throw new OperatorError(
    `${file.name}: expected a certificate as PEM in ${file.path}`,
  );
}

function readPrivateKey(file: FileSetting): string {
  const pem = readFile(file);
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) {
    throw new OperatorError(
      `${file.name}: expected a private key as PEM in ${file.path}`,
    );
  }
  if (!/BEGIN ENCRYPTED|^Proc-Type: .*ENCRYPTED/m.test(pem)) return pem;
  throw new OperatorError(
    `${file.name}: expected a key without a passphrase in ${file.path}`,
  );
}

function readFile(file: FileSetting): string {
  try {
    return Deno.readTextFileSync(file.path);
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
