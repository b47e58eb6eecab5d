import assert from "node:assert/strict";
import { toDate, validityOf } from "../../src/config/certificate.ts";
import { isMissing } from "../support/needs.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { makeCertificate, runTool } from "../support/tools.ts";

Deno.test({
  name:
    "validityOf() returns the dates of the first certificate, after a key and text",
  ignore: isMissing("openssl"),
  async fn() {
    using directory = new TemporaryDirectory();
    const { cert, key } = await makeCertificate(directory, "plants");
    const dates = await runTool("openssl", [
      "x509",
      "-in",
      cert,
      "-noout",
      "-dates",
    ]);
    const [fromMs, toMs] = Array.from(
      dates.matchAll(/=(.*)/g),
      ([, date = ""]) => Date.parse(date),
    );
    const other = await makeCertificate(directory, "other");
    const pem = [key, cert, other.cert]
      .map((file) => `localKeyID: 01\n${Deno.readTextFileSync(file)}`).join("");
    assert.deepEqual(validityOf(pem), { fromMs, toMs });
  },
});

Deno.test("validityOf() returns nothing for a text without a readable certificate", () => {
  const [begin, end] = ["BEGIN", "END"].map((it) =>
    `-----${it} CERTIFICATE-----`
  );
  for (const pem of ["", "x", `${begin}\nAAAA\n${end}\n`]) {
    assert.equal(validityOf(pem), undefined);
  }
});

Deno.test("toDate() returns the day in UTC", () => {
  assert.equal(toDate(Date.UTC(2026, 1, 3, 23, 59)), "2026-02-03");
});
