import { BackgroundProcess } from "./background.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { freePort, listens, runTool } from "./tools.ts";

/** OpenSSH's server on a free port, for the user that runs the tests. */
export class SftpServer extends BackgroundProcess {
  /** Where clients store files, in its directory. */
  readonly #url: string;
  readonly #directory: TemporaryDirectory;

  private constructor(
    sshd: string,
    options: readonly string[],
    { user, port, directory }: {
      readonly user: string;
      readonly port: number;
      readonly directory: TemporaryDirectory;
    },
  ) {
    super(sshd, { args: ["-D", "-e", "-f", "/dev/null", ...options] });
    this.#url = `sftp://${user}@127.0.0.1:${port}${directory.file("files")}`;
    this.#directory = directory;
  }

  static async start(): Promise<SftpServer> {
    const directory = new TemporaryDirectory();
    for (const name of ["host", "client"]) {
      const options = ["-q", "-t", "ed25519", "-N", ""];
      await runTool("ssh-keygen", [...options, "-f", directory.file(name)]);
    }
    // It demands a path without links, and this directory if root starts it.
    const sshd = (await runTool("sh", ["-c", "command -v sshd"])).trim();
    if (Deno.uid() === 0) Deno.mkdirSync("/run/sshd", { recursive: true });
    const user = (await runTool("id", ["-un"])).trim();
    const port = freePort();
    const options = [
      `ListenAddress=127.0.0.1:${port}`,
      `HostKey=${directory.file("host")}`,
      `AuthorizedKeysFile=${directory.file("client.pub")}`,
      "StrictModes=no",
      "PermitRootLogin=prohibit-password",
      "PidFile=none",
      "Subsystem=sftp internal-sftp",
    ].flatMap((option) => ["-o", option]);
    const server = new SftpServer(sshd, options, { user, port, directory });
    await server.causes(listens(port));
    return server;
  }

  /** Returns a configuration of Litestream with this server. */
  readonly configure = (text: string): string => {
    const hostKey = Deno.readTextFileSync(this.#directory.file("host.pub"));
    return text
      .replace(/\bsftp:.*/, this.#url)
      .replace(/(?<=\bkey-path: ).*/, this.#directory.file("client"))
      .replace(/(?<=\bhost-key: ).*/, hostKey.trim());
  };

  override async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.#directory[Symbol.dispose]();
  }
}
