import { setTimeout as sleep } from "node:timers/promises";
import type { Config, Settings } from "../config/settings.ts";
import { reportStart } from "../console/start_report.ts";
import { explain } from "../console/failures.ts";
import { stopSignal } from "../console/signals.ts";
import { AcceptedTokens } from "../http/auth.ts";
import { clientOriginOf } from "../http/origin.ts";
import { listen, tryToListen } from "../http/server.ts";
import { SWEEP_MS } from "../limits.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { saveLostStore } from "../save_lost.ts";
import { Service } from "../service.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openStore } from "../store/open.ts";
import { Log } from "../telemetry/log.ts";
import { countOf, errorMessage } from "../text.ts";
import { fingerprintsOf } from "../tokens.ts";

/** Time for the last replies to leave when the service stops. */
export const LAST_REPLIES_MS_MAX = 1_000;

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
    openStore(config.location, config.mayCreateStore),
    stop.then(() => undefined),
  ]);
  if (opened === undefined) return 0;
  const { store, isNew: isNewStore } = opened;
  const run = { store, isNewStore, config, log, tokens, generatedToken, stop };
  const exitStatus = await serveStore(run).finally(() => store.close());
  log.info("stopped", "stopped");
  return exitStatus;
}

/** What a run of the service needs. */
interface Run {
  readonly store: KvStore;
  /** Whether this start created the store. */
  readonly isNewStore: boolean;
  readonly config: Config;
  readonly log: Log;
  readonly tokens: AcceptedTokens;
  readonly generatedToken: string | undefined;
  /** Resolves when the service must stop. */
  readonly stop: Promise<Deno.Signal>;
}

/** Serves an open store until the service stops. Returns the exit status. */
async function serveStore(
  { store, isNewStore, config, log, tokens, generatedToken, stop }: Run,
): Promise<number> {
  // The service needs the address, which comes from the server. The server handles no
  // request before the next `await`, and by then the service exists.
  const server = listen(config, {
    handle: (request) => service.handle(request),
    log,
  });
  const { address } = server;
  const { location } = config;
  const baseUrl = config.baseUrl ?? clientOriginOf(address);
  /** Settles when the plants of a lost store are saved. */
  let saving: Promise<void> | undefined;
  const service = new Service({
    store,
    tokens,
    log,
    baseUrl,
    onHealthChange(error) {
      if (error === undefined) {
        log.info("store recovered", "the store has recovered");
        return;
      }
      const { kind } = error;
      const problem = `${location.name}: ${explain(error, location)}`;
      log.error("store failing", `the store fails (${kind}): ${problem}`);
      if (kind === "lost") {
        saving = saveLostStore(store, location.name, { log });
      }
    },
  });
  const sweeping = setInterval(() => service.sweep(), SWEEP_MS);
  reportStart(log, config, { address, baseUrl, isNewStore, generatedToken });

  const signal = await Promise.race([stop, server.ended]);
  if (signal === undefined) {
    log.error(
      "listener stuck",
      "no file descriptor is free for new connections: the service needs a restart",
    );
  }
  log.info("stopping", `${signal ?? "no descriptors"}: draining`);
  const closed = server.shutdown();
  await service.drain();
  // A client that never completes its request keeps its connection open.
  await Promise.race([closed, sleep(LAST_REPLIES_MS_MAX)]);
  clearInterval(sweeping);
  // The store may have been lost since the last sweep.
  service.sweep();
  await saving;
  return signal === undefined ? EXIT_FAILURE : 0;
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
    // Reading a pipe could block the service for ever. A start may read one.
    if (Deno.statSync(tokenFile).isFifo) {
      const setting = settings.nameOf("tokenFile");
      throw new OperatorError(`${setting}: ${tokenFile} is a pipe`);
    }
    const tokens = settings.tokens();
    accepted.replace(tokens);
    const count = countOf(tokens.length, "token", "tokens");
    const names = fingerprintsOf(tokens);
    log.info(
      "tokens reloaded",
      `reloaded ${count} from ${tokenFile}: ${names}`,
    );
  } catch (error) {
    const problem = errorMessage(error);
    log.error("tokens kept", `the tokens did not change: ${problem}`);
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
