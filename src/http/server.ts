import type { Log } from "../telemetry/log.ts";
import { errorMessage } from "../text.ts";
import {
  type Answering,
  type Handle,
  keepListening,
  type KeptServer,
} from "./keep_listening.ts";
import { originOf } from "./origin.ts";

/** Where to listen. */
export interface ListenAddress {
  readonly host: string;
  /** 0 for a free one. */
  readonly port: number;
  /** `undefined` for http. */
  readonly tls: Deno.TlsCertifiedKeyPem | undefined;
}

/** Why the service cannot listen. */
export class ListenError extends Error {
  /**
   * @param isTransient whether it can pass by itself
   * @param isOfTls whether the certificate or its key cannot be used
   */
  constructor(
    message: string,
    readonly isTransient: boolean,
    readonly isOfTls: boolean,
  ) {
    super(message);
  }
}

/** Converts an error of the runtime. */
function toListenError(error: unknown): ListenError {
  const message = errorMessage(error);
  // Only the errors of the system have a code. All but a denial can pass.
  const isOfSystem = error instanceof Error && "code" in error;
  const isDenied = error instanceof Deno.errors.PermissionDenied;
  // The look-up of a name can pass, too: at boot, the network may be late.
  const isLookup = message.startsWith("failed to lookup address");
  const isTransient = isLookup || (isOfSystem && !isDenied);
  // Those of a certificate and its key have no class of their own.
  return new ListenError(message, isTransient, /certificate|key/.test(message));
}

/**
 * Listens for a moment.
 * @returns the address that the host stands for
 * @throws {ListenError}
 */
export function tryToListen({ host, port, tls }: ListenAddress): string {
  const address = { hostname: host, port };
  try {
    using listener = tls === undefined
      ? Deno.listen(address)
      : Deno.listenTls({ ...address, ...tls });
    return listener.addr.hostname;
  } catch (error) {
    throw toListenError(error);
  }
}

/** A server that is listening. */
export interface Server {
  /** The bound address as a URL. */
  readonly address: string;
  /** Resolves when only a restart can help: see `KeptServer`. */
  readonly stuck: Promise<void>;
  /** Stops listening. Resolves when all requests are answered. */
  shutdown(): Promise<void>;
}

/**
 * Listens, and again whenever the runtime stops listening.
 * @param answering answers requests; not called before {@link listen} has returned
 * @throws {ListenError}
 */
export function listen(
  { host, port, tls }: ListenAddress,
  log: Log,
  answering: Answering,
): Server {
  const options = { hostname: host, port, ...tls, onListen() {} };
  function start(handle: Handle, signal: AbortSignal) {
    return Deno.serve({ ...options, signal }, handle);
  }
  let kept: KeptServer<Deno.HttpServer<Deno.NetAddr>>;
  try {
    kept = keepListening(log, { ...answering, start });
  } catch (error) {
    throw toListenError(error);
  }
  const { first, stuck, shutdown } = kept;
  const { hostname, port: bound } = first.addr;
  const address = originOf(hostname, bound, tls !== undefined);
  // If the port was 0, listen on the same one again.
  options.port = bound;
  return { address, stuck, shutdown };
}
