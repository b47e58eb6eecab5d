/** nginx in front of the service, as src/deploy/ configures it. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { createDuring, Instance } from "../support/instances.ts";
import { KV_ENV, KvServer } from "../support/kv_server.ts";
import { block } from "../support/machine.ts";
import { needs } from "../support/needs.ts";
import { Nginx } from "../support/nginx.ts";
import { post, replyStatus, runProgram } from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";
import { eventually } from "../support/waiting.ts";

/** The error number of nginx for a request that it cannot read. */
const BAD_REQUEST = 40000;

needs("NGINX", "DENOKV").test(
  "two machines on a KV Connect server restart and are killed under load without a failed request, and lose nothing",
  async ({ directory, ledger }) => {
    ledger.repeatsCreates = true;
    await using server = await KvServer.start(directory.file("kv.db"));
    await using first = await Instance.start(server.url, KV_ENV);
    await using second = await Instance.start(server.url, KV_ENV);
    const machines = [first, second];
    const addition = block("Restart without", 0, "kv-connect/");
    await using nginx = await Nginx.start(
      machines.map(({ port }) => port),
      (text) => text.replace("location / {\n", (line) => line + addition),
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
          const { size } = acknowledged;
          await eventually((it) => it > size + 200, () => acknowledged.size);
          await machine.end(signal);
          await machine.start();
          // A create that nginx has retried may wait at the next machine to stop.
          const sent = [...ledger.sent.keys()];
          await eventually(
            (it) => it,
            () => sent.every((id) => acknowledged.has(id)),
          );
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
);

needs("NGINX").test(
  "nginx passes the largest body on, hides the metrics, and answers what it refuses itself with an Error",
  async ({ start }) => {
    await using program = await start();
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
    const { bodyTooLarge, storeFailed, unknownPath } = API_ERRORS;

    assert.equal(await replyStatus(post(target, largest)), 200);
    for (const path of ["/metrics", "/base/metrics"]) {
      await refuses(unknownPath.error, get(nginx.origin + path));
    }
    const tooLarge = `${largest} `;
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
      await refuses(storeFailed.error, reply);
    }
  },
);
