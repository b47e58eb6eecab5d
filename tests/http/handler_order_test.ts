import assert from "node:assert/strict";
import { BODY_BYTES_MAX, QUEUE_MS_MAX } from "../../src/limits.ts";
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

/** Encodes each character as one byte, so that a text can be invalid UTF-8. */
function toLatin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

Deno.test("handle() refuses a request with several faults for the first one in the order of the checks", async () => {
  using service = await TestService.start();
  const stored = await service.create('{"id":1,"name":"Monstera"}');
  assert.equal(stored.status, 200);
  const before = await service.stored();

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
  assert.deepEqual(await service.stored(), before);
});

Deno.test("handle() checks the path, the method and the token before it refuses a create because of a shutdown", async () => {
  using service = await TestService.start();
  await service.handler.drain();
  for (const [error, addTo] of FAULTS) {
    const draft = addTo({ body: '{"id":2,"name":"Fern"}' });
    const reply = await service.create(toLatin1(draft.body), draft);
    const isEarlier = [40401, 40501, 40101, 40102].includes(error);
    assertRefusal(reply, { error: isEarlier ? error : 50301 });
  }
  assert.deepEqual(await service.stored(), []);
});

Deno.test("handle() checks a create completely before it refuses it because of an overload", async () => {
  using service = await TestService.start();
  service.store.pause();
  // One in a commit, and one in the queue.
  const waiting = [3, 4].map((id) =>
    service.create(`{"id":${id},"name":"Aloe"}`)
  );
  await service.createsWaiting(2);
  service.clock.advance(QUEUE_MS_MAX + 1);
  for (const [error, addTo] of FAULTS) {
    const draft = addTo({ body: '{"id":2,"name":"Fern"}' });
    const reply = await service.create(toLatin1(draft.body), draft);
    const expected = error === 40901 ? 50302 : error;
    assertRefusal(reply, { error: expected });
  }
  service.store.resume();
  for (const { status } of await Promise.all(waiting)) {
    assert.equal(status, 200);
  }
  assert.deepEqual(await service.stored(), [
    [["plants", 3n], { name: "Aloe" }],
    [["plants", 4n], { name: "Aloe" }],
  ]);
});
