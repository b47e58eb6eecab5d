import assert from "node:assert/strict";
import {
  localAddressOf,
  localOriginOf,
  originOf,
} from "../../src/http/origin.ts";

Deno.test("originOf() puts IPv6 addresses in brackets", () => {
  assert.equal(originOf("192.0.2.7", 8443, true), "https://192.0.2.7:8443");
  assert.equal(originOf("::", 8000, false), "http://[::]:8000");
});

Deno.test("localOriginOf() replaces wildcard addresses by localhost", () => {
  for (
    const [host, isTls, origin] of [
      ["127.0.0.1", false, "http://127.0.0.1:8000"],
      ["plants.test", true, "https://plants.test:8000"],
      ["2001:db8::1", false, "http://[2001:db8::1]:8000"],
      ["0.0.0.0", true, "https://localhost:8000"],
      ["::", false, "http://localhost:8000"],
    ] as const
  ) assert.equal(localOriginOf(host, 8000, isTls), origin);
});

Deno.test("localAddressOf() replaces wildcard addresses by loopback addresses", () => {
  for (
    const [host, address] of [
      ["0.0.0.0", "127.0.0.1"],
      ["::", "::1"],
      ["192.0.2.7", "192.0.2.7"],
    ] as const
  ) assert.equal(localAddressOf(host), address);
});
