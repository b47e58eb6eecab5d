import { readAgain } from "../config/files.ts";
import type { Config } from "../config/settings.ts";
import { readTokenFile } from "../config/tokens.ts";
import { countOf } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import type { AcceptedTokens } from "../http/auth.ts";
import type { Log } from "../telemetry/log.ts";

/** Reloads the token file; an invalid file changes nothing. */
export function reload(
  file: Config["tokenFile"],
  tokens: AcceptedTokens,
  log: Log,
): void {
  if (file === undefined) {
    log.info("tokens kept", "nothing to reload: no token file is configured");
    return;
  }
  try {
    tokens.replace(readTokenFile(file, readAgain));
    const count = countOf(tokens.count, "token", "tokens");
    log.info("tokens reloaded", `reloaded ${count} from ${file.path}`);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    log.error("tokens kept", `the tokens did not change: ${error.message}`);
  }
}
