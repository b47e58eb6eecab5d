/** The configuration: a table of all settings, and their evaluation. */
import { fileFailure, OperatorError } from "../operator_error.ts";
import { realPathOf } from "../store/files/real_path.ts";
import { KV_TOKEN_VARIABLE, type StoreLocation } from "../store/open.ts";
import type { LogFormat } from "../telemetry/log.ts";
import { parseTokens, TOKENS_EXPECTED } from "../tokens.ts";
import {
  parseBaseUrl,
  parseHost,
  parseKvToken,
  parseLogFormat,
  parsePath,
  parsePort,
  parseStore,
  parseYesOrNo,
} from "./values.ts";

/** A setting: a flag, which takes precedence, or an environment variable. */
interface Setting<Value = unknown> {
  /** Without dashes; absent for a secret: the arguments of a process are public. */
  readonly flag?: string;
  readonly variable: string;
  /** Placeholder of the value in the help. */
  readonly placeholder: string;
  readonly default?: string;
  readonly help: string;
  /** Whether an empty variable is refused rather than counting as unset. */
  readonly refusesEmpty?: true;
  /** What a valid value is; defaults to the placeholder. */
  readonly expected?: string;
  /** Returns `undefined` if the value is invalid. */
  readonly parse: (text: string) => Value | undefined;
}

/** What a valid path is. */
const A_PATH = "a path without control characters";

/** Every setting, in the order of the help. */
const SETTINGS = {
  host: {
    flag: "host",
    variable: "HOST",
    placeholder: "ADDRESS",
    default: "127.0.0.1",
    help: "address to listen on; 0.0.0.0 for all interfaces",
    expected: "an address without a zone, or a name",
    parse: parseHost,
  },
  port: {
    flag: "port",
    variable: "PORT",
    placeholder: "NUMBER",
    default: "8000",
    help: "port to listen on; 0 picks a free one",
    expected: "a whole number from 0 to 65535",
    parse: parsePort,
  },
  kv: {
    flag: "kv",
    variable: "KV_PATH",
    placeholder: "FILE|URL",
    default: "plants.db",
    help: "file of the store, or URL of a KV Connect server",
    expected:
      `${A_PATH}, other than :memory:, or an http or https URL without a user`,
    parse: parseStore,
  },
  kvCreate: {
    flag: "kv-create",
    variable: "KV_CREATE",
    placeholder: "yes|no",
    default: "yes",
    help: "whether serve and import create a missing store",
    parse: parseYesOrNo,
  },
  kvToken: {
    variable: KV_TOKEN_VARIABLE,
    placeholder: "TOKEN",
    help: "token of the KV Connect server",
    expected: "a token without white space or characters beyond ASCII",
    parse: parseKvToken,
  },
  accessToken: {
    variable: "ACCESS_TOKEN",
    placeholder: "TOKEN[,TOKEN]",
    help: "accepted tokens, separated by commas; by default, one is generated",
    refusesEmpty: true,
    expected: TOKENS_EXPECTED,
    parse: (text) => parseTokens(text.split(",")),
  },
  tokenFile: {
    flag: "token-file",
    variable: "ACCESS_TOKEN_FILE",
    placeholder: "FILE",
    help: "accepted tokens, one per line; reloaded on SIGHUP",
    refusesEmpty: true,
    expected: A_PATH,
    parse: parsePath,
  },
  baseUrl: {
    flag: "base-url",
    variable: "BASE_URL",
    placeholder: "URL",
    help:
      "address for clients, without /plants, such as https://plants.example/api",
    expected: "an http or https URL without a user, a query or a fragment",
    parse: parseBaseUrl,
  },
  tlsCert: {
    flag: "tls-cert",
    variable: "TLS_CERT",
    placeholder: "FILE",
    help: "certificate chain as PEM: serves https",
    expected: A_PATH,
    parse: parsePath,
  },
  tlsKey: {
    flag: "tls-key",
    variable: "TLS_KEY",
    placeholder: "FILE",
    help: "private key of the certificate as PEM",
    expected: A_PATH,
    parse: parsePath,
  },
  logFormat: {
    flag: "log-format",
    variable: "LOG_FORMAT",
    placeholder: "text|json|journal",
    default: "text",
    help: "lines for people, JSON objects, or lines with systemd's levels",
    parse: parseLogFormat,
  },
} as const satisfies Readonly<Record<string, Setting>>;

