import type { TlsFiles } from "../config/tls.ts";

/** Says when a certificate expires, or that it has. */
export function describeExpiry({ certFile, expires }: TlsFiles): string {
  const verb = expires < new Date() ? "has expired" : "expires";
  return `the certificate in ${certFile.path} ${verb} on ${expires.toISOString()}`;
}
