import type { SettingKey, Settings } from "../config/settings.ts";
import { orListenFailure } from "../console/failures.ts";
import { writeStdout } from "../console/output.ts";
import { tryToListen } from "../http/server.ts";
import { countOf } from "../text.ts";

/**
 * Checks the configuration as `serve` reads it, also while a service runs with
 * it: it does not open the store, and takes a free port of the host for a moment
 * instead of the configured one. It prints what `serve` would do, a line for each
 * setting, without secrets.
 * @returns the exit status
 * @throws {OperatorError} if `serve` would refuse the configuration
 */
export async function check(settings: Settings): Promise<number> {
  const config = settings.config();
  orListenFailure(settings, () => tryToListen({ ...config, port: 0 }));
  const { host, port, baseUrl, tls, tokens, tokenFile } = config;
  const count = countOf(tokens.length, "token", "tokens");
  const rows: [key: SettingKey, text: string][] = [
    ["host", `listens on ${host}`],
    ["port", port === 0 ? "takes a free port" : `listens on port ${port}`],
    ["kv", `stores plants in ${config.store.name}`],
    tokenFile === undefined
      ? [
        "accessToken",
        tokens.length ? `accepts ${count}` : "generates a token",
      ]
      : ["tokenFile", `accepts ${count} in ${tokenFile}`],
    ["baseUrl", `is reached at ${baseUrl ?? "the address it listens on"}`],
    ["tlsCert", tls ? "serves https" : "serves http"],
    ["logFormat", `logs as ${config.logFormat}`],
  ];
  const lines = rows
    .map(([key, text]) => `${text} (${settings.sourceOf(key)})\n`);
  await writeStdout(lines.join(""));
  return 0;
}
