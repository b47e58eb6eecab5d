import type { Config } from "../config/settings.ts";
import { curlSample } from "../reference/samples.ts";
import { type Log, writeStderr } from "../telemetry/log.ts";
import { DENO_OLDEST, VERSION } from "../version.ts";
import { nameOf } from "./failures.ts";

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

/** Logs what a start has done, and prints a sample call for people. */
export function printBanner(
  log: Log,
  config: Config,
  { address, baseUrl, isNewStore, generatedToken }: Started,
  print: (text: string) => void = writeStderr,
): void {
  const store = nameOf(config.store);
  const fields = { version: VERSION, address, baseUrl, store, isNewStore };
  log.info("started", `Plant Store ${VERSION} listens on ${address}`, fields);
  if (isNewStore) log.warn("new store", `created a new store in ${store}`);
  else log.info("store", `the plants are stored in ${store}`);
  if (generatedToken !== undefined) {
    log.warn(
      "token generated",
      "no token is configured, so this run has a generated one: to keep it, " +
        `set ACCESS_TOKEN=${generatedToken}`,
    );
  }
  const { deno } = Deno.version;
  if (deno.localeCompare(DENO_OLDEST, "en", { numeric: true }) < 0) {
    log.warn(
      "old Deno",
      `Deno ${deno} is older than ${DENO_OLDEST}: it closes connections after ` +
        "larger bodies, or can corrupt a store that two processes use",
    );
  }
  const isPrivate = /^https:|\/\/(127\.|\[::1\])/.test(address);
  if (!isPrivate && !baseUrl.startsWith("https:")) {
    log.warn(
      "clear text",
      `${address} is not https, so tokens are sent in clear text: set ` +
        "TLS_CERT and TLS_KEY, or the BASE_URL of a proxy that serves https",
    );
  }
  if (config.logFormat !== "text") return;
  const which = generatedToken === undefined
    ? ", with an accepted token in ACCESS_TOKEN"
    : "";
  print(`
Create a plant${which}:

  ${curlSample(baseUrl, generatedToken).replaceAll("\n", "\n  ")}

API reference: ${baseUrl}/
`);
}
