import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { BODY_BYTES_MAX, BODY_MS_MAX, QUEUE_MS_MAX } from "../../src/limits.ts";
import { assertRefusal, CONTRACT_HEADERS } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";
import type { Reply } from "../support/wire.ts";

const STORED = '{"id":1,"name":"Monstera","tag":"climber"}';
const VALID = '{"id":2,"name":"Fern"}';

const IS_OLD = /^2\.([67]\.|8\.[0-2]$)/.test(Deno.version.deno);

/** One error of the API, and a request that gets it. */
interface Row {
  readonly error: number;
  readonly message: string | RegExp;
  readonly provoke: (service: TestService) => Promise<Reply>;
}

/** Every error of the API, in the order of the numbers. */
const ROWS: readonly Row[] = [
  {
    error: 40001,
    message: "body: expected well-formed UTF-8",
    provoke: (service) => service.create(Uint8Array.of(0x22, 0xff, 0x22)),
  },
  {
    error: 40002,
    message: 'line 1, column 16: expected a value, found "}"',
    provoke: (service) => service.create('{"id":2,"name":}'),
  },
  {
    error: 40003,
    message: "name: expected a string, got a number",
    provoke: (service) => service.create('{"id":2,"name":7}'),
  },
  {
    error: 40101,
    message: 'Authorization: expected "Bearer" and one token, got nothing',
    provoke: (service) =>
      service.create(VALID, { headers: { "authorization": [] } }),
  },
  {
    error: 40102,
    message: "Authorization: this token is not accepted",
    provoke: (service) =>
      service.create(VALID, { headers: { "authorization": "Bearer guess" } }),
  },
  {
    error: 40401,
    message: "path not found: /plant",
    provoke: (service) => service.create(VALID, { target: "/plant" }),
  },
  {
    error: 40501,
    message: "method not allowed: PUT: use POST",
    provoke: (service) => service.create(VALID, { method: "PUT" }),
  },
  {
    error: 40801,
    message: `body: expected all of it within ${BODY_MS_MAX / 1000} s`,
    provoke: (service) => {
      const reply = service.create(new ReadableStream());
      service.clock.advance(BODY_MS_MAX);
      service.handler.expire();
      return reply;
    },
  },
  {
    error: 40901,
    message: "id: 1 is already taken by a different plant",
    provoke: (service) => service.create('{"id":1,"name":"Fern"}'),
  },
  {
    error: 41301,
    message: `body: expected at most ${BODY_BYTES_MAX} bytes`,
    provoke: (service) => service.create(" ".repeat(BODY_BYTES_MAX + 1)),
  },
  {
    error: 41501,
    message: "Content-Type: expected application/json, got text/plain",
    provoke: (service) =>
      service.create(VALID, { headers: { "content-type": "text/plain" } }),
  },
  {
    error: 41502,
    message: "Content-Encoding: expected identity, got gzip",
    provoke: (service) =>
      service.create(VALID, { headers: { "content-encoding": "gzip" } }),
  },
  {
    error: 50001,
    message: /^internal error, logged as [0-9a-f-]{36}$/,
    provoke: (service) => {
      service.committer.create = () => {
        throw new TypeError("a bug of this test");
      };
      return service.create(STORED);
    },
  },
  {
    error: 50301,
    message: "the service is shutting down: send the same request again",
    provoke: async (service) => {
      await service.handler.drain();
      return await service.create(VALID);
    },
  },
  {
    error: 50302,
    message: "the service is busy: send the same request again",
    provoke: async (service) => {
      service.store.pause();
      // One in a commit, and one in the queue.
      const waiting = ['{"id":3,"name":"Aloe"}', '{"id":4,"name":"Aloe"}']
        .map((body) => service.create(body));
      await service.createsWaiting(2);
      service.clock.advance(QUEUE_MS_MAX + 1);
      const reply = await service.create(VALID);
      service.store.problem = "out of order";
      service.store.resume();
      for (const { status } of await Promise.all(waiting)) {
        assert.equal(status, 503);
      }
      return reply;
    },
  },
  {
    error: 50303,
    message:
      "the store failed or timed out, so the plant may or may not be stored: send the same request again",
    provoke: (service) => {
      service.store.problem = "out of order";
      return service.create(VALID);
    },
  },
];

for (const { error, message, provoke } of ROWS) {
  Deno.test(`handle() replies with ${error}, its status, headers and message, and stores nothing`, async () => {
    const service = new TestService();
    assert.equal((await service.create(STORED)).status, 200);
    const before = service.stored();

    const reply = await provoke(service);
    assertRefusal(reply, { error, message });
    assert.deepEqual(Object.fromEntries(reply.headers), {
      "content-type": "application/json",
      ...CONTRACT_HEADERS[error],
      // Deno itself adds it since 2.8.3.
      ...(error === 40801 && IS_OLD && { "connection": "close" }),
    });
    assert.deepEqual(service.stored(), before);
  });
}

Deno.test("the rows above are every error of the API", () => {
  assert.deepEqual(
    ROWS.map(({ error }) => error),
    Object.values(API_ERRORS).map(({ error }) => error),
  );
});

Deno.test("handle() replies to a create with its name and tag, without its id, and stores it", async () => {
  const service = new TestService();
  const tagged = await service.create(STORED);
  assert.equal(tagged.status, 200);
  assert.deepEqual(
    Object.fromEntries(tagged.headers),
    { "content-type": "application/json" },
  );
  assert.equal(tagged.text, '{"name":"Monstera","tag":"climber"}');
  const untagged = await service.create(VALID);
  assert.equal(untagged.status, 200);
  assert.equal(untagged.text, '{"name":"Fern"}');
  assert.deepEqual(service.stored(), [
    [["plants", 1n], { name: "Monstera", tag: "climber" }],
    [["plants", 2n], { name: "Fern" }],
  ]);
});

Deno.test("handle() replies with 200 only after the commit has returned", async () => {
  const service = new TestService();
  service.store.pause();
  let isAnswered = false;
  const reply = service.create(VALID).then((reply) => {
    isAnswered = true;
    return reply;
  });
  await service.createsWaiting(1);
  assert.deepEqual(service.stored(), []);
  assert.equal(isAnswered, false);
  service.store.resume();
  assert.equal((await reply).status, 200);
  assert.equal(service.stored().length, 1);
});

Deno.test("handle() logs the error behind a 50001 under the id in the message, and reveals nothing else", async () => {
  const service = new TestService();
  const { create } = service.committer;
  service.committer.create = () => {
    throw new TypeError("secret of this test");
  };
  for (let i = 0; i < 2; i++) {
    const reply = await service.create(STORED);
    assertRefusal(reply, { error: 50001 }, ["secret", ".ts", "TypeError"]);
    const id = /\S+$/.exec(JSON.parse(reply.text).message)?.[0];
    const entry = service.logged[i] ?? "";
    assert.ok(entry.includes(`${id}\nTypeError: secret of this test\n`), entry);
  }
  service.committer.create = create;
  assert.equal((await service.create(STORED)).status, 200);
  const { text } = await service.get("/metrics");
  assert.match(text, /_requests_total\{code="500"\} 2\n/);
  assert.match(text, /_bodies_held_bytes 0\n/);
  await service.handler.drain();
});

Deno.test("handle() counts the seconds of requests", async () => {
  const service = new TestService();
  const { now } = performance;
  let nowMs = 0;
  performance.now = () => nowMs += 250;
  try {
    await service.get("/livez");
  } finally {
    performance.now = now;
  }
  const { text } = await service.get("/metrics");
  assert.match(text, /_http_request_duration_seconds_sum 0.25\n/);
});
