/** Tokens and PEM files: reads and checks them. */
import { TOKEN_FILE_BYTES_MAX } from "../limits.ts";
import { fileProblem } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";

/** The grammar of a bearer token (RFC 6750, section 2.1: `b64token`). */
export const BEARER_TOKEN = String.raw`[A-Za-z0-9\-._~+/]+=*`;

const TOKEN = new RegExp(`^${BEARER_TOKEN}$`);
const CERTIFICATE = /-----BEGIN CERTIFICATE-----/;
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
const WITH_PASSPHRASE = /BEGIN ENCRYPTED|Proc-Type: .*ENCRYPTED/;

/** A configured file, and the flag or variable that contained its path. */
export interface FileSetting {
  readonly name: string;
  /** Absolute. */
  readonly path: string;
}

/** Checks tokens, and removes duplicates and the white space around them. */
export function readTokens(
  name: string,
  texts: readonly string[],
): readonly string[] {
  const tokens = texts.map((text) => text.trim());
  if (tokens.length === 0 || tokens.includes("")) {
    throw new OperatorError(
      `${name}: expected a token, got an empty one: write one, or unset it`,
    );
  }
  const invalid = tokens.findIndex((token) => !TOKEN.test(token));
  if (invalid < 0) return [...new Set(tokens)];
  // The message is logged, so it must not quote the token.
  const which = tokens.length === 1 ? "the token" : `token ${invalid + 1}`;
  throw new OperatorError(
    `${name}: ${which} has a character that a bearer token cannot have: ` +
      "write letters, digits and -._~+/ only, = at the end",
  );
}

/** Reads a token file: one token per line, ignoring empty lines. */
export function readTokenFile(file: FileSetting): readonly string[] {
  const lines = readFile(file).split("\n");
  const texts = lines.filter((line) => line.trim() !== "");
  return readTokens(`${file.name}: ${file.path}`, texts);
}

/**
 * Reads a token file again while the service runs. It must be a regular file:
 * reading from a pipe could block the service forever.
 * @throws {OperatorError} if the file cannot be read, or a line is not a token
 */
export function reloadTokenFile(file: FileSetting): readonly string[] {
  if (isRegularFile(file)) return readTokenFile(file);
  throw cannotRead(file, "it is not a regular file");
}

function isRegularFile(file: FileSetting): boolean {
  try {
    return Deno.statSync(file.path).isFile;
  } catch (error) {
    throw cannotRead(file, fileProblem(error));
  }
}

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

/** Reads a file. It may be a pipe or a device, so the size is bounded. */
function readFile(file: FileSetting): string {
  const bytes = new Uint8Array(TOKEN_FILE_BYTES_MAX + 1);
  try {
    using open = Deno.openSync(file.path);
    for (let length = 0; length < bytes.length;) {
      const count = open.readSync(bytes.subarray(length));
      if (count === null) {
        return new TextDecoder().decode(bytes.subarray(0, length));
      }
      length += count;
    }
  } catch (error) {
    throw cannotRead(file, fileProblem(error));
  }
  const mibMax = TOKEN_FILE_BYTES_MAX / 2 ** 20;
  throw cannotRead(file, `it is larger than ${mibMax} MiB`);
}

function cannotRead({ name, path }: FileSetting, problem: string) {
  return new OperatorError(`${name}: cannot read ${path}: ${problem}`);
}
