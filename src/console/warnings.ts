import { explainInvalidity } from "../config/certificate.ts";
import { fingerprintsOf } from "../tokens.ts";
import type { Config } from "../config/settings.ts";

/** A host that is this machine, as `URL` normalizes it. */
const LOOPBACK = /^(127\.[\d.]+|\[::1\]|(.+\.)?localhost)$/;

/** The oldest version of Deno without known faults that concern the service. */
export const DENO_OLDEST = "2.9.6";

/** Minimum length of a token that other machines may try to guess. */
const TOKEN_CHARS_MIN = 16;

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
  if (deno.localeCompare(DENO_OLDEST, "en", { numeric: true }) < 0) {
    warnings.push({
      event: "old Deno",
      message:
        `Deno ${deno} is older than ${DENO_OLDEST}: it closes connections ` +
        "after larger bodies, or can corrupt a store that two processes use",
    });
  }
  // Clients call the base URL, wherever the service listens.
  const url = baseUrl ?? address;
  if (!url.startsWith("https:") && !isLoopback(url)) {
    warnings.push({
      event: "clear text",
      message:
        `${url} is not https, so tokens are sent in clear text: set TLS_CERT ` +
        "and TLS_KEY, or the https address of a proxy as BASE_URL",
    });
  }
  const short = tokens.filter(({ length }) => length < TOKEN_CHARS_MIN);
  const isPublic = ![url, address].every(isLoopback);
  if (isPublic && short.length > 0) {
    warnings.push({
      event: "short token",
      message:
        `tokens with fewer than ${TOKEN_CHARS_MIN} characters can be guessed: ` +
        `replace ${
          fingerprintsOf(short)
        } by the output of openssl rand -hex 32`,
    });
  }
  const invalid = tls && explainInvalidity(tls.cert, Date.now());
  if (invalid !== undefined) {
    warnings.push({ event: "certificate", message: invalid });
  }
  return warnings;
}

function isLoopback(url: string): boolean {
  return LOOPBACK.test(new URL(url).hostname);
}
