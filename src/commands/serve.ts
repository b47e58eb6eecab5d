import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config.ts";
import { AcceptedTokens } from "../http/auth.ts";
import { replyWhileStarting, RequestHandler } from "../http/handler.ts";
import { type Handler, HttpServer } from "../http/server.ts";
import { CHECK_MS, REPLIES_MS_MAX } from "../limits.ts";
import { Committer } from "../store/committer.ts";
import { StoreHealth } from "../store/health.ts";
import { Log } from "../telemetry/log.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { printBanner } from "./banner.ts";
import { listenFailure } from "./listen_failure.ts";
import { stopSignal } from "./signals.ts";
import { openForCreates } from "./store.ts";
import { generateToken, reloadOnHangup } from "./tokens.ts";

/**
 * Runs the service until a signal stops it.
 * @returns the exit status
 * @throws {OperatorError} if it cannot start or continue to listen
 */
export async function serve(config: Config): Promise<number> {
  const stop = stopSignal();
  const log = new Log(config.logFormat);
  logUnhandledErrors(log);
  const generatedToken = config.tokens.length > 0 ? undefined : generateToken();
  const tokens = new AcceptedTokens(
    generatedToken === undefined ? config.tokens : [generatedToken],
  );
  reloadOnHangup(config.tokenFile, tokens, log);

  // Listening first: a start that is refused creates no store.
  let handle: Handler = (request) =>
    Promise.resolve(replyWhileStarting(request));
  const server = listen(config, (request) => handle(request), log);

  const store = await Promise.race([openForCreates(config.store), stop]);
  if (typeof store === "string") return 0;
  try {
    const metrics = new Metrics();
    const health = new StoreHealth(store, (problem) => logHealth(log, problem));
    const committer = new Committer(store, {
      committed(seconds, plants) {
        metrics.commit(seconds, plants);
        health.committed(seconds);
      },
      failed: (problem) => health.failed(problem),
    });
    const baseUrl = config.baseUrl ?? server.origin;
    const handler = new RequestHandler(
      { tokens, committer, health, log, metrics, baseUrl },
    );
    setInterval(() => {
      handler.expire();
      committer.expire();
      health.check();
    }, CHECK_MS);
    handle = (request) => handler.handle(request);
    printBanner(log, config, {
      address: server.address,
      baseUrl,
      isNewStore: store.isNew,
      generatedToken,
    });

    try {
      const signal = await Promise.race([stop, server.failed]);
      log.info("stopping", `${signal}: draining`);
    } catch (error) {
      throw listenFailure(config, error);
    } finally {
      const closed = server.shutdown();
      await handler.drain();
      // A client that never completes its request keeps its connection open.
      await Promise.race([closed, sleep(REPLIES_MS_MAX)]);
    }
    log.info("stopped", "stopped");
    return 0;
  } finally {
    store.close();
  }
}

/** Starts to listen. @throws {OperatorError} */
function listen(config: Config, handler: Handler, log: Log): HttpServer {
  try {
    return new HttpServer(config, handler, log);
  } catch (error) {
    throw listenFailure(config, error);
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

/** Logs when the store starts to fail, and when it has recovered. */
function logHealth(log: Log, problem: string | undefined): void {
  if (problem === undefined) {
    log.info("store recovered", "the store has recovered");
  } else log.error("store failing", `the store fails: ${problem}`);
}
