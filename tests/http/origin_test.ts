import assert from "node:assert/strict";
import { clientOriginOf, originOf, prefixOf } from "../../src/http/origin.ts";

Deno.test("originOf() puts IPv6 addresses in brackets, and clientOriginOf() replaces wildcard addresses by localhost", () => {
  for (
    const [host, isTls, origin, clientOrigin = origin] of [
      ["127.0.0.1", false, "http://127.0.0.1:8000"],
      ["plants.test", true, "https://plants.test:8000"],
      ["2001:db8::1", false, "http://[2001:db8::1]:8000"],
      ["0.0.0.0", true, "https://0.0.0.0:8000", "https://localhost:8000"],
      ["::", false, "http://[::]:8000", "http://localhost:8000"],
    ] as const
  ) {
    assert.equal(originOf(host, 8000, isTls), origin);
    assert.equal(clientOriginOf(origin), clientOrigin);
  }
});

Deno.test("prefixOf() returns the path of a base URL without a last slash", () => {
  for (
    const [baseUrl, prefix] of [
      ["https://plants.test", ""],
      ["https://plants.test/", ""],
      ["https://plants.test:8443/api/v1", "/api/v1"],
      ["https://plants.test/a%20b/", "/a%20b"],
    ] as const
  ) assert.equal(prefixOf(baseUrl), prefix);
});
