import { X509Certificate } from "node:crypto";

/** The first certificate of a PEM text: that of the service. The others certify it. */
const FIRST = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/;

/** When clients accept a certificate. */
interface Validity {
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * Returns the validity of the certificate in a PEM text, `undefined` if Node cannot
 * read it: the runtime serves some of these.
 */
export function validityOf(pem: string): Validity | undefined {
  try {
    const first = FIRST.exec(pem)?.[0] ?? "";
    const { validFrom, validTo } = new X509Certificate(first);
    return { fromMs: Date.parse(validFrom), toMs: Date.parse(validTo) };
  } catch {
    return undefined;
  }
}

/** Formats a time as a date in UTC. */
export function toDate(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10);
}