/** The name of a setting. */
export type SettingKey = keyof typeof SETTINGS;

/** The rows of {@link SETTINGS}. */
export const ALL_SETTINGS: readonly Setting[] = Object.values(SETTINGS);

/** The text of a setting, and the flag or variable that has it. */
interface Written {
  readonly name: string;
  readonly text: string;
}

/** The address of the service. */
interface Address {
  readonly host: string;
  readonly port: number;
  /** Without a trailing slash; `undefined` means the bound address. */
  readonly baseUrl: string | undefined;
}

/** The validated configuration of a run of the service. */
export interface Config extends Address {
  readonly logFormat: LogFormat;
  readonly tls: Deno.TlsCertifiedKeyPem | undefined;
  /** Empty if no token is configured. */
  readonly tokens: readonly string[];
  readonly tokenFile: string | undefined;
  /** Where the store is. */
  readonly location: StoreLocation;
  /** Whether a missing or an empty file may become the store. */
  readonly mayCreateStore: boolean;
}

/**
 * The configuration from flags and environment. Each method evaluates only the
 * settings that its command needs: an export does not read the TLS key.
 */
export class Settings {
  readonly #flags: Readonly<Record<string, string | undefined>>;
  readonly #readVariable: (name: string) => string | undefined;

  /** @param flags the values of flags, by their names without dashes */
  constructor(
    flags: Readonly<Record<string, string | undefined>>,
    readVariable: (name: string) => string | undefined,
  ) {
    this.#flags = flags;
    this.#readVariable = readVariable;
  }

  /** Returns the flag or variable that has a setting, `undefined` if none has it. */
  sourceOf(key: SettingKey): string | undefined {
    return this.#written(SETTINGS[key])?.name;
  }

  /** Returns the names of settings for messages: their sources, or how to set them. */
  nameOf(...keys: readonly SettingKey[]): string {
    const names = keys.map((key) => {
      const { flag, variable }: Setting = SETTINGS[key];
      return this.sourceOf(key) ?? (flag ? `--${flag}` : variable);
    });
    return names.join(", ");
  }

  /** Reads the configuration of the service. @throws {OperatorError} */
  config(): Config {
    this.#refuse("listen on another address", "DENO_SERVE_ADDRESS");
    return {
      ...this.address(),
      logFormat: this.logFormat(),
      tls: this.tls(),
      tokens: this.tokens(),
      tokenFile: this.tokenFile(),
      location: this.store(),
      mayCreateStore: this.mayCreateStore(),
    };
  }

