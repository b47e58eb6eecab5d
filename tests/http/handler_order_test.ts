import assert from "node:assert/strict";
import { BODY_BYTES_MAX, QUEUE_MS_MAX } from "../../src/limits.ts";
import { assertRefusal } from "../support/refusals.ts";
import { type RequestOptions, TestService } from "../support/service.ts";

/** A request to which faults are added. */
interface Draft extends RequestOptions {
  readonly body: string;
}

/** A fault, and the error of a request that has no earlier one. */
interface Fault {
  readonly error: number;
  readonly name: string;
  readonly addTo: (draft: Draft) => Draft;
}

function withHeader(
  draft: Draft,
  name: string,
  value: string | readonly string[],
): Draft {
  return { ...draft, headers: { ...draft.headers, [name]: value } };
}

/** Faults in the order of the checks. */
const FAULTS: readonly Fault[] = [
  {
    error: 40401,
    name: "an unknown path",
    addTo: (draft) => ({ ...draft, target: "/ferns" }),
  },
  {
    error: 40501,
    name: "a wrong method",
    addTo: (draft) => ({ ...draft, method: "DELETE" }),
  },
  {
    error: 40101,
    name: "no token",
    addTo: (draft) => withHeader(draft, "authorization", []),
  },
  {
    error: 40102,
    name: "a token that is not accepted",
    addTo: (draft) => withHeader(draft, "authorization", "Bearer guess"),
  },
  {
    error: 41501,
    name: "a wrong content type",
    addTo: (draft) => withHeader(draft, "content-type", "text/plain"),
  },
  {
    error: 41502,
    name: "a content coding",
    addTo: (draft) => withHeader(draft, "content-encoding", "gzip"),
  },
  {
    error: 41301,
    name: "a length above the limit",
    addTo: (draft) =>
      withHeader(draft, "content-length", `${BODY_BYTES_MAX + 1}`),
  },
  {
    error: 40001,
    name: "a body that is not UTF-8",
    addTo: (draft) => ({ ...draft, body: `${draft.body}\xff` }),
  },
  {
    error: 40002,
    name: "a body that is not JSON",
    addTo: (draft) => ({ ...draft, body: `${draft.body},` }),
  },
  {
    error: 40003,
    name: "a wrong member",
    addTo: (draft) => ({
      ...draft,
      body: draft.body.replace("}", ',"tag":7}'),
    }),
  },
  {
    error: 40901,
    name: "an id that is taken",
    addTo: (draft) => ({ ...draft, body: draft.body.replace("2", "1") }),
  },
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
    const [first] = faults;
    assert.ok(first !== undefined);
    let draft: Draft = { body: '{"id":2,"name":"Fern"}' };
    // An earlier fault replaces a later one in the same header.
    for (const fault of faults.toReversed()) draft = fault.addTo(draft);
    const reply = await service.create(toLatin1(draft.body), draft);
    const names = faults.map(({ name }) => name).join(", ");
    assert.equal(JSON.parse(reply.text).error, first.error, names);
    assertRefusal(reply, { error: first.error });
  }
  assert.deepEqual(await service.stored(), before);
});

Deno.test("handle() checks the path, the method and the token before it refuses a create because of a shutdown", async () => {
  using service = await TestService.start();
  await service.handler.drain();
  for (const { error, addTo } of FAULTS) {
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
  const waiting = service.create('{"id":3,"name":"Aloe"}');
  await service.createsWaiting(1);
  service.clock.advance(QUEUE_MS_MAX + 1);
  for (const { error, addTo } of FAULTS) {
    const draft = addTo({ body: '{"id":2,"name":"Fern"}' });
    const reply = await service.create(toLatin1(draft.body), draft);
    const expected = error === 40901 ? 50302 : error;
    assertRefusal(reply, { error: expected });
  }
  service.store.resume();
  assert.equal((await waiting).status, 200);
  assert.deepEqual(
    await service.stored(),
    [[["plants", 3n], { name: "Aloe" }]],
  );
});
