/** Request lines and headers as only a socket can send them. */
import assert from "node:assert/strict";
import { testsOfOneService } from "../support/one_service.ts";
import { assertRefusal } from "../support/refusals.ts";
import { type Differences, exchange, request } from "../support/wire.ts";

const VALID = '{"id":2,"name":"Fern"}';

/** How creates differ from an ordinary one, and are stored all the same. */
const ACCEPTED: readonly (readonly [string, Differences])[] = [
  ...["/plants?/plants/", "http://a.test/plants"].map((target) =>
    [`the target ${target}`, { line: `POST ${target} HTTP/1.1` }] as const
  ),
  ...["", "[::", "é"].map(
    (host) => [`the Host "${host}"`, { headers: [`host: ${host}`] }] as const,
  ),
  [
    "HTTP/1.0 and no Host",
    { line: "POST /plants HTTP/1.0", without: ["host"] },
  ],
];

const { test } = testsOfOneService();

test("a request with the path /x/../plants is refused with 40401", async (program) => {
  const line = "POST /x/../plants HTTP/1.1";
  assertRefusal(
    await exchange(program.port, request(VALID, { line })),
    { error: 40401, message: /^path not found: \/x\/\.\.\/plants: / },
  );
});

for (const [i, [name, differences]] of ACCEPTED.entries()) {
  test(`a create with ${name} is stored`, async (program) => {
    const id = 100n + BigInt(i);
    const body = `{"id":${id},"name":"Fern"}`;
    const reply = await exchange(program.port, request(body, differences));
    assert.equal(reply?.status, 200, reply?.text);
    assert.equal(reply.headers.get("content-type"), "application/json");
    assert.equal(reply.text, '{"name":"Fern"}');
    return [[["plants", id], { name: "Fern" }]];
  });
}
