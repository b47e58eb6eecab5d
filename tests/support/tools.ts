import { BackgroundProcess, outputOf } from "./background.ts";
import type { TemporaryDirectory } from "./temporary.ts";
import { eventually } from "./waiting.ts";

/** The range of ports to choose from. */
const PORT_MIN = 20_000;
const PORTS = 10_000;

/**
 * Runs a command and returns its output, stdout before stderr.
 * @throws if the command fails
 */
export async function runTool(
  command: string,
  args: readonly string[],
  { input = "", env = {} }: {
    readonly input?: string;
    readonly env?: Readonly<Record<string, string>>;
  } = {},
): Promise<string> {
  await using running = new BackgroundProcess(command, {
    args: [...args],
    env,
    stdin: "piped",
  });
  const ending = running.ended();
  await new Blob([input]).stream().pipeTo(running.process.stdin);
  return outputOf(await ending, `${command} ${args.join(" ")}`);
}

/** Makes a self-signed certificate with openssl, and its key. */
export async function makeCertificate(
  directory: TemporaryDirectory,
  name: string,
  subjectAltName = "IP:127.0.0.1",
): Promise<{ cert: string; key: string }> {
  const cert = directory.file(`${name}.crt`);
  const key = directory.file(`${name}.key`);
  await runTool("openssl", [
    "req",
    "-x509",
    "-nodes",
    "-days",
    "30",
    "-subj",
    "/CN=plants.test",
    "-addext",
    `subjectAltName=${subjectAltName}`,
    // `fetch` does not accept the certificate of a CA as that of a server.
    "-addext",
    "basicConstraints=critical,CA:FALSE",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-keyout",
    key,
    "-out",
    cert,
  ]);
  return { cert, key };
}

/**
 * Returns a free port that no outgoing connection takes while its program
 * restarts: one below the ports that the system gives to these.
 */
export function freePort(): number {
  for (;;) {
    const port = PORT_MIN + Math.floor(Math.random() * PORTS);
    try {
      using _listener = Deno.listen({ hostname: "127.0.0.1", port });
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}

/** Waits until a program listens on a port. */
export async function listens(port: number): Promise<void> {
  await eventually(async () => {
    try {
      using _connection = await Deno.connect({ hostname: "127.0.0.1", port });
      return true;
    } catch {
      return false;
    }
  });
}