  /** Reads the location of the store. @throws {OperatorError} */
  store(): StoreLocation {
    this.#refuse(
      "open another store",
      "DENO_KV_DB_MODE",
      "DENO_KV_PATH_PREFIX",
    );
    // A path or a URL.
    const store: string | URL = this.#orDefault(SETTINGS.kv);
    const setting = this.nameOf("kv");
    if (typeof store === "string") {
      return { setting, kind: "file", name: realPathOf(store) };
    }
    const token = this.#ifWritten(SETTINGS.kvToken);
    if (token !== undefined) {
      return { setting, kind: "server", name: store.href, token };
    }
    throw new OperatorError(
      `${KV_TOKEN_VARIABLE} is not set: a KV Connect server needs its token`,
    );
  }

  /** Reads whether a command may create the store. @throws {OperatorError} */
  mayCreateStore(): boolean {
    return this.#orDefault(SETTINGS.kvCreate);
  }

  /** Reads the address of the service. @throws {OperatorError} */
  address(): Address {
    return {
      host: this.#orDefault(SETTINGS.host),
      port: this.#orDefault(SETTINGS.port),
      baseUrl: this.#ifWritten(SETTINGS.baseUrl),
    };
  }

  /** Reads the port of a running service. @throws {OperatorError} if it is 0 */
  knownPort(): number {
    const { port } = this.address();
    if (port !== 0) return port;
    const name = this.nameOf("port");
    throw new OperatorError(`${name}: expected the port of the service, got 0`);
  }

  /** Whether the service uses TLS, without reading its certificate. */
  isTls(): boolean {
    return this.sourceOf("tlsCert") !== undefined;
  }

  /** Reads the log format. @throws {OperatorError} */
  logFormat(): LogFormat {
    return this.#orDefault(SETTINGS.logFormat);
  }

  /** Reads the path of the token file. @throws {OperatorError} */
  tokenFile(): string | undefined {
    return this.#ifWritten(SETTINGS.tokenFile);
  }

  /** Reads the accepted tokens, from the file if there is one. @throws {OperatorError} */
  tokens(): readonly string[] {
    const tokens = this.#ifWritten(SETTINGS.accessToken);
    const file = this.tokenFile();
    if (file === undefined) return tokens ?? [];
    const setting = this.nameOf("tokenFile");
    if (tokens !== undefined) {
      throw new OperatorError(
        `${this.nameOf("accessToken")} and ${setting} are both given: ` +
          "give one of them",
      );
    }
    const lines = readFile(setting, file).trim().split(/\s*\n\s*/);
    const accepted = parseTokens(lines);
    if (accepted !== undefined) return accepted;
    throw new OperatorError(
      `${setting}: expected ${TOKENS_EXPECTED}, one per line, in ${file}`,
    );
  }

  /** Reads the paths of the certificate and its key. @throws {OperatorError} */
  tlsFiles(): { readonly cert: string; readonly key: string } | undefined {
    const cert = this.#ifWritten(SETTINGS.tlsCert);
    const key = this.#ifWritten(SETTINGS.tlsKey);
    if (cert === undefined && key === undefined) return undefined;
    if (cert !== undefined && key !== undefined) return { cert, key };
    const given = this.nameOf(cert === undefined ? "tlsKey" : "tlsCert");
    throw new OperatorError(
      `${given} is given alone: give a certificate and its key`,
    );
  }

  /**
   * Reads the certificate and its key, which the runtime checks when it listens.
   * @throws {OperatorError}
   */
  tls(): Deno.TlsCertifiedKeyPem | undefined {
    const files = this.tlsFiles();
    if (files === undefined) return undefined;
    return {
      cert: readFile(this.nameOf("tlsCert"), files.cert),
      key: readFile(this.nameOf("tlsKey"), files.key),
    };
  }

  /**
   * Refuses variables that make Deno do something else than configured. Any value but
   * an empty one is refused: in a later Deno, other values may have an effect.
   * @throws {OperatorError}
   */
  #refuse(effect: string, ...variables: readonly string[]): void {
    for (const name of variables) {
      if (this.#variable(name)) {
        throw new OperatorError(`unset ${name}, which makes Deno ${effect}`);
      }
    }
  }

  /** Returns the value of a setting, or its default. @throws {OperatorError} */
  #orDefault<Value>(
    setting: Setting<Value> & { readonly default: string },
  ): Value {
    const byDefault = { name: "default", text: setting.default };
    return parseSetting(setting, this.#written(setting) ?? byDefault);
  }

  /** Returns the value of a setting, if there is one. @throws {OperatorError} */
  #ifWritten<Value>(setting: Setting<Value>): Value | undefined {
    const written = this.#written(setting);
    return written && parseSetting(setting, written);
  }

  /** Returns what is written for a setting: in its flag, or else in its variable. */
  #written({ flag, variable, refusesEmpty }: Setting): Written | undefined {
    const value = flag === undefined ? undefined : this.#flags[flag];
    if (value !== undefined) return { name: `--${flag}`, text: value };
    const text = this.#variable(variable);
    if (text === undefined || (text === "" && !refusesEmpty)) return undefined;
    return { name: variable, text };
  }

  #variable(name: string): string | undefined {
    try {
      return this.#readVariable(name);
    } catch {
      // Deno's message may contain the value, which may be a secret.
      throw new OperatorError(
        `cannot read ${name}: it is not UTF-8, or Deno needs --allow-env`,
      );
    }
  }
}

/** Parses what is written for a setting. @throws {OperatorError} if it is invalid */
function parseSetting<Value>(
  setting: Setting<Value>,
  { name, text }: Written,
): Value {
  const value = setting.parse(text);
  if (value !== undefined) return value;
  const expected = setting.expected ?? setting.placeholder;
  if (text === "") {
    throw new OperatorError(`${name} is empty: expected ${expected}`);
  }
  // A URL with an @ may contain a password.
  const isSecret = setting.flag === undefined || text.includes("@");
  // As JSON, which shows a line break at the end.
  const got = isSecret ? "" : `, got ${JSON.stringify(text)}`;
  throw new OperatorError(`${name}: expected ${expected}${got}`);
}

/** Reads the file of a setting. @throws {OperatorError} if this is impossible */
function readFile(setting: string, path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw fileFailure(`${setting}: cannot read ${path}`, error);
  }
}
