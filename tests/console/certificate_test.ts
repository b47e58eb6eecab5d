import assert from "node:assert/strict";
import { describeExpiry } from "../../src/console/certificate.ts";

Deno.test("describeExpiry() says when a certificate expires, or that it has", () => {
  const pair = { cert: "", key: "" };
  const certFile = { name: "TLS_CERT", path: "/cert.pem" };
  const nowMs = Date.now();
  for (
    const [ms, verb] of [
      [-1_000, "has expired"],
      [60_000, "expires"],
    ] as const
  ) {
    const expires = new Date(nowMs + ms);
    assert.equal(
      describeExpiry({ pair, certFile, expires }),
      `the certificate in /cert.pem ${verb} on ${expires.toISOString()}`,
    );
  }
});
