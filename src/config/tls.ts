import { OperatorError } from "../operator_error.ts";
import { type FileSetting, readFile } from "./files.ts";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----/;
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
const WITH_PASSPHRASE = /BEGIN ENCRYPTED|Proc-Type: .*ENCRYPTED/;

/** Reads a certificate and its key. @throws {OperatorError} */
export function readTlsPair(
  certFile: FileSetting,
  keyFile: FileSetting,
): { readonly cert: string; readonly key: string } {
  const [cert, key] = [readFile(certFile), readFile(keyFile)];
  expect(CERTIFICATE.test(cert), "a certificate as PEM", certFile);
  expect(PRIVATE_KEY.test(key), "a private key as PEM", keyFile);
  expect(!WITH_PASSPHRASE.test(key), "a key without a passphrase", keyFile);
  return { cert, key };
}

function expect(isMet: boolean, expected: string, { name, path }: FileSetting) {
  if (isMet) return;
  throw new OperatorError(`${name}: expected ${expected} in ${path}`);
}
