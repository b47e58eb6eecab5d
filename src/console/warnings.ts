import { toDate, validityOf } from "../config/certificate.ts";
import { fingerprintsOf } from "../config/fingerprint.ts";
import type { Config } from "../config/settings.ts";

/** A host that is this machine, as `URL` normalizes it. */
const LOOPBACK = /^(127\.[\d.]+|\[::1\]|(.+\.)?localhost)$/;

/** The oldest version of Deno without known faults that concern the service. */
export const DENO_OLDEST = "2.9.6";

/** Minimum length of a token that other machines may try to guess. */
const TOKEN_CHARS_MIN = 16;

/** Minimum validity left. Certificates are usually renewed 15 to 30 days before their end. */
const CERTIFICATE_DAYS_MIN = 7;

const DAY_MS = 24 * 60 * 60 * 1000;

/** What may be a mistake, although the service works. */
interface Warning {
  /** For the log. */
  readonly event: string;
  readonly message: string;
}

/**
 * Returns what a start and `check` warn of.
 * @param address the bound address as a URL
 * @param deno the version of Deno
 */
export function warningsOf(
  { baseUrl, tls, tokens }: Config,
  address: string,
  deno = Deno.version.deno,
): readonly Warning[] {
  const warnings: Warning[] = [];
  function warn(event: string, message: string): void {
    warnings.push({ event, message });
  }
  if (deno.localeCompare(DENO_OLDEST, "en", { numeric: true }) < 0) {
    warn(
      "old Deno",
      `Deno ${deno} is older than ${DENO_OLDEST}: it closes connections ` +
        "after larger bodies, or can corrupt a store that two processes use",
    );
  }
  // Clients call the base URL, wherever the service listens.
  const url = baseUrl ?? address;
  if (!url.startsWith("https:") && !isLoopback(url)) {
    warn(
      "clear text",
      `${url} is not https, so tokens are sent in clear text: set TLS_CERT ` +
        "and TLS_KEY, or the https address of a proxy as BASE_URL",
    );
  }
  if (url.endsWith("/plants")) {
    warn(
      "base URL",
      `the base URL ends with /plants, so creates go to ${url}/plants: ` +
        "remove its /plants",
    );
  }
  const short = tokens.filter(({ length }) => length < TOKEN_CHARS_MIN);
  const isPublic = ![url, address].every(isLoopback);
  if (isPublic && short.length > 0) {
    warn(
      "short token",
      `tokens with fewer than ${TOKEN_CHARS_MIN} characters can be guessed: ` +
        `replace ${
          fingerprintsOf(short)
        } by the output of openssl rand -hex 32`,
    );
  }
  const problem = tls && certificateProblem(tls.cert, Date.now());
  if (problem !== undefined) warn("certificate", problem);
  return warnings;
}

function isLoopback(url: string): boolean {
  return LOOPBACK.test(new URL(url).hostname);
}

/** Returns what is wrong with the dates of a certificate. */
export function certificateProblem(
  pem: string,
  nowMs: number,
): string | undefined {
  const validity = validityOf(pem);
  if (validity === undefined) return undefined;
  const { fromMs, toMs } = validity;
  if (nowMs < fromMs) {
    return `the certificate is not valid before ${
      toDate(fromMs)
    }, so clients refuse it`;
  }
  const end = toDate(toMs);
  if (nowMs > toMs) {
    return `the certificate expired on ${end}, so clients refuse it`;
  }
  const isEnding = toMs - nowMs < CERTIFICATE_DAYS_MIN * DAY_MS;
  return isEnding ? `the certificate expires on ${end}: renew it` : undefined;
}
