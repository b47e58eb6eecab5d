import type { Log } from "../telemetry/log.ts";
import { errorMessage } from "../text.ts";
import { keepListening, type KeptServer } from "./keep_listening.ts";
import { originOf } from "./origin.ts";

/** Descriptors that must be free before a server is started. */
const DESCRIPTORS_MIN = 8;

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
 * @returns the address of the host
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

/** A server that is kept listening. */
export interface Server extends KeptServer {
  /** The bound address as a URL. */
  readonly address: string;
}

/**
 * Listens, and again whenever the runtime stops listening.
 * @throws {ListenError}
 */
export function listen(
  { host, port, tls }: ListenAddress,
  { handle, log }: {
    /** Never rejects. Not called before {@link listen} has returned. */
    readonly handle: (request: Request) => Promise<Response>;
    readonly log: Log;
  },
): Server {
  const options = { hostname: host, port, ...tls, onListen() {} };
  function start(signal: AbortSignal): Deno.HttpServer<Deno.NetAddr> {
    requireDescriptors();
    const server = Deno.serve({ ...options, signal }, handle);
    // If the port was 0, the next server listens on the same one.
    options.port = server.addr.port;
    return server;
  }
  try {
    const kept = keepListening({ start, log });
    const { hostname, port } = kept.addr;
    return { ...kept, address: originOf(hostname, port, tls !== undefined) };
  } catch (error) {
    throw toListenError(error);
  }
}

/**
 * Requires descriptors for some connections: without them, a server is lost at once.
 * @throws the error of the runtime
 */
function requireDescriptors(): void {
  using opened = new DisposableStack();
  for (let i = 0; i < DESCRIPTORS_MIN; i++) {
    opened.use(Deno.listen({ hostname: "127.0.0.1", port: 0 }));
  }
}
