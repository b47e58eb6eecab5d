import { X509Certificate } from "node:crypto";
import { OperatorError } from "../operator_error.ts";
import { type FileSetting, readFile } from "./files.ts";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/s;
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
const WITH_PASSPHRASE = /BEGIN ENCRYPTED|Proc-Type: .*ENCRYPTED/;

/** A certificate and its key, as read from their files. */
export interface TlsFiles {
  /** Both as PEM, the server's own certificate first. */
  readonly pair: Deno.TlsCertifiedKeyPem;
  readonly certFile: FileSetting;
  /** When the server's own certificate expires. */
  readonly expires: Date;
}

/** Reads a certificate and its key. @throws {OperatorError} */
export function readTlsFiles(
  certFile: FileSetting,
  keyFile: FileSetting,
): TlsFiles {
  const [cert, key] = [readFile(certFile), readFile(keyFile)];
  const expires = expiryOf(cert);
  if (expires === undefined) throw unexpected("a certificate as PEM", certFile);
  if (!PRIVATE_KEY.test(key)) throw unexpected("a private key as PEM", keyFile);
  if (WITH_PASSPHRASE.test(key)) {
    throw unexpected("a key without a passphrase", keyFile);
  }
  return { pair: { cert, key }, certFile, expires };
}

/** Returns when the first certificate in a text expires, if there is one. */
function expiryOf(text: string): Date | undefined {
  const [certificate] = CERTIFICATE.exec(text) ?? [];
  try {
    if (certificate === undefined) return undefined;
    return new X509Certificate(certificate).validToDate;
  } catch {
    return undefined;
  }
}

function unexpected(expected: string, { name, path }: FileSetting) {
  return new OperatorError(`${name}: expected ${expected} in ${path}`);
}
