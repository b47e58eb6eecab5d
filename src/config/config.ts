/** The configuration of a run: the settings from flags and the environment. */
import { OperatorError } from "../operator_error.ts";
import type { StoreLocation } from "../store/location.ts";
import type { LogFormat } from "../telemetry/log.ts";
import type { FileSetting } from "./files.ts";
import { type RawValue, type Setting, SETTINGS } from "./settings.ts";
import { readTlsPair } from "./tls.ts";
import { KV_TOKEN, readKvToken, readTokenFile } from "./tokens.ts";

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
      const token = readKvToken(this.#variable(KV_TOKEN));
      return { kind: "server", url: store.href, token };
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
