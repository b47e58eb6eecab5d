import type { Config } from "../config/settings.ts";
import { curlSample } from "../reference/samples.ts";
import { type Log, type LogFields, writeStderr } from "../telemetry/log.ts";
import { toLine } from "../text.ts";
import { DENO_OLDEST, VERSION } from "../version.ts";

/** The properties of a service that is listening. */
export interface Started {
  /** The bound address. */
  readonly address: string;
  readonly baseUrl: string;
  /** Whether this start created the store. */
  readonly isNewStore: boolean;
  /** `undefined` if tokens are configured. */
  readonly generatedToken: string | undefined;
}

/**
 * Reports what a start has done: to people as plain lines and a sample call, to
 * programs as entries of the log. Warns of what may be a mistake.
 */
export function printBanner(
  log: Log,
  config: Config,
  { address, baseUrl, isNewStore, generatedToken }: Started,
  print: (text: string) => void = writeStderr,
): void {
  const isForPeople = config.logFormat === "text";
  function announce(
    level: "info" | "warn",
    event: string,
    message: string,
    fields?: LogFields,
  ): void {
    if (isForPeople) print(toLine(message));
    else log[level](event, message, fields);
  }
  const store = config.store.name;
  announce("info", "started", `Plant Store ${VERSION} listens on ${address}`, {
    version: VERSION,
    address,
    baseUrl,
    store,
    isNewStore,
  });
  if (isNewStore) {
    announce("warn", "new store", `Created a new store in ${store}`);
  } else announce("info", "store", `The plants are stored in ${store}`);
  if (generatedToken !== undefined) {
    announce(
      "warn",
      "token generated",
      `No token is configured, so this run accepts ACCESS_TOKEN=${generatedToken}`,
    );
  }
  if (isForPeople) {
    const which = generatedToken === undefined
      ? ", with an accepted token in ACCESS_TOKEN"
      : "";
    const curl = curlSample(baseUrl, generatedToken);
    print(`
Create a plant${which}:

  ${curl.replaceAll("\n", "\n  ")}

API reference: ${baseUrl}/
`);
  }

  const { deno } = Deno.version;
  if (deno.localeCompare(DENO_OLDEST, "en", { numeric: true }) < 0) {
    log.warn(
      "old Deno",
      `Deno ${deno} is older than ${DENO_OLDEST}: it closes connections after ` +
        "larger bodies, or can corrupt a store that two processes use",
    );
  }
  const isLoopback = /\/\/(127\.|\[::1\])/.test(address);
  const isPrivate = isLoopback || address.startsWith("https:");
  if (!isPrivate && config.baseUrl === undefined) {
    log.warn(
      "clear text",
      `${address} is not https, so tokens are sent in clear text: set TLS_CERT ` +
        "and TLS_KEY, or the BASE_URL of a proxy",
    );
  }
}
