import { AcceptedTokens } from "./auth.ts";
import { BodyReader } from "./body.ts";
import { Committer } from "./committer.ts";
import type { Config } from "./config.ts";
import {
  answerFault,
  makeHandler,
  type Service,
  SHUTTING_DOWN,
} from "./handler.ts";
import { DRAIN_MS_MAX, SWEEP_MS } from "./limits.ts";
import { Listener } from "./listener.ts";
import { Log } from "./log.ts";
import { EXIT_FAILURE } from "./start_error.ts";
import { openStore } from "./store.ts";
import { VERSION } from "./version.ts";

/** Windows has no SIGTERM; closing a console sends SIGBREAK there. */
const STOP_SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT", "SIGBREAK"]
  : ["SIGINT", "SIGTERM"];

/**
 * Signals this near to the first are the same request: `deno task` passes on
 * the SIGINT of a terminal, which the program gets from the terminal as well.
 */
const SAME_SIGNAL_MS_MAX = 500;

/** A token made for a run has as many random bytes as a SHA-256 half. */
const OWN_TOKEN_BYTES = 16;

/**
 * Runs the service until a signal stops it.
 * @returns the exit status
 * @throws {StartError} where it cannot start
 */
export async function serve(config: Config): Promise<number> {
  const stop = stopSignal();
  const log = new Log(config.logFormat);
  surviveFaults(log);

  const store = await Promise.race([openStore(config.store), stop]);
  if (typeof store === "string") return 0;

  const ownToken = config.tokens.length === 0 ? makeToken() : undefined;
  const service: Service = {
    tokens: new AcceptedTokens(
      ownToken === undefined ? config.tokens : [ownToken],
    ),
    bodies: new BodyReader(),
    committer: new Committer(store, (problem) => logStore(log, problem)),
    log,
    prefix: prefixOf(config.baseUrl),
    draining: false,
  };
  const listener = new Listener(config, {
    answer: makeHandler(service),
    answerFault: (error) => answerFault(service, error),
  }, log);
  const sweeping = setInterval(() => {
    service.bodies.sweep();
    service.committer.sweep();
  }, SWEEP_MS);
  logStart(config, listener.origin, ownToken, log);

  const signal = await stop;
  log.info("stopping", `${signal}: answering what runs, then stopping`);
  const drained = await drain(service, listener);
  clearInterval(sweeping);
  store.close();
  if (drained) {
    log.info("stopped", "stopped");
    return 0;
  }
  log.error(
    "stopped",
    `stopped with requests unanswered after ${DRAIN_MS_MAX / 1000} s`,
  );
  return EXIT_FAILURE;
}

/**
 * Listens for the signals that ask to stop. As process 1 of a container a
 * program without such a listener ignores them.
 * @returns the first signal; a second one ends the process at once
 */
function stopSignal(): Promise<Deno.Signal> {
  return new Promise((resolve) => {
    let firstMs = Infinity;
    for (const signal of STOP_SIGNALS) {
      Deno.addSignalListener(signal, () => {
        const nowMs = performance.now();
        if (nowMs - firstMs > SAME_SIGNAL_MS_MAX) Deno.exit(EXIT_FAILURE);
        firstMs = Math.min(firstMs, nowMs);
        resolve(signal);
      });
    }
  });
}

/** A fault that reached nobody is logged and does not end the process. */
function surviveFaults(log: Log): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    log.fault(event.reason);
  });
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    log.fault(event.error);
  });
}

/** Whether all was answered within {@link DRAIN_MS_MAX}. */
async function drain(service: Service, listener: Listener): Promise<boolean> {
  service.draining = true;
  service.bodies.refuseAll(SHUTTING_DOWN);
  return await Promise.race([
    Promise.all([listener.shutdown(), service.committer.idle()])
      .then(() => true),
    new Promise<boolean>((resolve) => setTimeout(resolve, DRAIN_MS_MAX, false)),
  ]);
}

function makeToken(): string {
  return crypto.getRandomValues(new Uint8Array(OWN_TOKEN_BYTES)).toHex();
}

function prefixOf(baseUrl: string | undefined): string {
  if (baseUrl === undefined) return "";
  const { pathname } = new URL(baseUrl);
  return pathname === "/" ? "" : pathname;
}

/** Once when the store begins to fail, and once when it is well again. */
function logStore(log: Log, problem: string | undefined): void {
  if (problem === undefined) log.info("store well", "the store is well again");
  else log.error("store failing", `the store fails: ${problem}`);
}

/** Says where the service is, where its data is, and how to create a plant. */
function logStart(
  config: Config,
  origin: string,
  ownToken: string | undefined,
  log: Log,
): void {
  const url = config.baseUrl ?? origin;
  const store = typeof config.store === "string"
    ? config.store
    : config.store.href;
  const curl = [
    `curl -i ${url}/plants`,
    `-H 'Authorization: Bearer ${ownToken ?? "'\"$ACCESS_TOKEN\"'"}'`,
    "-H 'Content-Type: application/json'",
    `-d '{"id": 1, "name": "Monstera", "tag": "climber"}'`,
  ];
  if (config.logFormat === "json") {
    log.info("started", `listening on ${origin}`, {
      version: VERSION,
      origin,
      url,
      store,
      curl: curl.join(" "),
    });
    return;
  }
  console.error(`Plant Store ${VERSION} listens on ${origin}
It keeps the plants in ${store}
${
    ownToken === undefined
      ? ""
      : "No token was configured: this run accepts the one below, and no other\n"
  }
Create a plant:

  ${curl.join(" \\\n    ")}
`);
}
