import type { Config } from "../config.ts";
import { errorMessage } from "../messages.ts";
import {
  EXIT_CONFIGURATION,
  EXIT_FAILURE,
  OperatorError,
} from "../operator_error.ts";

/** Why the runtime cannot listen, and how the operator solves it. */
interface ListenProblem {
  readonly isCause: (error: unknown, message: string) => boolean;
  /** Defaults to the message of the runtime. */
  readonly message?: string;
  readonly advice: string;
  /** Whether only a different configuration solves it. */
  readonly isPermanent?: true;
}

/** Every known problem; the first that fits counts. */
const LISTEN_PROBLEMS: readonly ListenProblem[] = [
  {
    isCause: (error) => error instanceof Deno.errors.AddrInUse,
    message: "another program listens there",
    advice: ": stop it, or choose another --port",
  },
  {
    isCause: (error) => error instanceof Deno.errors.AddrNotAvailable,
    message: "this machine does not have the address",
    advice: ": choose another --host",
  },
  {
    isCause: (_, message) => message.includes("failed to lookup address"),
    message: "unknown host name",
    advice: ": choose another --host",
  },
  {
    isCause: (error) => error instanceof Deno.errors.PermissionDenied,
    message: "permission denied",
    advice: ": choose a --port of 1024 or above",
    isPermanent: true,
  },
  {
    isCause: (_, message) => message.includes("KeyMismatch"),
    message: "the key does not belong to the certificate",
    advice: ": check --tls-cert and --tls-key",
    isPermanent: true,
  },
  {
    isCause: (error, message) =>
      error instanceof Deno.errors.InvalidData ||
      /certificate|'cert'|private key/.test(message),
    advice: ": check --tls-cert and --tls-key",
    isPermanent: true,
  },
];

/** Converts an error of the runtime that cannot listen. */
export function listenFailure(
  { host, port }: Config,
  error: unknown,
): OperatorError {
  const found = errorMessage(error);
  const problem = LISTEN_PROBLEMS.find(({ isCause }) => isCause(error, found));
  const { message = found, advice = "", isPermanent = false } = problem ?? {};
  return new OperatorError(
    `cannot listen on ${host} port ${port}: ${message}${advice}`,
    isPermanent ? EXIT_CONFIGURATION : EXIT_FAILURE,
  );
}
