/** Bodies that arrive too slowly, all at the same time. */
import assert from "node:assert/strict";
import { BODY_MS_MAX } from "../../src/limits.ts";
import { eventually } from "../support/load.ts";
import { testsOfOneService } from "../support/one_service.ts";
import { assertRefusal } from "../support/refusals.ts";
import { exchange, request, Wire } from "../support/wire.ts";

const BODY = '{"id":2,"name":"Fern"}';

const TIMED_OUT = {
  error: 40801,
  message: `body: expected all of it within ${BODY_MS_MAX / 1000} s`,
};

/** The header and the part of a body, and the rest of it. */
const SLOW:
  readonly (readonly [name: string, part: Uint8Array, rest: string])[] = [
    [
      "a part of a length",
      request(BODY.slice(0, 9), {
        headers: [`content-length: ${BODY.length}`],
      }),
      BODY.slice(9),
    ],
    [
      "no chunk",
      request("", { headers: ["transfer-encoding: chunked"] }),
      `16\r\n${BODY}\r\n0\r\n\r\n`,
    ],
    [
      "every chunk but the last",
      request(`16\r\n${BODY}\r\n`, { headers: ["transfer-encoding: chunked"] }),
      "0\r\n\r\n",
    ],
    [
      "nothing after 100 Continue",
      request("", {
        headers: [`content-length: ${BODY.length}`, "expect: 100-continue"],
      }),
      BODY,
    ],
  ];

/** Sends white space until the reply arrives, so that the body never pauses. */
async function trickle(wire: Wire): Promise<void> {
  await wire.send(request("", { headers: ["content-length: 30000"] }));
  const reply = wire.reply();
  let isReplied = false;
  reply.finally(() => isReplied = true);
  await eventually(() => isReplied, async () => void await wire.send(" "));
  assertRefusal(await reply, TIMED_OUT);
}

const { test } = testsOfOneService();

test("a body that has not arrived within 10 s is refused with 40801, and its connection ends with the rest of it", async (program) => {
  const slow = SLOW.map(async ([name, part, rest]) => {
    using wire = await Wire.connect(program.port);
    await wire.send(part);
    const reply = await wire.reply();
    assertRefusal(reply, TIMED_OUT);
    // Once: two such headers would be joined.
    assert.equal(reply?.headers.get("connection"), "close");
    // The runtime waits for the rest of a body before it ends a connection.
    await wire.send(rest);
    assert.equal(await wire.rest(), "", name);
  });
  using trickling = await Wire.connect(program.port);
  slow.push(trickle(trickling));

  // Others are served meanwhile, even one whose body arrives in two parts.
  using wire = await Wire.connect(program.port);
  const body = '{"id":3,"name":"slow but in time"}';
  await wire.send(
    request(body.slice(0, 9), { headers: [`content-length: ${body.length}`] }),
  );
  const other = await exchange(program.port, request('{"id":1,"name":"Aloe"}'));
  assert.equal(other?.status, 200, other?.text);
  await wire.send(body.slice(9));
  assert.equal((await wire.reply())?.status, 200);

  await Promise.all(slow);
  return [
    [["plants", 1n], { name: "Aloe" }],
    [["plants", 3n], { name: "slow but in time" }],
  ];
});
