import type { Config } from "../config/settings.ts";
import { curlSample } from "../reference/samples.ts";
import { type Log, writeStderr } from "../telemetry/log.ts";
import { VERSION } from "../version.ts";
import { nameOf } from "./failures.ts";

/** The token of `deno task dev`, which is no secret. */
const DEV_TOKEN = "dev";

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

/** Prints the address, the store, and a sample call that creates a plant. */
export function printBanner(
  log: Log,
  config: Config,
  { address, baseUrl, isNewStore, generatedToken }: Started,
  print: (text: string) => void = writeStderr,
): void {
  const store = nameOf(config.store);
  const devToken = config.tokens.find((token) => token === DEV_TOKEN);
  const { tokenFile } = config;
  // The variable may have a list.
  const isList = config.tokens.length > 1 && tokenFile === undefined;
  const first = isList ? "${ACCESS_TOKEN%%,*}" : undefined;
  const curl = curlSample(baseUrl, generatedToken ?? devToken ?? first);
  const { logFormat } = config;
  const listens = `Plant Store ${VERSION} listens on ${address}`;
  // The journal needs no sample call, except for the token in it.
  const isEntry = logFormat === "json" ||
    (logFormat === "journal" && generatedToken === undefined);
  // The banner has it in the format for people.
  if (isNewStore && logFormat !== "text") {
    log.warn("new store", `created a new store in ${store}`);
  }
  if (isEntry) {
    log.info("started", listens, {
      version: VERSION,
      address,
      baseUrl,
      store,
      isNewStore,
      curl,
    });
    return;
  }
  const aboutStore = isNewStore
    ? `Created a new store in ${store}`
    : `The plants are stored in ${store}`;
  const aboutToken = generatedToken === undefined
    ? ""
    : "\nNo token is configured: the service generated the one below for this run";
  const from = tokenFile === undefined
    ? ""
    : ` to a token in ${tokenFile.path}`;
  const where = (generatedToken ?? devToken) === undefined
    ? `, in a terminal where ACCESS_TOKEN is set${from}`
    : "";
  print(`${listens}
${aboutStore}${aboutToken}

Create a plant${where}:

  ${curl.replaceAll("\n", "\n  ")}

API reference: ${baseUrl}/
`);
}
