import assert from "node:assert/strict";
import { API_ERRORS, statusOf } from "../../src/errors.ts";
import { RequestHandler } from "../../src/http/handler.ts";
import {
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  QUEUE_MS_MAX,
} from "../../src/limits.ts";
import { endlessStream, streamOf } from "../support/bodies.ts";
import { assertRefusal } from "../support/refusals.ts";
import { type RequestOptions, TestService } from "../support/service.ts";

const TOO_LONG = `${BODY_BYTES_MAX + 1}`;

/** A request to which faults are added. */
interface Draft extends RequestOptions {
  readonly body: string;
}

function withHeader(
  draft: Draft,
  name: string,
  value: string | readonly string[],
): Draft {
  return { ...draft, headers: { ...draft.headers, [name]: value } };
}

/** The errors in the order of the checks, and faults that cause them. */
const FAULTS: readonly (readonly [number, (draft: Draft) => Draft])[] = [
  [40401, (draft) => ({ ...draft, target: "/ferns" })],
  [40501, (draft) => ({ ...draft, method: "DELETE" })],
  [40101, (draft) => withHeader(draft, "authorization", [])],
  [40102, (draft) => withHeader(draft, "authorization", "Bearer guess")],
  [41501, (draft) => withHeader(draft, "content-type", "text/plain")],
  [41502, (draft) => withHeader(draft, "content-encoding", "gzip")],
  [41301, (draft) => withHeader(draft, "content-length", TOO_LONG)],
  [40001, (draft) => ({ ...draft, body: `${draft.body}\xff` })],
  [40002, (draft) => ({ ...draft, body: `${draft.body},` })],
  [
    40003,
    (draft) => ({ ...draft, body: draft.body.replace("}", ',"tag":7}') }),
  ],
  [40901, (draft) => ({ ...draft, body: draft.body.replace("2", "1") })],
];

Deno.test("FAULTS has every error that a request itself causes, but the time-out of its body", () => {
  const caused = Object.values(API_ERRORS).map(({ error }) => error)
    .filter((error) => statusOf(error) < 500)
    .filter((error) => error !== API_ERRORS.bodyTimedOut.error);
  const listed = FAULTS.map(([error]) => error);
  assert.deepEqual(listed.toSorted(), caused.toSorted());
});

/** Encodes each character as one byte, so that a text can be invalid UTF-8. */
function toLatin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

Deno.test("handle() refuses a request with several faults for the first one in the order of the checks", async () => {
  const service = new TestService();
  const stored = await service.create('{"id":1,"name":"Monstera"}');
  assert.equal(stored.status, 200);
  const before = service.stored();

  // Every combination of faults is the bits of a number.
  for (let combination = 1; combination < 2 ** FAULTS.length; combination++) {
    const faults = FAULTS.filter((_, i) => combination & 1 << i);
    const errors = faults.map(([error]) => error);
    const [error = 0] = errors;
    let draft: Draft = { body: '{"id":2,"name":"Fern"}' };
    // An earlier fault replaces a later one in the same header.
    for (const [, addTo] of faults.toReversed()) draft = addTo(draft);
    const reply = await service.create(toLatin1(draft.body), draft);
    assert.equal(JSON.parse(reply.text).error, error, errors.join());
    assertRefusal(reply, { error });
  }
  assert.deepEqual(service.stored(), before);
});

Deno.test("handle() checks the path, the method and the token before it refuses a create because of a shutdown", async () => {
  const service = new TestService();
  await service.handler.drain();
  for (const [error, addTo] of FAULTS) {
    const draft = addTo({ body: '{"id":2,"name":"Fern"}' });
    const reply = await service.create(toLatin1(draft.body), draft);
    const isEarlier = [40401, 40501, 40101, 40102].includes(error);
    assertRefusal(reply, { error: isEarlier ? error : 50301 });
  }
  assert.deepEqual(service.stored(), []);
});

/** Starts a service that refuses creates, since two wait for the store. */
async function startBusy() {
  const service = new TestService();
  service.store.pause();
  // One in a commit, and one in the queue.
  const waiting = [3, 4].map((id) =>
    service.create(`{"id":${id},"name":"Aloe"}`)
  );
  await service.createsWaiting(2);
  service.clock.advance(QUEUE_MS_MAX + 1);
  return { service, waiting };
}

Deno.test("handle() refuses every POST with 50302 while the service is busy, whatever its faults", async () => {
  const { service, waiting } = await startBusy();
  const faults = FAULTS.filter(([error]) => error !== 40501);
  const drafts: Draft[] = [
    { body: '{"id":2,"name":"Fern"}' },
    ...faults.map(([, addTo]) => addTo({ body: '{"id":2,"name":"Fern"}' })),
    ...RequestHandler.ROUTES.map(({ path }) => ({ target: path, body: "" })),
  ];
  for (const draft of drafts) {
    const reply = await service.create(toLatin1(draft.body), draft);
    assertRefusal(reply, {
      error: 50302,
      message: "the service is busy: send the same request again",
    });
  }
  const { text } = await service.get("/metrics");
  const { length } = drafts;
  assert.ok(text.includes(`_creates_total{outcome="queue_full"} ${length}\n`));
  assert.ok(text.includes(`_requests_total{code="503"} ${length}\n`));

  service.store.resume();
  for (const { status } of await Promise.all(waiting)) {
    assert.equal(status, 200);
  }
  assert.deepEqual(service.stored(), [
    [["plants", 3n], { name: "Aloe" }],
    [["plants", 4n], { name: "Aloe" }],
  ]);
});

Deno.test("handle() answers every other method as before while the service is busy", async () => {
  const { service, waiting } = await startBusy();
  for (const { path, methods } of RequestHandler.ROUTES) {
    const isRead = methods.includes("GET");
    for (const method of ["GET", "HEAD", "DELETE"]) {
      const reply = await service.get(path, { method });
      const isAllowed = isRead && method !== "DELETE";
      assert.equal(reply.status, isAllowed ? 200 : 405, `${method} ${path}`);
    }
  }
  service.store.resume();
  await Promise.all(waiting);
});

Deno.test("handle() refuses creates because of a shutdown rather than because the service is busy", async () => {
  const { service, waiting } = await startBusy();
  const drained = service.handler.drain();
  const reply = await service.create('{"id":2,"name":"Fern"}');
  assertRefusal(reply, { error: 50301 });
  service.store.resume();
  await Promise.all([drained, ...waiting]);
});

Deno.test("handle() discards a bounded part of a body while the service is busy, unless it is short", async () => {
  const { service, waiting } = await startBusy();
  const endless = endlessStream(1024);
  assertRefusal(await service.create(endless.stream), { error: 50302 });
  await endless.cancelled;
  assert.equal(endless.readBytes(), BODY_DISCARD_BYTES_MAX);
  const short = streamOf(["{}"]);
  const headers = { "content-length": "2" };
  const reply = await service.create(short.stream, { headers });
  assertRefusal(reply, { error: 50302 });
  assert.equal(short.readBytes(), 0);
  service.store.resume();
  await Promise.all(waiting);
});
