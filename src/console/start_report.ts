import { fingerprintsOf } from "../tokens.ts";
import type { Config } from "../config/settings.ts";
import { curlSample } from "../reference/samples.ts";
import { type Log, type LogFields, writeStderr } from "../telemetry/log.ts";
import { countOf, toLine } from "../text.ts";
import { VERSION } from "../version.ts";
import { warningsOf } from "./warnings.ts";

/** What a start has done. */
export interface StartReport {
  /** The bound address. */
  readonly address: string;
  readonly baseUrl: string;
  /** Whether this start created the store. */
  readonly isNewStore: boolean;
  /** `undefined` if tokens are configured. */
  readonly generatedToken: string | undefined;
}

/**
 * Reports a start: to people as plain lines and a sample call, to programs as
 * entries of the log. Warns of what may be a mistake.
 */
export function reportStart(
  log: Log,
  config: Config,
  { address, baseUrl, isNewStore, generatedToken }: StartReport,
): void {
  const isForPeople = config.logFormat === "text";
  function announce(
    level: "info" | "warn",
    event: string,
    message: string,
    fields?: LogFields,
  ): void {
    if (isForPeople) writeStderr(toLine(message));
    else log[level](event, message, fields);
  }
  const store = config.location.name;
  announce("info", "started", `Plant Store ${VERSION} listens on ${address}`, {
    version: VERSION,
    address,
    baseUrl,
    store,
    isNewStore,
  });
  const { tokens } = config;
  if (tokens.length > 0) {
    const count = countOf(tokens.length, "token", "tokens");
    announce("info", "tokens", `Accepts ${count}: ${fingerprintsOf(tokens)}`);
  }
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
    const condition = generatedToken === undefined
      ? ", with an accepted token in ACCESS_TOKEN"
      : "";
    const curl = curlSample(baseUrl, generatedToken);
    writeStderr(`
Create a plant${condition}:

  ${curl.replaceAll("\n", "\n  ")}

API reference: ${baseUrl}/
`);
  }
  for (const [event, message] of warningsOf(config, address)) {
    log.warn(event, message);
  }
}
