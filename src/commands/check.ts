import type { SettingKey, Settings } from "../config/settings.ts";
import { printLine, writeStdout } from "../console/output.ts";
import { warningsOf } from "../console/warnings.ts";
import { originOf } from "../http/origin.ts";
import { tryToListen } from "../http/server.ts";
import { wouldCreateStore } from "../store/open.ts";
import { countOf } from "../text.ts";
import { fingerprintsOf } from "../tokens.ts";

/**
 * Checks the configuration as `serve` reads it, also while a service runs with
 * it: it inspects the store without opening it, and takes a free port of the host
 * for a moment instead of the configured one. It prints what `serve` would do, a
 * line for each setting that applies, without secrets, and warnings on stderr.
 *
 * Whether the directory of a missing store can be written shows only at a start,
 * because `check` creates nothing.
 * @returns the exit status
 * @throws {OperatorError} if `serve` would refuse the configuration
 * @throws {ListenError} if the host or the certificate cannot be used
 * @throws {StoreError} if the files show that `serve` could not use the store
 */
export async function check(settings: Settings): Promise<number> {
  const config = settings.config();
  const { host, port, tls, location, tokens, tokenFile, baseUrl } = config;
  const bound = tryToListen({ host, port: 0, tls });
  const isNewStore = wouldCreateStore(location, config.mayCreateStore);
  const lines: string[] = [];
  function add(key: SettingKey, text: string): void {
    lines.push(`${text} (${settings.sourceOf(key) ?? "default"})\n`);
  }
  add("host", `listens on ${host}`);
  add("port", port === 0 ? "takes a free port" : `listens on port ${port}`);
  const stores = isNewStore ? "creates a new store in" : "stores plants in";
  add("kv", `${stores} ${location.name}`);
  if (location.kind === "server") add("kvToken", "its token is set");
  else {
    const creates = config.mayCreateStore
      ? "creates a store if there is none"
      : "never creates a store";
    add("kvCreate", creates);
  }
  const count = countOf(tokens.length, "token", "tokens");
  const fingerprints = fingerprintsOf(tokens);
  if (tokenFile !== undefined) {
    add("tokenFile", `accepts ${count} in ${tokenFile}: ${fingerprints}`);
  } else if (tokens.length > 0) {
    add("accessToken", `accepts ${count}: ${fingerprints}`);
  } else add("accessToken", "generates a token");
  add("baseUrl", `is reached at ${baseUrl ?? "the address it listens on"}`);
  const tlsFiles = settings.tlsFiles();
  if (tlsFiles === undefined) add("tlsCert", "serves http");
  else {
    add("tlsCert", `serves https with the certificate in ${tlsFiles.cert}`);
    add("tlsKey", `its key is in ${tlsFiles.key}`);
  }
  add("logFormat", `logs as ${config.logFormat}`);
  await writeStdout(lines.join(""));
  const address = originOf(bound, port, tls !== undefined);
  for (const message of warningsOf(config, address).values()) {
    printLine(`warning: ${message}`);
  }
  return 0;
}
