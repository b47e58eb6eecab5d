import type { Config } from "../config/settings.ts";
import { errorMessage } from "../messages.ts";
import { exitStatusOf, OperatorError } from "../operator_error.ts";

/** Why the runtime cannot listen, and how the operator solves it. */
interface ListenProblem {
  /** Matches the name and the message of the error. */
  readonly pattern: RegExp;
  /** Defaults to the message of the runtime. */
  readonly message?: string;
  readonly advice: (names: Config["names"]) => string;
  /** Whether only a different configuration solves it. */
  readonly isPermanent?: true;
}

/** Every known problem; the first that fits counts. */
const LISTEN_PROBLEMS: readonly ListenProblem[] = [
  {
    pattern: /^AddrInUse:/,
    message: "another program listens there",
    advice: ({ port }) => `stop it, or choose another ${port}`,
  },
  {
    pattern: /^AddrNotAvailable:/,
    message: "this machine does not have the address",
    advice: ({ host }) => `choose another ${host}`,
  },
  {
    pattern: /failed to lookup address/,
    message: "unknown host name",
    advice: ({ host }) => `choose another ${host}`,
    isPermanent: true,
  },
  {
    pattern: /^PermissionDenied:/,
    message: "permission denied",
    advice: ({ port }) => `choose a ${port} of 1024 or above`,
    isPermanent: true,
  },
  {
    pattern: /KeyMismatch/,
    message: "the key does not belong to the certificate",
    advice: ({ tlsCert, tlsKey }) => `check ${tlsCert} and ${tlsKey}`,
    isPermanent: true,
  },
  {
    pattern: /^InvalidData:|certificate|private key/,
    advice: ({ tlsCert, tlsKey }) =>
      `check ${tlsCert} and ${tlsKey}, which needs a key without a passphrase`,
    isPermanent: true,
  },
];

/** Calls a function. @throws {OperatorError} if the runtime cannot listen */
export function orListenFailure<Result>(
  { host, port, names }: Pick<Config, "host" | "port" | "names">,
  listen: () => Result,
): Result {
  try {
    return listen();
  } catch (error) {
    const text = String(error);
    const problem = LISTEN_PROBLEMS.find(({ pattern }) => pattern.test(text));
    const message = problem?.message ?? errorMessage(error);
    const advice = problem === undefined ? "" : `: ${problem.advice(names)}`;
    throw new OperatorError(
      `cannot listen on ${host} port ${port}: ${message}${advice}`,
      exitStatusOf({ isTransient: !problem?.isPermanent }),
    );
  }
}
