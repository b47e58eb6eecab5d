import assert from "node:assert/strict";
import { localOriginOf } from "../../src/http/origin.ts";

Deno.test("localOriginOf() puts IPv6 addresses in brackets, and replaces wildcard addresses by localhost", () => {
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
