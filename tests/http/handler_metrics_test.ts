import assert from "node:assert/strict";
import { TestService, TOKENS, VALID } from "../support/service.ts";

/** Returns the values of a metric, in order; none if it is absent. */
async function valuesOf(service: TestService, name: string): Promise<number[]> {
  const { text } = await service.get("/metrics");
  const lines = text.match(new RegExp(`^plant_store_${name}(\\{|\\s).*`, "gm"));
  return (lines ?? []).map((line) => Number(line.split(" ").at(-1)));
}

Deno.test("handle() shows in /metrics how often each token was accepted", async () => {
  const service = new TestService();
  for (const token of [TOKENS[1], TOKENS[2], TOKENS[1], "guess"]) {
    const authorization = `Bearer ${token}`;
    await service.create(VALID, { headers: { authorization } });
  }
  // The request for the metrics has the first token.
  const counts = await valuesOf(service, "token_requests_total");
  assert.deepEqual(counts, [1, 2, 1]);
});

Deno.test("handle() shows in /metrics whether the store is new, and the sizes and times that exist", async () => {
  const expires = new Date("2030-01-02T03:04:05Z");
  const service = new TestService("https://plants.test", expires);
  service.store.isNew = true;
  service.store.files = {
    path: "plants.db",
    bytes: 4096,
    loss: undefined,
    check: () => undefined,
    renameLog: () => {},
  };
  for (
    const [name, present, absent] of [
      ["new_store", [1], [0]],
      ["database_bytes", [4096], []],
      ["certificate_expiry_timestamp_seconds", [expires.getTime() / 1000], []],
    ] as const
  ) {
    assert.deepEqual(await valuesOf(service, name), present);
    assert.deepEqual(await valuesOf(new TestService(), name), absent);
  }
});
