import { setTimeout as sleep } from "node:timers/promises";
import { fingerprintsOf } from "../tokens.ts";
import type { Settings, StoreSetting } from "../config/settings.ts";
import { reportStart } from "../console/start_report.ts";
import { explain } from "../console/failures.ts";
import { stopSignal } from "../console/signals.ts";
import { AcceptedTokens } from "../http/auth.ts";
import { clientOriginOf } from "../http/origin.ts";
import { listen, tryToListen } from "../http/server.ts";
import { SWEEP_MS } from "../limits.ts";
import { EXIT_FAILURE, fileFailure, OperatorError } from "../operator_error.ts";
import { Service } from "../service.ts";
import { openStore } from "../store/open.ts";
import { isOfKind, type StoreError } from "../store/store_error.ts";
import { Log } from "../telemetry/log.ts";
import { countOf, errorMessage } from "../text.ts";
import { saveLostStore } from "./save_lost.ts";

/** Time for the last replies to leave when the service stops. */
export const REPLIES_MS_MAX = 1_000;

/**
 * Runs the service until a signal stops it.
 * @returns the exit status
 * @throws {OperatorError} if a setting is invalid
 * @throws {ListenError} if it cannot listen
 * @throws {StoreError} if its store cannot be used
 */
export async function serve(settings: Settings): Promise<number> {
  const stop = stopSignal();
  const config = settings.config();
  const log = new Log(config.logFormat);
  logUnhandledErrors(log);
  const generatedToken = config.tokens.length === 0
    ? crypto.randomUUID()
    : undefined;
  const tokens = new AcceptedTokens(
    generatedToken === undefined ? config.tokens : [generatedToken],
  );
  // Also if there is no token file: the default action of SIGHUP ends the process.
  Deno.addSignalListener("SIGHUP", () => reload(settings, tokens, log));

  // Before the store: a start that cannot listen creates none.
  tryToListen(config);
  // A signal also ends a start that waits for its store.
  const opened = await Promise.race([
    openStore(config.location, config.mayCreateStore, {
      onDelay: (reason) => log.info("store opening", reason),
    }),
    stop.then(() => undefined),
  ]);
  if (opened === undefined) return 0;
  const { store, isNew } = opened;
  let exitStatus = 0;
  /** Settles when the plants of a lost store are saved. */
  let saving: Promise<void> | undefined;
  try {
    // The port may be 0, so the address of the service is known only when it listens.
    // No request arrives before there is a service: there is no `await` in between.
    const server = listen(config, {
      handle: (request) => service.handle(request),
      log,
    });
    const baseUrl = config.baseUrl ?? clientOriginOf(server.address);
    const service = new Service(store, {
      tokens,
      log,
      baseUrl,
      onHealthChange(error) {
        logHealth(error, config.location, log);
        if (!isOfKind(error, "lost")) return;
        saving = saveLostStore(store, config.location.name, { log, stop });
      },
    });
    const sweeping = setInterval(() => service.sweep(), SWEEP_MS);
    reportStart(log, config, {
      address: server.address,
      baseUrl,
      isNewStore: isNew,
      generatedToken,
    });

    const reason = await Promise.race([stop, server.ended]);
    if (reason === undefined) {
      exitStatus = EXIT_FAILURE;
      log.error(
        "listener stuck",
        "no file descriptor is free for new connections: the service needs a restart",
      );
    }
    log.info("stopping", `${reason ?? "no descriptors"}: draining`);
    const closed = server.shutdown();
    await service.drain();
    // A client that never completes its request keeps its connection open.
    await Promise.race([closed, sleep(REPLIES_MS_MAX)]);
    // Log what has happened to the store since the last sweep.
    service.sweep();
    clearInterval(sweeping);
    await saving;
  } finally {
    store.close();
  }
  log.info("stopped", "stopped");
  return exitStatus;
}

/** Reloads the token file; an invalid file changes nothing. */
function reload(
  settings: Settings,
  accepted: AcceptedTokens,
  log: Log,
): void {
  const tokenFile = settings.tokenFile();
  if (tokenFile === undefined) {
    log.info("tokens kept", "nothing to reload: no token file is configured");
    return;
  }
  try {
    requireRegularFile(settings.nameOf("tokenFile"), tokenFile);
    const tokens = settings.tokens();
    accepted.replace(tokens);
    const count = countOf(tokens.length, "token", "tokens");
    const which = fingerprintsOf(tokens);
    log.info(
      "tokens reloaded",
      `reloaded ${count} from ${tokenFile}: ${which}`,
    );
  } catch (error) {
    const why = errorMessage(error);
    log.error("tokens kept", `the tokens did not change: ${why}`);
  }
}

/**
 * Requires that the file of a setting is no pipe: reading from one could block the
 * running service for ever. A start may read one, because it blocks no request.
 * @throws {OperatorError}
 */
function requireRegularFile(setting: string, path: string): void {
  let isFile: boolean;
  try {
    isFile = Deno.statSync(path).isFile;
  } catch (error) {
    throw fileFailure(`${setting}: cannot read ${path}`, error);
  }
  if (!isFile) {
    throw new OperatorError(`${setting}: ${path} is not a regular file`);
  }
}

/** Logs that the store has started to fail, or that it works again. */
function logHealth(
  error: StoreError | undefined,
  location: StoreSetting,
  log: Log,
): void {
  if (error === undefined) {
    log.info("store recovered", "the store has recovered");
  } else {
    const problem = `${location.name}: ${explain(error, location)}`;
    log.error("store failing", `the store fails: ${problem}`);
  }
}

/** Logs unhandled errors, which would otherwise end the process. */
function logUnhandledErrors(log: Log): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    log.internalError(event.reason);
  });
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    log.internalError(event.error);
  });
}
