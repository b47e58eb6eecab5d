/** nginx with the configuration in src/deploy/. */
import assert from "node:assert/strict";
import { BackgroundProcess } from "./background.ts";
import { read } from "./readme.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { freePort, listens, makeCertificate } from "./tools.ts";

/** The path of nginx; without it tests are ignored. */
export const NGINX = Deno.env.get("NGINX") ?? "";

/** What the configuration needs around it, and what a test must not share. */
const SURROUNDINGS = `daemon off;
worker_processes 2;
pid DIRECTORY/nginx.pid;
error_log stderr warn;
events { worker_connections 16384; }
http {
access_log off;
client_body_temp_path DIRECTORY/body;
proxy_temp_path DIRECTORY/proxy;
fastcgi_temp_path DIRECTORY/fastcgi;
uwsgi_temp_path DIRECTORY/uwsgi;
scgi_temp_path DIRECTORY/scgi;
include DIRECTORY/plant-store.conf;
}
`;

/** A running nginx, which writes errors and warnings to stderr. */
export class Nginx extends BackgroundProcess {
  readonly origin: string;
  readonly #directory: TemporaryDirectory;

  private constructor(port: number, directory: TemporaryDirectory) {
    const args = ["-c", directory.file("nginx.conf")];
    // nginx itself uses the variable NGINX.
    super(NGINX, { args, clearEnv: true });
    this.origin = `https://127.0.0.1:${port}`;
    this.#directory = directory;
  }

  /**
   * Starts on a free port.
   * @param servicePorts the port of each service
   * @param edit changes the configuration in src/deploy/
   */
  static async start(
    servicePorts: readonly number[],
    edit = (text: string) => text,
  ): Promise<Nginx> {
    const directory = new TemporaryDirectory();
    // The worker processes have another user.
    Deno.chmodSync(directory.path, 0o755);
    const { cert, key } = await makeCertificate(directory, "nginx");
    const port = freePort();
    const text = edit(read("src/deploy/nginx.conf"))
      .replace(
        /^ +server 127\.0\.0\.1:8000\b.*\n/m,
        (line) =>
          servicePorts.map((it) => line.replace("8000", `${it}`)).join(""),
      )
      .replaceAll(/^ *listen \[.*\n/gm, "")
      .replace(/\blisten 443 /, `listen 127.0.0.1:${port} `)
      .replace(/\blisten 80;/, `listen 127.0.0.1:${freePort()};`)
      .replace(/\b(ssl_certificate +)\/.*;/, `$1${cert};`)
      .replace(/\b(ssl_certificate_key +)\/.*;/, `$1${key};`);
    for (const it of [port, ...servicePorts, cert, key]) {
      assert.ok(text.includes(`${it}`));
    }
    Deno.writeTextFileSync(directory.file("plant-store.conf"), text);
    Deno.writeTextFileSync(
      directory.file("nginx.conf"),
      SURROUNDINGS.replaceAll("DIRECTORY", directory.path),
    );
    const nginx = new Nginx(port, directory);
    await nginx.causes(listens(port));
    return nginx;
  }

  /** Returns a client that trusts its certificate, for one connection. */
  client(): Deno.HttpClient {
    const cert = this.#directory.file("nginx.crt");
    const caCerts = [Deno.readTextFileSync(cert)];
    return Deno.createHttpClient({ caCerts });
  }

  /** Stops it and its worker processes. */
  override async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.#directory[Symbol.dispose]();
  }
}
