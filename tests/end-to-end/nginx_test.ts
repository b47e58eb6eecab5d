/** nginx in front of the service, as src/deploy/ configures it. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { BackgroundProcess } from "../support/background.ts";
import { createDuring, Instance } from "../support/instances.ts";
import { KV_ENV, KvServer } from "../support/kv_server.ts";
import { Ledger } from "../support/ledger.ts";
import { KV_CONNECT } from "../support/handbook.ts";
import { isMissing, pathOf } from "../support/needs.ts";
import { entriesIn } from "../support/plants.ts";
import { post, Program, replyStatus, runProgram } from "../support/program.ts";
import { read } from "../support/readme.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { freePort, listens, makeCertificate } from "../support/tools.ts";
import { eventually } from "../support/waiting.ts";

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
class Nginx extends BackgroundProcess {
  readonly origin: string;
  readonly #directory: TemporaryDirectory;

  private constructor(port: number, directory: TemporaryDirectory) {
    const args = ["-c", directory.file("nginx.conf")];
    // nginx itself uses the variable NGINX.
    super(pathOf("NGINX"), { args, clearEnv: true });
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
    await using unstarted = new AsyncDisposableStack();
    const directory = unstarted.use(new TemporaryDirectory());
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
    const nginx = unstarted.use(new Nginx(port, directory));
    await nginx.causes(listens(port));
    unstarted.move();
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

/** The error number of nginx for a request that it cannot read. */
const BAD_REQUEST = 40000;

Deno.test({
  name:
    "two machines on a KV Connect server restart and are killed under load without a failed request, and lose nothing",
  ignore: isMissing("NGINX", "DENOKV", "openssl"),
  async fn() {
    using directory = new TemporaryDirectory();
    const ledger = new Ledger();
    ledger.repeatsCreates = true;
    await using server = await KvServer.start(directory.file("kv.db"));
    await using first = await Instance.start(server.url, KV_ENV);
    await using second = await Instance.start(server.url, KV_ENV);
    const machines = [first, second];
    await using nginx = await Nginx.start(
      machines.map(({ port }) => port),
      (text) =>
        text.replace("location / {\n", (line) => line + KV_CONNECT.NGINX_LINES),
    );
    using clients = new DisposableStack();
    const targets = Array.from({ length: 16 }, () => ({
      origin: nginx.origin,
      httpClient: clients.use(nginx.client()),
    }));
    const { acknowledged } = ledger;
    await createDuring(targets, ledger, async () => {
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        for (const machine of machines) {
          await ledger.acknowledges(200);
          await machine.end(signal);
          await machine.start();
          // A create that nginx has retried may wait at the next machine to stop.
          const sent = [...ledger.sent.keys()];
          await eventually(() => sent.every((id) => acknowledged.has(id)));
        }
      }
    });
    const failed = [...ledger.sent.values()].flat()
      .map(({ answer }) => answer).filter((answer) => answer !== 200);
    assert.deepEqual(failed, [], nginx.stderr);
    const exporting = runProgram(["export", "--kv", server.url], {
      env: KV_ENV,
    });
    const { stdout } = await exporting;
    assert.equal(ledger.assertLines(stdout), ledger.sent.size);
  },
});

Deno.test({
  name:
    "nginx passes the largest body on, hides the metrics, and answers what it refuses itself with an Error",
  ignore: isMissing("NGINX", "openssl"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await using program = await Program.start(store);
    await using nginx = await Nginx.start([program.port]);
    using client = nginx.client();
    const [head, tail] = ['{"id":1,"name":"', '"}'];
    const largest = head.padEnd(BODY_BYTES_MAX - tail.length, "x") + tail;
    const long = "x".repeat(16 * 1024);
    const target = { origin: nginx.origin, httpClient: client };
    const get = (url: string) => fetch(url, { client });
    const refuses = async (error: number, reply: Promise<Response>) => {
      const { status, headers } = await reply;
      const text = await (await reply).text();
      assertRefusal({ status, headers, text }, { error });
    };
    const { bodyTooLarge, busy, storeFailed, unknownPath } = API_ERRORS;

    assert.equal(await replyStatus(post(target, largest)), 200);
    for (const path of ["/metrics", "/base/metrics"]) {
      await refuses(unknownPath.error, get(nginx.origin + path));
    }
    const tooLarge = `${largest} `.replace("1", "2");
    for (const body of [tooLarge, new Blob([tooLarge]).stream()]) {
      await refuses(bodyTooLarge.error, post(target, body));
    }
    await refuses(BAD_REQUEST, post(target, "{}", { "x-large": long }));
    await refuses(BAD_REQUEST, get(`${nginx.origin}/${long}`));
    await refuses(BAD_REQUEST, get(nginx.origin.replace("https:", "http:")));
    // Warnings mean a directive that does not fit, such as a small buffer.
    assert.doesNotMatch(nginx.stderr, /\[warn\]/);
    await program.stop();
    for (
      const reply of [post(target, largest), get(`${nginx.origin}/plants`)]
    ) {
      // Nothing was sent to the service.
      await refuses(busy.error, reply);
    }
    {
      // It ends after a create has reached it.
      using port = Deno.listen({ hostname: "127.0.0.1", port: program.port });
      const refused = refuses(storeFailed.error, post(target, largest));
      const connection = await port.accept();
      await connection.read(new Uint8Array(1));
      connection.close();
      await refused;
    }
    const ids = (await entriesIn(store)).map(([[, id]]) => id);
    assert.deepEqual(ids, [1n]);
  },
});
