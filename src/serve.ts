import { setTimeout as sleep } from "node:timers/promises";
import { AcceptedTokens } from "./auth.ts";
import { BodyReader } from "./body.ts";
import { type CommitStore, Committer } from "./committer.ts";
import { type Config, readTokenFile, type TokenFile } from "./config.ts";
import { makeHandler, type Service, SHUTTING_DOWN } from "./handler.ts";
import { DRAIN_MS_MAX, REPLIES_MS_MAX, SWEEP_MS } from "./limits.ts";
import { type Handler, Listener } from "./listener.ts";
import { Log } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { printError } from "./output.ts";
import { curlSample } from "./page.ts";
import { EXIT_FAILURE, StartError } from "./start_error.ts";
import { openStore, type Store } from "./store.ts";
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

/** How often a stop looks whether all is answered. */
const DRAIN_LOOK_MS = 10;

/** A token made for a run has 128 random bits: nobody guesses it. */
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
  const ownToken = config.tokens.length === 0 ? makeToken() : undefined;
  const tokens = new AcceptedTokens(
    ownToken === undefined ? config.tokens : [ownToken],
  );
  reloadTokens(config.tokenFile, tokens, log);

  const store = await Promise.race([openStore(config.store), stop]);
  if (typeof store === "string") return 0;

  const listener = listen(config, (request) => handle(request), log, store);
  const metrics = new Metrics();
  const service: Service = {
    tokens,
    bodies: new BodyReader(),
    committer: new Committer(
      measured(store, metrics),
      (problem) => logStore(log, problem),
    ),
    store,
    log,
    metrics,
    baseUrl: config.baseUrl ?? listener.origin,
    running: 0,
    isDraining: false,
  };
  const handle = makeHandler(service);
  const sweeping = setInterval(() => {
    service.bodies.sweep();
    service.committer.sweep();
  }, SWEEP_MS);
  logStart(config, listener.address, service, ownToken);

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
    // Whoever closes the terminal would not find the service any more.
    if (!Deno.stderr.isTerminal() || Deno.build.os === "windows") return;
    Deno.addSignalListener("SIGHUP", () => {
      if (!Deno.stderr.isTerminal()) resolve("SIGHUP");
    });
  });
}

/** Listens, or else leaves the store as it is left after a run. */
function listen(
  config: Config,
  handler: Handler,
  log: Log,
  store: Store,
): Listener {
  try {
    return new Listener(config, handler, log);
  } catch (error) {
    store.close();
    throw error;
  }
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
  const untilMs = performance.now() + DRAIN_MS_MAX;
  service.isDraining = true;
  service.bodies.refuseAll(SHUTTING_DOWN);
  const closed = listener.shutdown();
  while (service.running > 0) {
    if (performance.now() > untilMs) return false;
    await sleep(DRAIN_LOOK_MS);
  }
  // A client that never sends the rest of its request holds its connection
  // open; the replies to the others have left by then.
  await Promise.race([closed, sleep(REPLIES_MS_MAX)]);
  return true;
}

function makeToken(): string {
  return crypto.getRandomValues(new Uint8Array(OWN_TOKEN_BYTES)).toHex();
}

/**
 * Reads the token file again on SIGHUP, which Windows does not have. A file
 * that has become bad leaves the tokens as they are.
 */
function reloadTokens(
  file: TokenFile | undefined,
  tokens: AcceptedTokens,
  log: Log,
): void {
  if (Deno.build.os === "windows") return;
  Deno.addSignalListener("SIGHUP", () => {
    if (file === undefined) return;
    try {
      const read = readTokenFile(file);
      tokens.replace(read);
      log.info(
        "tokens read",
        `tokens read again from ${file.path}: ${read.length}`,
      );
    } catch (error) {
      if (!(error instanceof StartError)) throw error;
      log.error(
        "tokens kept",
        `the tokens stay as they were: ${error.message}`,
      );
    }
  });
}

/** The store, with its commits measured. */
function measured(store: Store, metrics: Metrics): CommitStore {
  return {
    commitPlantsMax: store.commitPlantsMax,
    commitsInFlightMax: store.commitsInFlightMax,
    read: (ids) => store.read(ids),
    look: () => store.look(),
    async commit(plants) {
      const startMs = performance.now();
      const result = await store.commit(plants);
      if (result === "committed") {
        metrics.commit(plants.length, (performance.now() - startMs) / 1000);
      }
      return result;
    },
  };
}

/** Once when the store begins to fail, and once when it is well again. */
function logStore(log: Log, problem: string | undefined): void {
  if (problem === undefined) log.info("store well", "the store is well again");
  else log.error("store failing", `the store fails: ${problem}`);
}

/** Says where the service is, where its data is, and how to create a plant. */
function logStart(
  config: Config,
  address: string,
  { baseUrl, log }: Service,
  ownToken: string | undefined,
): void {
  const store = typeof config.store === "string"
    ? config.store
    : config.store.href;
  const curl = curlSample(`${baseUrl}/plants`, ownToken);
  if (config.logFormat === "json") {
    log.info("started", `listening on ${address}`, {
      version: VERSION,
      address,
      baseUrl,
      store,
      curl: curl.replaceAll("\\\n  ", ""),
    });
    return;
  }
  const aboutToken = ownToken === undefined
    ? ""
    : "\nNo token was configured: this run made the one below";
  printError(`Plant Store ${VERSION} listens on ${address}
It keeps the plants in ${store}${aboutToken}

Create a plant:

  ${curl.replaceAll("\n", "\n  ")}

Read about the API: ${baseUrl}/
`);
}
