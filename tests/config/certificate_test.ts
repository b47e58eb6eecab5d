import assert from "node:assert/strict";
import { explainInvalidity } from "../../src/config/certificate.ts";
import { isMissing } from "../support/needs.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { makeCertificate, runTool } from "../support/tools.ts";

Deno.test({
  name:
    "explainInvalidity() compares the dates of the first certificate, after a key and text, with a time",
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
    const [from = NaN, to = NaN] = Array.from(
      dates.matchAll(/=(.*)/g),
      ([, date = ""]) => Date.parse(date),
    );
    const other = await makeCertificate(directory, "other");
    const pem = [key, cert, other.cert]
      .map((file) => `localKeyID: 01\n${Deno.readTextFileSync(file)}`).join("");
    assert.equal(explainInvalidity(pem, from), undefined);
    assert.equal(explainInvalidity(pem, to), undefined);
    const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
    const refused = "so clients refuse it";
    assert.equal(
      explainInvalidity(pem, from - 1),
      `the certificate is not valid before ${day(from)}, ${refused}`,
    );
    assert.equal(
      explainInvalidity(pem, to + 1),
      `the certificate expired on ${day(to)}, ${refused}`,
    );
  },
});

Deno.test("explainInvalidity() returns nothing for a text without a readable certificate", () => {
  const [begin, end] = ["BEGIN", "END"].map((it) =>
    `-----${it} CERTIFICATE-----`
  );
  for (const pem of ["", "x", `${begin}\nAAAA\n${end}\n`]) {
    assert.equal(explainInvalidity(pem, 0), undefined);
  }
});
