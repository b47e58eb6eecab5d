import { X509Certificate } from "node:crypto";
import type { Config } from "../config/settings.ts";
import { findSaved } from "../save_lost.ts";
import { fingerprintsOf } from "../tokens.ts";

/** A host that is this machine, as `URL` normalizes it. */
const LOOPBACK = /^(127\.[\d.]+|\[::1\]|(.+\.)?localhost)$/;

/** The oldest version of Deno without known faults that concern the service. */
export const DENO_OLDEST = "2.9.6";

/** Minimum length of a token that other machines may try to guess. */
const TOKEN_CHARS_MIN = 16;

/** Time before the end of a certificate by which it should long be renewed. */
const CERTIFICATE_REST_MS = 7 * 24 * 60 * 60 * 1000;

/** The first certificate of a PEM text: that of the service. The others certify it. */
const FIRST = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/;

/** What tests replace. */
interface WarningOptions {
  /** The version of Deno. */
  readonly deno?: string;
  readonly nowMs?: number;
}

/**
 * Returns what may be a mistake, although the service works, by its event in the log.
 * @param address the bound address as a URL
 */
export function warningsOf(
  { baseUrl, location, tls, tokens }: Config,
  address: string,
  { deno = Deno.version.deno, nowMs = Date.now() }: WarningOptions = {},
): ReadonlyMap<string, string> {
  const warnings = new Map<string, string>();
  if (deno.localeCompare(DENO_OLDEST, "en", { numeric: true }) < 0) {
    warnings.set(
      "old Deno",
      `Deno ${deno} is older than ${DENO_OLDEST}: it closes connections ` +
        "after larger bodies, or can corrupt a store that two processes use",
    );
  }
  const saved = location.kind === "file" && findSaved(location.name);
  if (saved) {
    warnings.set("saved plants", `${saved} has plants of a lost store`);
  }
  // Clients call the base URL, wherever the service listens.
  const url = baseUrl ?? address;
  if (!url.startsWith("https:") && !isLoopback(url)) {
    warnings.set(
      "clear text",
      `${url} is not https, so tokens are sent in clear text: set TLS_CERT ` +
        "and TLS_KEY, or the https address of a proxy as BASE_URL",
    );
  }
  if (url.endsWith("/plants")) {
    warnings.set(
      "base URL",
      `creates go to ${url}/plants: remove /plants from the base URL`,
    );
  }
  const short = tokens.filter(({ length }) => length < TOKEN_CHARS_MIN);
  const isPublic = ![url, address].every(isLoopback);
  if (isPublic && short.length > 0) {
    warnings.set(
      "short token",
      `tokens with fewer than ${TOKEN_CHARS_MIN} characters can be guessed: ` +
        `replace ${
          fingerprintsOf(short)
        } by the output of openssl rand -hex 32`,
    );
  }
  const notValid = tls && warnOfCertificate(tls.cert, nowMs);
  if (notValid) warnings.set("certificate", notValid);
  return warnings;
}

function isLoopback(url: string): boolean {
  return LOOPBACK.test(new URL(url).hostname);
}

/** Warns of a certificate that is not valid yet, or not for long any more. */
function warnOfCertificate(pem: string, nowMs: number): string | undefined {
  try {
    const first = FIRST.exec(pem)?.[0] ?? "";
    const { validFrom, validTo } = new X509Certificate(first);
    const isValid = nowMs >= Date.parse(validFrom) &&
      nowMs <= Date.parse(validTo) - CERTIFICATE_REST_MS;
    return isValid
      ? undefined
      : `clients accept the certificate from ${validFrom} to ${validTo} only`;
  } catch {
    // The runtime serves some certificates that Node cannot read.
    return undefined;
  }
}
