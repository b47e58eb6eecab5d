import { X509Certificate } from "node:crypto";

/** The first certificate of a PEM text: that of the service. The others certify it. */
const FIRST = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/;

/** Returns why clients refuse a certificate at a time, `undefined` if it is valid. */
export function explainInvalidity(
  pem: string,
  nowMs: number,
): string | undefined {
  const { fromMs, toMs } = validityOf(FIRST.exec(pem)?.[0] ?? "");
  if (nowMs > toMs) return sentence("expired on", toMs);
  if (nowMs < fromMs) return sentence("is not valid before", fromMs);
  return undefined;
}

function validityOf(pem: string): { fromMs: number; toMs: number } {
  try {
    const { validFrom, validTo } = new X509Certificate(pem);
    return { fromMs: Date.parse(validFrom), toMs: Date.parse(validTo) };
  } catch {
    // The runtime serves some that Node cannot read.
    return { fromMs: -Infinity, toMs: Infinity };
  }
}

function sentence(verb: string, timeMs: number): string {
  const date = new Date(timeMs).toISOString().slice(0, 10);
  return `the certificate ${verb} ${date}, so clients refuse it`;
}
