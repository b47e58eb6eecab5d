import { readAgain } from "../config/files.ts";
import type { Config } from "../config/settings.ts";
import { readTokenFile } from "../config/tokens.ts";
import { countOf } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import type { AcceptedTokens } from "../http/auth.ts";
import type { Log } from "../telemetry/log.ts";

/** The files that are read again. */
type Files = Pick<Config, "tokenFile" | "tls">;

/** Calls {@link reload} on SIGHUP. */
export function reloadOnHangup(
  files: Files,
  tokens: AcceptedTokens,
  log: Log,
): void {
  // Needed without a file too: the default action of SIGHUP ends the process.
  Deno.addSignalListener("SIGHUP", () => reload(files, tokens, log));
}

/**
 * Reloads the token file; an invalid file changes nothing. Warns if the
 * certificate has changed.
 */
export function reload(
  { tokenFile, tls }: Files,
  tokens: AcceptedTokens,
  log: Log,
): void {
  reloadTokens(tokenFile, tokens, log);
  if (tls !== undefined) warnOfNewCertificate(tls, log);
}

function reloadTokens(
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

/** The runtime cannot replace the certificate of a server that listens. */
function warnOfNewCertificate(
  { certFile, pair }: NonNullable<Config["tls"]>,
  log: Log,
): void {
  try {
    if (readAgain(certFile) === pair.cert) return;
    log.warn(
      "certificate changed",
      `${certFile.path} has changed: restart the service to use it`,
    );
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    log.warn("certificate not read", error.message);
  }
}
