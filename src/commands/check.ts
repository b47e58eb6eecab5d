import type { SettingKey, Settings } from "../config/settings.ts";
import { orListenFailure } from "../console/failures.ts";
import { writeStdout } from "../console/output.ts";
import { tryToListen } from "../http/server.ts";
import { countOf } from "../text.ts";

/**
 * Checks the configuration as `serve` reads it, also while a service runs with
 * it: it does not open the store, and takes a free port of the host for a moment
 * instead of the configured one. It prints what `serve` would do, a line for each
 * setting that applies, without secrets.
 * @returns the exit status
 * @throws {OperatorError} if `serve` would refuse the configuration
 */
export async function check(settings: Settings): Promise<number> {
  const config = settings.config();
  orListenFailure(settings, () => tryToListen({ ...config, port: 0 }));
  const { host, port, store, tokens, tokenFile, baseUrl } = config;
  const tlsFiles = settings.tlsFiles();
  const lines: string[] = [];
  function add(key: SettingKey, text: string): void {
    lines.push(`${text} (${settings.sourceOf(key)})\n`);
  }
  add("host", `listens on ${host}`);
  add("port", port === 0 ? "takes a free port" : `listens on port ${port}`);
  add("kv", `stores plants in ${store.name}`);
  if (store.token !== undefined) add("kvToken", "its token is set");
  const count = countOf(tokens.length, "token", "tokens");
  if (tokenFile !== undefined) {
    add("tokenFile", `accepts ${count} in ${tokenFile}`);
  } else if (tokens.length > 0) add("accessToken", `accepts ${count}`);
  else add("accessToken", "generates a token");
  add("baseUrl", `is reached at ${baseUrl ?? "the address it listens on"}`);
  if (tlsFiles === undefined) add("tlsCert", "serves http");
  else {
    add("tlsCert", `serves https with the certificate in ${tlsFiles.cert}`);
    add("tlsKey", `its key is in ${tlsFiles.key}`);
  }
  add("logFormat", `logs as ${config.logFormat}`);
  await writeStdout(lines.join(""));
  return 0;
}
