import type { FileSetting } from "../config/files.ts";
import { reloadTokenFile } from "../config/tokens.ts";
import type { AcceptedTokens } from "./auth.ts";
import { countOf } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import type { Log } from "../telemetry/log.ts";

/** Reloads the token file on SIGHUP; an invalid file changes nothing. */
export function reloadOnHangup(
  file: FileSetting | undefined,
  tokens: AcceptedTokens,
  log: Log,
): void {
  // Needed without a file too: the default action of SIGHUP ends the process.
  Deno.addSignalListener("SIGHUP", () => {
    if (file === undefined) {
      log.info("tokens kept", "nothing to reload: no token file is configured");
      return;
    }
    try {
      tokens.replace(reloadTokenFile(file));
      const count = countOf(tokens.count, "token", "tokens");
      log.info("tokens reloaded", `reloaded ${count} from ${file.path}`);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      log.error("tokens kept", `the tokens did not change: ${error.message}`);
    }
  });
}
