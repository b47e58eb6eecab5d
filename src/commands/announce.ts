import type { Config } from "../config.ts";
import { curlSample } from "../reference/samples.ts";
import { type Log, writeStderr } from "../telemetry/log.ts";
import { VERSION } from "../version.ts";
import { nameOf } from "./store.ts";

/** The properties of a service that is listening. */
interface Started {
  /** The bound address. */
  readonly address: string;
  readonly baseUrl: string;
  /** `undefined` if tokens are configured. */
  readonly generatedToken: string | undefined;
}

/** Prints the address, the store, and a sample call that creates a plant. */
export function announce(
  log: Log,
  config: Config,
  { address, baseUrl, generatedToken }: Started,
): void {
  const store = nameOf(config.store);
  const curl = curlSample(baseUrl, generatedToken);
  if (config.logFormat === "json") {
    log.info("started", `listening on ${address}`, {
      version: VERSION,
      address,
      baseUrl,
      store,
      curl: curl.replaceAll("\\\n  ", ""),
    });
    return;
  }
  const aboutToken = generatedToken === undefined
    ? ""
    : "\nNo token is configured: the one below is for this run only";
  writeStderr(`Plant Store ${VERSION} listens on ${address}
The plants are stored in ${store}${aboutToken}

Create a plant:

  ${curl.replaceAll("\n", "\n  ")}

API reference: ${baseUrl}/
`);
}
