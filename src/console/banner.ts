import type { Config } from "../config/settings.ts";
import { curlSample } from "../reference/samples.ts";
import { type Log, type LogFields, writeStderr } from "../telemetry/log.ts";
import { toLine } from "../text.ts";
import { VERSION } from "../version.ts";
import { explainValidity } from "./certificate.ts";

/** A host that is this machine, as `URL` normalizes it. */
const LOOPBACK = /^(127\.[\d.]+|\[::1\]|(.+\.)?localhost)$/;

/** The oldest version of Deno without known faults that concern the service. */
export const DENO_OLDEST = "2.9.6";

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
  const url = config.baseUrl ?? address;
  if (!url.startsWith("https:") && !LOOPBACK.test(new URL(url).hostname)) {
    log.warn(
      "clear text",
      `${url} is not https, so tokens are sent in clear text: set TLS_CERT ` +
        "and TLS_KEY, or the https address of a proxy as BASE_URL",
    );
  }
  const invalid = explainValidity(config.tls?.cert ?? "", Date.now());
  if (invalid !== undefined) log.warn("certificate", invalid);
}
