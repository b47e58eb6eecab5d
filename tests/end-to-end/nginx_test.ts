/** nginx in front of instances, as src/deploy/ configures it. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { allAnswered, createDuring, Instance } from "../support/instances.ts";
import { needs } from "../support/needs.ts";
import { Nginx } from "../support/nginx.ts";
import { post, replyStatus } from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";

const behindNginx = needs("NGINX");

/** Commits that an instance makes under load before it is ended. */
const COMMITS = 100;

/** The error number of nginx for a request that it cannot read. */
const BAD_REQUEST = 40000;

behindNginx.test("two instances on one file restart and are killed under load without a failed request, and lose nothing", async ({ store, ledger }) => {
  await using first = await Instance.start(store);
  await using second = await Instance.start(store);
  const instances = [first, second];
  await using nginx = await Nginx.start(instances.map(({ port }) => port));
  using clients = new DisposableStack();
  const targets = Array.from({ length: 16 }, () => ({
    origin: nginx.origin,
    httpClient: clients.use(nginx.client()),
  }));
  await createDuring(targets, ledger, async () => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      for (const instance of instances) {
        await instance.commits(COMMITS);
        await instance.end(signal);
        await instance.start();
        // A create that nginx has retried may wait at the next instance to stop.
        await allAnswered(ledger);
      }
    }
    for (const instance of instances) await instance.commits(COMMITS);
  });
  const failed = [...ledger.sent.values()].flat()
    .map(({ answer }) => answer).filter((answer) => answer !== 200);
  assert.deepEqual(failed, [], nginx.stderr);
  for (const instance of instances) await instance.end("SIGTERM");
  await ledger.assertFile(store);
});

behindNginx.test("nginx passes the largest body on, and what it refuses itself, it answers with an Error", async ({ store }) => {
  await using instance = await Instance.start(store);
  await using nginx = await Nginx.start([instance.port]);
  using client = nginx.client();
  const [start, end] = ['{"id":1,"name":"', '"}'];
  const largest = start.padEnd(BODY_BYTES_MAX - end.length, "x") + end;
  const header = { "x-large": "x".repeat(16 * 1024) };
  const target = { origin: nginx.origin, httpClient: client };
  const get = (url: string) => fetch(url, { client });

  assert.equal(await replyStatus(post(target, largest)), 200);
  const tooLarge = `${largest} `;
  const { bodyTooLarge, storeFailed } = API_ERRORS;
  const refuses = async (error: number, reply: Promise<Response>) => {
    const { status, headers } = await reply;
    const text = await (await reply).text();
    assertRefusal({ status, headers, text }, { error });
  };
  for (const body of [tooLarge, new Blob([tooLarge]).stream()]) {
    await refuses(bodyTooLarge.error, post(target, body));
  }
  await refuses(BAD_REQUEST, post(target, "{}", header));
  await refuses(BAD_REQUEST, get(`${nginx.origin}/${header["x-large"]}`));
  await refuses(BAD_REQUEST, get(nginx.origin.replace("https:", "http:")));
  // Warnings mean a directive that does not fit, such as a small buffer.
  assert.doesNotMatch(nginx.stderr, /\[warn\]/);
  await instance.end("SIGTERM");
  for (const reply of [post(target, largest), get(`${nginx.origin}/plants`)]) {
    await refuses(storeFailed.error, reply);
  }
});
