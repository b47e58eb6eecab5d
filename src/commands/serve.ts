import { setTimeout as sleep } from "node:timers/promises";
import { type Config, type FileSetting, reloadTokens } from "../config.ts";
import { AcceptedTokens } from "../http/auth.ts";
import { RequestHandler } from "../http/handler.ts";
import { HttpServer, ListenError, type ListenProblem } from "../http/server.ts";
import { CHECK_MS, DRAIN_MS_MAX, REPLIES_MS_MAX } from "../limits.ts";
import {
  EXIT_CONFIGURATION,
  EXIT_FAILURE,
  OperatorError,
} from "../operator_error.ts";
import { Committer } from "../store/committer.ts";
import { StoreHealth } from "../store/health.ts";
import { Log } from "../telemetry/log.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { announce } from "./announce.ts";
import { onHangup, stopSignal } from "./signals.ts";
import { openForCreates } from "./store.ts";

/** Bytes of a generated token: 128 random bits cannot be guessed. */
const TOKEN_BYTES = 16;

/** Advice to the operator if the server cannot listen. */
const ADVICE: Readonly<Record<ListenProblem, string>> = {
  "address in use": ": stop it, or choose another --port",
  "address not available": ": choose another --host",
  "permission denied": ": choose a --port of 1024 or above",
  "certificate": ": check --tls-cert and --tls-key",
  "other": "",
};

/** Problems that only a different configuration solves. */
const PERMANENT: readonly ListenProblem[] = [
  "permission denied",
  "certificate",
];

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

  const store = await Promise.race([openForCreates(config.store), stop]);
  if (typeof store === "string") return 0;
  try {
    const server = new HttpServer(
      config,
      (request) => handler.handle(request),
      log,
    );
    const metrics = new Metrics();
    const health = new StoreHealth(store, (problem) => logHealth(log, problem));
    const committer = new Committer(store, {
      committed(plants, seconds) {
        metrics.commit(plants, seconds);
        health.committed();
      },
      failed: (problem) => health.failed(problem),
    });
    const baseUrl = config.baseUrl ?? server.origin;
    const handler: RequestHandler = new RequestHandler(
      { tokens, committer, health, log, metrics, baseUrl },
    );
    const checking = setInterval(() => {
      handler.expire();
      committer.expire();
      health.check();
    }, CHECK_MS);
    announce(log, config, { address: server.address, baseUrl, generatedToken });

    const signal = await Promise.race([stop, server.failed]);
    log.info(
      "stopping",
      `${signal}: answering running requests, then stopping`,
    );
    const isDrained = await drain(handler, server);
    clearInterval(checking);
    return reportStop(log, isDrained);
  } catch (error) {
    throw error instanceof ListenError ? listenFailure(config, error) : error;
  } finally {
    store.close();
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

function generateToken(): string {
  return crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)).toHex();
}

/** Reloads the token file on SIGHUP; an invalid file changes nothing. */
function reloadOnHangup(
  file: FileSetting | undefined,
  tokens: AcceptedTokens,
  log: Log,
): void {
  // Needed without a file too: the default action of SIGHUP ends the process.
  onHangup(async () => {
    if (file === undefined) return;
    try {
      const reloaded = await reloadTokens(file);
      tokens.replace(reloaded);
      const count = reloaded.length === 1
        ? "1 token"
        : `${reloaded.length} tokens`;
      log.info("tokens reloaded", `reloaded ${count} from ${file.path}`);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      log.error("tokens kept", `the tokens did not change: ${error.message}`);
    }
  });
}

/** Logs when the store starts to fail, and when it has recovered. */
function logHealth(log: Log, problem: string | undefined): void {
  if (problem === undefined) {
    log.info("store recovered", "the store has recovered");
  } else log.error("store failing", `the store fails: ${problem}`);
}

/** Stops the server; returns whether all requests were answered in time. */
async function drain(
  handler: RequestHandler,
  server: HttpServer,
): Promise<boolean> {
  const closed = server.shutdown();
  const isDrained = await Promise.race([
    handler.drain().then(() => true),
    sleep(DRAIN_MS_MAX, false),
  ]);
  // A client that never completes its request keeps its connection open. By the
  // time-out, the other replies have been sent.
  if (isDrained) await Promise.race([closed, sleep(REPLIES_MS_MAX)]);
  return isDrained;
}

/** Logs how the service stopped, and returns the exit status. */
function reportStop(log: Log, isDrained: boolean): number {
  if (isDrained) {
    log.info("stopped", "stopped");
    return 0;
  }
  const seconds = DRAIN_MS_MAX / 1000;
  log.error("stopped", `stopped with unanswered requests after ${seconds} s`);
  return EXIT_FAILURE;
}

function listenFailure(
  { host, port }: Config,
  { problem, message }: ListenError,
): OperatorError {
  return new OperatorError(
    `cannot listen on ${host} port ${port}: ${message}${ADVICE[problem]}`,
    PERMANENT.includes(problem) ? EXIT_CONFIGURATION : EXIT_FAILURE,
  );
}
