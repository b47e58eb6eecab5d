/** The configuration: a table of all settings, and their evaluation. */
import { OperatorError } from "../operator_error.ts";
import { realPathOf } from "../store/files/file_system.ts";
import { KV_TOKEN, type StoreLocation } from "../store/location.ts";
import type { LogFormat } from "../telemetry/log.ts";
import { type FileSetting, readFile } from "./files.ts";
import { readKvToken, readTokenFile, readTokens } from "./tokens.ts";
import {
  type RawValue,
  readBaseUrl,
  readFileOrServer,
  readHost,
  readLogFormat,
  readPath,
  readPort,
} from "./values.ts";

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
    help:
      "accepted tokens, separated by commas; without any, one is generated for the run",
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

/** The name of a setting. */
export type SettingKey = keyof typeof SETTINGS;

/** The rows of {@link SETTINGS}. */
export const ALL_SETTINGS: readonly Setting[] = Object.values(SETTINGS);

/** The validated configuration of a run of the service. */
export type Config = Readonly<ReturnType<Settings["config"]>>;

/** Where a running service listens, for its clients and its health check. */
export type Address = Readonly<ReturnType<Settings["address"]>>;

/**
 * The configuration from flags and environment. Each reader evaluates only the
 * settings that its command needs: an export does not read the TLS key.
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

  /** Returns the flag or variable that has a value, or `default`. */
  sourceOf(key: SettingKey): string {
    return this.#raw(SETTINGS[key])?.name ?? "default";
  }

  /** Reads the configuration of the service. @throws {OperatorError} */
  config() {
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
    const setting = this.#nameOf(SETTINGS.kv);
    if (store instanceof URL) {
      const token = readKvToken(this.#variable(KV_TOKEN));
      return { kind: "server", setting, url: store.href, token };
    }
    return { kind: "file", setting, path: realPathOf(store) };
  }

  /** Reads the address of the service. @throws {OperatorError} */
  address() {
    return {
      host: this.#readOrDefault(SETTINGS.host),
      port: this.#readOrDefault(SETTINGS.port),
      /** Without a trailing slash; `undefined` means the bound address. */
      baseUrl: this.#read(SETTINGS.baseUrl),
      isTls: this.#raw(SETTINGS.tlsCert) !== undefined,
      /** The flag or variable of each of these, for messages. */
      names: {
        host: this.#nameOf(SETTINGS.host),
        port: this.#nameOf(SETTINGS.port),
        baseUrl: this.#nameOf(SETTINGS.baseUrl),
        tlsCert: this.#nameOf(SETTINGS.tlsCert),
        tlsKey: this.#nameOf(SETTINGS.tlsKey),
      },
    };
  }

  /** Reads the log format. @throws {OperatorError} */
  logFormat(): LogFormat {
    return this.#readOrDefault(SETTINGS.logFormat);
  }

  #tokens(file: FileSetting | undefined): readonly string[] {
    const tokens = this.#read(SETTINGS.accessToken);
    if (file === undefined) return tokens ?? [];
    if (tokens === undefined) return readTokenFile(file);
    throw new OperatorError(
      `ACCESS_TOKEN and ${file.name} are both given: give one of them`,
    );
  }

  #tls(): Deno.TlsCertifiedKeyPem | undefined {
    const cert = this.#read(SETTINGS.tlsCert);
    const key = this.#read(SETTINGS.tlsKey);
    if (cert !== undefined && key !== undefined) {
      // The runtime checks them when it listens.
      return { cert: readFile(cert), key: readFile(key) };
    }
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

  /** Returns the flag or variable that has a value, or else the flag. */
  #nameOf(setting: Setting & { readonly flag: string }): string {
    return this.#raw(setting)?.name ?? setting.flag;
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
