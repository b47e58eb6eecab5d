/** Every error of the API, and which one a request with several faults gets. */
import assert from "node:assert/strict";
import { API_ERRORS, exampleMessage } from "../../src/api_errors.ts";
import {
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  ID_MAX,
  ID_MIN,
} from "../../src/limits.ts";
import { assertRefusal, CONTRACT_HEADERS } from "../support/refusals.ts";
import {
  type RequestOptions,
  ROUTES,
  TestService,
} from "../support/service.ts";
import type { Reply } from "../support/wire.ts";

/** A request to which faults are added. */
interface Draft extends RequestOptions {
  readonly body: string;
}

type AddTo = (draft: Draft) => Draft;

/** That of the examples in the description. */
const BASE_URL = "https://plants.example";
const ADVICE =
  `create plants with POST ${BASE_URL}/plants; only the operator can read them`;

const ACCEPTED: Draft = { body: '{"id":2,"name":"Fern"}' };

const TAKEN = '{"id":1,"name":"Monstera"}';

function change(options: RequestOptions): AddTo {
  return (draft) => ({ ...draft, ...options });
}

function header(name: string, value: string | readonly string[]): AddTo {
  return (it) => ({ ...it, headers: { ...it.headers, [name]: value } });
}

function edit(from: string | RegExp, to: string): AddTo {
  return (draft) => ({ ...draft, body: draft.body.replace(from, to) });
}

/** The errors that a request itself causes, in the order of the checks. */
const FAULTS: readonly (readonly [number, message: string, AddTo])[] = [
  [40004, "Host: expected a host, got a/b", header("host", "a/b")],
  [40401, `path not found: /plant: ${ADVICE}`, change({ target: "/plant" })],
  [40501, `method not allowed: GET: ${ADVICE}`, change({ method: "GET" })],
  [
    40101,
    "expected Authorization: Bearer <token>, got nothing",
    header("authorization", []),
  ],
  [
    40102,
    "Authorization: this token is not accepted",
    header("authorization", "Bearer guess"),
  ],
  [
    41501,
    "Content-Type: expected application/json, got text/plain",
    header("content-type", "text/plain"),
  ],
  [
    41502,
    "Content-Encoding: expected identity, got gzip",
    header("content-encoding", "gzip"),
  ],
  [
    41301,
    `body: expected at most ${BODY_BYTES_MAX} bytes`,
    header("content-length", `${BODY_BYTES_MAX + 1}`),
  ],
  [40001, "body: expected well-formed UTF-8", edit(/$/, "\xff")],
  [
    40002,
    'line 1, column 16: expected a value, found "}"',
    edit('"Fern"', ""),
  ],
  [
    40003,
    `id: expected an integer from ${ID_MIN} to ${ID_MAX}, got a string`,
    edit(/\d/, '"$&"'),
  ],
  [40901, "id: 1 is already taken by a different plant", edit("2", "1")],
];

/** Sends a request whose characters are one byte each, perhaps not UTF-8. */
function send(service: TestService, draft: Draft): Promise<Reply> {
  const bytes = Uint8Array.from(draft.body, (it) => it.charCodeAt(0));
  return service.create(bytes, draft);
}

/** An error, its message, and what causes it. */
type Row = readonly [
  error: number,
  message: string | RegExp,
  provoke: (service: TestService) => Promise<Reply>,
];

const ROWS: readonly Row[] = [
  ...FAULTS.map(([error, message, addTo]): Row => [
    error,
    message,
    (service) => send(service, addTo(ACCEPTED)),
  ]),
  [
    40801,
    `body: expected all of it within ${BODY_MS_MAX / 1000} s`,
    (service) => {
      const reply = service.create(new ReadableStream());
      service.sweepAfter(BODY_MS_MAX);
      return reply;
    },
  ],
  [
    50001,
    /^internal error, logged as [0-9a-f-]{36}$/,
    (service) => service.createWithBug(),
  ],
  [
    50301,
    "the service is shutting down: send the same request again",
    async (service) => {
      await service.drain();
      return await send(service, ACCEPTED);
    },
  ],
  [
    50302,
    "the service is busy: send the same request again",
    (service) => {
      service.becomeBusy();
      return send(service, ACCEPTED);
    },
  ],
  [
    50303,
    "the store failed or timed out, so the plant may or may not be stored: send the same request again",
    (service) => {
      service.store.problem = "out of order";
      return send(service, ACCEPTED);
    },
  ],
  [
    50304,
    "the store fails, so a create would not be stored now: the log of the service says why",
    (service) => {
      service.store.problem = "out of order";
      return service.get("/readyz");
    },
  ],
];

/** Returns a service that has stored a plant. */
async function startService(): Promise<TestService> {
  const service = new TestService(BASE_URL);
  const { status } = await service.create(TAKEN);
  assert.equal(status, 200);
  return service;
}

for (const [error, message, provoke] of ROWS) {
  Deno.test(`handle() replies with ${error}, its status, headers and message, and stores nothing`, async () => {
    const service = await startService();
    const before = service.stored();
    const reply = await provoke(service);
    assertRefusal(reply, { error, message });
    assert.deepEqual(Object.fromEntries(reply.headers), {
      "content-type": "application/json",
      ...CONTRACT_HEADERS[error],
    });
    assert.deepEqual(service.stored(), before);
  });
}

Deno.test("every error of the API has a row above, whose message is its example in the description", () => {
  for (const row of Object.values(API_ERRORS)) {
    const [, message] = ROWS.find(([error]) => error === row.error) ?? [];
    const example = exampleMessage(row);
    if (message instanceof RegExp) assert.match(example, message);
    else assert.equal(example, message);
  }
});

Deno.test("handle() refuses a request with several faults for the first one in the order of the checks", async () => {
  const service = await startService();
  const before = service.stored();
  // Every combination of faults is the bits of a number.
  for (let combination = 1; combination < 2 ** FAULTS.length; combination++) {
    const faults = FAULTS.filter((_, i) => combination & 1 << i);
    const [[error = 0] = []] = faults;
    let draft = ACCEPTED;
    // An earlier fault replaces a later one in the same header.
    for (const [, , addTo] of faults.toReversed()) draft = addTo(draft);
    assertRefusal(await send(service, draft), { error });
  }
  assert.deepEqual(service.stored(), before);
});

Deno.test("handle() checks Host, path, method and token before it refuses a create because of a shutdown", async () => {
  const service = await startService();
  await service.drain();
  const stored = await service.create(TAKEN);
  assertRefusal(stored, { error: 50301 });
  for (const [error, , addTo] of FAULTS) {
    const isEarlier = [40004, 40401, 40501, 40101, 40102].includes(error);
    const expected = { error: isEarlier ? error : 50301 };
    assertRefusal(await send(service, addTo(ACCEPTED)), expected);
  }
  assert.equal(service.stored().length, 1);
});

Deno.test("handle() refuses every POST with 50302 while the service is busy, whatever its faults", async () => {
  const service = new TestService(BASE_URL);
  service.becomeBusy();
  const drafts: Draft[] = [
    ACCEPTED,
    ...FAULTS.map(([, , addTo]) => ({ ...addTo(ACCEPTED), method: "POST" })),
    ...ROUTES.map(({ path }) => ({ target: path, body: "" })),
  ];
  for (const draft of drafts) {
    assertRefusal(await send(service, draft), { error: 50302 });
  }
  assert.deepEqual(service.stored(), []);
});
