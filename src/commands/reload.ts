import { readTokenFile } from "../config/files.ts";
import type { Config } from "../config/settings.ts";
import type { AcceptedTokens } from "../http/auth.ts";
import { countOf, errorMessage } from "../messages.ts";
import type { Log } from "../telemetry/log.ts";

/** Reloads the token file; an invalid file changes nothing. */
export function reload(
  file: Config["tokenFile"],
  accepted: AcceptedTokens,
  log: Log,
): void {
  if (file === undefined) {
    log.info("tokens kept", "nothing to reload: no token file is configured");
    return;
  }
  try {
    // Reading from a pipe could block the service for ever.
    if (!Deno.statSync(file).isFile) {
      throw new Error(`${file} is not a regular file`);
    }
    const tokens = readTokenFile(file);
    accepted.replace(tokens);
    const count = countOf(tokens.length, "token", "tokens");
    log.info("tokens reloaded", `reloaded ${count} from ${file}`);
  } catch (error) {
    const why = errorMessage(error);
    log.error("tokens kept", `the tokens did not change: ${why}`);
  }
}
