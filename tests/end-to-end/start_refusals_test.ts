import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import {
  assertOneEntry,
  assertOneLine,
  type Ended,
  runProgram,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** A value that no output may contain. */
const SECRET = "hush-hush";

/** A start that is refused; `*` is the directory of {@link makeFiles}. */
interface Refused {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly message: RegExp;
  readonly status?: 1 | 2;
}

/** The reason, and the start that is refused for it. */
const REFUSED: Readonly<Record<string, Refused>> = {
  "an unknown flag": { args: ["--prot", "1"], message: /unknown flag --prot:/ },
  "an unknown flag with a control character": {
    args: ["--\x1b[31m\nred"],
    message: /unknown flag --\\u\{1b\}\[31m red: see --help$/m,
  },
  "a flag for a token": {
    args: [`--access-token=${SECRET}`],
    message: /unknown flag --access-token:/,
  },
  "an unknown short flag": { args: ["-p", "1"], message: /unknown flag -p:/ },
  "an unknown command": { args: ["sevre"], message: /unknown command sevre:/ },
  "an argument too many": { args: ["serve", "now"], message: /argument now:/ },
  "a flag without a value": { args: ["--kv"], message: /--kv needs a value:/ },
  "a flag as the value of a flag": {
    args: ["--kv", "--port", "0"],
    message: /--kv needs a value, got the flag --port$/m,
  },
  "a flag that is given twice": {
    args: ["--kv", "a.db", "--kv=b.db"],
    message: /--kv is given twice: give it once$/m,
  },
  "a port above 65535": {
    args: ["--port", "65536"],
    message: /--port: expected .* from 0 to 65535, got "65536"$/m,
  },
  "a negative port": { args: ["--port=-1"], message: /--port: .*"-1"$/m },
  "a port that is no number": {
    env: { PORT: "http" },
    message: /PORT: .*"http"$/m,
  },
  "a host without an address": {
    args: ["--host", "[]"],
    message: /--host: expected an address such as 127\.0\.0\.1, got "\[\]"$/m,
  },
  "a host with a port": {
    args: ["--host=1.2.3.4:80"],
    message: /--host: .*"1\.2\.3\.4:80"$/m,
  },
  "a host that is an invalid IPv4 address": {
    env: { HOST: "256.1.1.1" },
    message: /HOST: .*"256\.1\.1\.1"$/m,
  },
  "a host that is an IPv4 address in brackets": {
    env: { HOST: "[1.2.3.4]" },
    message: /HOST: .*"\[1\.2\.3\.4\]"$/m,
  },
  "an empty host": { args: ["--host", ""], message: /--host: .*""$/m },
  "a host with a path": { env: { HOST: "a/b" }, message: /HOST: .*"a\/b"$/m },
  "an unknown log format": {
    args: ["--log-format", "xml"],
    message: /--log-format: expected text or json, got "xml"$/m,
  },
  "a base URL that is not http": {
    args: ["--base-url", "ftp://a"],
    message: /--base-url: expected a URL such as/,
  },
  "a base URL with a query": {
    env: { BASE_URL: "http://a/?b" },
    message: /BASE_URL: expected a URL such as/,
  },
  "an empty token": {
    env: { ACCESS_TOKEN: "" },
    message: /ACCESS_TOKEN: .*an empty one: write one, or unset it$/m,
  },
  "an empty token among others": {
    env: { ACCESS_TOKEN: `${SECRET},,a` },
    message: /ACCESS_TOKEN: .*an empty one/,
  },
  "a token with a space": {
    env: { ACCESS_TOKEN: `${SECRET} x` },
    message: /ACCESS_TOKEN: the token has a character/,
  },
  "a token beyond ASCII": {
    env: { ACCESS_TOKEN: `a,${SECRET}é` },
    message: /ACCESS_TOKEN: token 2 has a character/,
  },
  "tokens in a variable and in a file": {
    args: ["--token-file", "*/tokens"],
    env: { ACCESS_TOKEN: SECRET },
    message: /ACCESS_TOKEN and --token-file are both given/,
  },
  "an empty name of a token file": {
    env: { ACCESS_TOKEN_FILE: "" },
    message: /ACCESS_TOKEN_FILE: expected a file, got ""$/m,
  },
  "a missing token file": {
    args: ["--token-file", "*/none"],
    message: /--token-file: cannot read \/.*\/none: no such file$/m,
  },
  "a token file without a token": {
    env: { ACCESS_TOKEN_FILE: "*/empty" },
    message: /ACCESS_TOKEN_FILE: \/.*\/empty: .*an empty one/,
  },
  "a token file that is a directory": {
    args: ["--token-file", "*/directory"],
    message: /--token-file: cannot .*\/directory: it is a directory$/m,
  },
  "a token file with an invalid line": {
    args: ["--token-file", "*/bad-tokens"],
    message: /--token-file: \/.*\/bad-tokens: token 2 has a character/,
  },
  "a store in a missing directory": {
    args: ["--kv", "*/no/p.db"],
    message: /cannot store plants in .*: no directory \/.*\/no: create it, or /,
  },
  "a store that is a directory": {
    args: ["--kv", "*/directory"],
    message: /cannot store .*\/directory: it is a directory: name a file in it/,
  },
  "a store below a file": {
    args: ["--kv", "*/tokens/p.db"],
    message: /cannot store plants in \/.*\/tokens\/p\.db: /,
  },
  "a store that is not a database": {
    args: ["--kv", "*/garbage"],
    message: /cannot store plants in \/.*\/garbage: .*: name another file/,
  },
  "a store that is another database": {
    env: { KV_PATH: "*/other.db" },
    message: /cannot store plants in \/.*\/other\.db: .*: name another file/,
  },
  "an empty store": { args: ["--kv="], message: /--kv: .*, got ""$/m },
  "a store in memory": {
    env: { DENO_KV_DB_MODE: "memory" },
    message: /DENO_KV_DB_MODE=memory .*: unset it$/m,
  },
  "a store that Deno would move": {
    env: { DENO_KV_PATH_PREFIX: "/elsewhere/" },
    message: /DENO_KV_PATH_PREFIX .*: unset it$/m,
  },
  "a TLS certificate without a key": {
    args: ["--tls-cert", "*/cert.pem"],
    message: /--tls-cert is given without --tls-key: give both or none$/m,
  },
  "a TLS key without a certificate": {
    env: { TLS_KEY: "*/key.pem" },
    message: /TLS_KEY is given without --tls-cert: give both or none$/m,
  },
  "missing TLS files": {
    args: ["--tls-cert", "*/none", "--tls-key", "*/none"],
    message: /--tls-cert: cannot read \/.*\/none: no such file$/m,
  },
  "TLS files that are not PEM": {
    args: ["--tls-cert", "*/tokens", "--tls-key", "*/tokens"],
    message: /--tls-cert: expected a certificate as PEM in \/.*\/tokens$/m,
  },
  "a TLS key with a passphrase": {
    args: ["--tls-cert", "*/cert.pem", "--tls-key", "*/locked.pem"],
    message: /--tls-key: .*without a passphrase in \/.*\/locked\.pem$/m,
  },
  "a KV Connect server without a token": {
    args: ["--kv", "https://kv.test"],
    message: /DENO_KV_ACCESS_TOKEN is not set: /,
  },
  "a KV Connect server with a token of white space": {
    args: ["--kv", "https://kv.test"],
    env: { DENO_KV_ACCESS_TOKEN: " \n" },
    message: /DENO_KV_ACCESS_TOKEN is not set: /,
  },
  "a token of a KV Connect server with a line end": {
    args: ["--kv", "HTTPS://kv.test"],
    env: { DENO_KV_ACCESS_TOKEN: `${SECRET}\nx` },
    message: /DENO_KV_ACCESS_TOKEN: expected a token without white space/,
  },
  "an invalid URL of a KV Connect server": {
    args: ["--kv", "http://:99999/"],
    env: { DENO_KV_ACCESS_TOKEN: SECRET },
    message: /--kv: expected a file, or a URL such as https:/,
  },
};

/** Makes the files that {@link REFUSED} names. */
function makeFiles(directory: TemporaryDirectory): void {
  Deno.mkdirSync(directory.file("directory"));
  const files = {
    "tokens": `${SECRET}\n`,
    "bad-tokens": `a\n${SECRET} b\n`,
    "empty": "\n \n",
    "garbage": "garbage ".repeat(1000),
  };
  for (const [name, text] of Object.entries(files)) {
    Deno.writeTextFileSync(directory.file(name), text);
  }
  const blocks = {
    "cert.pem": "CERTIFICATE",
    "key.pem": "PRIVATE KEY",
    "locked.pem": "ENCRYPTED PRIVATE KEY",
  };
  for (const [name, kind] of Object.entries(blocks)) {
    const text = `-----BEGIN ${kind}-----\nAAAA\n-----END ${kind}-----\n`;
    Deno.writeTextFileSync(directory.file(name), text);
  }
  const other = new DatabaseSync(directory.file("other.db"));
  other.exec("CREATE TABLE plants (id INTEGER)");
  other.close();
}

/** Returns the names and sizes of the files in a directory. */
function listFiles({ path }: TemporaryDirectory): Record<string, number> {
  const names = Array.from(Deno.readDirSync(path), ({ name }) => name);
  return Object.fromEntries(
    names.toSorted().map((name) => [
      name,
      Deno.statSync(`${path}/${name}`).size,
    ]),
  );
}

/** Runs a start that {@link REFUSED} describes, and asserts that no file changed. */
async function runRefused({ args = [], env = {} }: Refused): Promise<Ended> {
  using directory = new TemporaryDirectory();
  makeFiles(directory);
  const before = listFiles(directory);
  const place = (text: string) => text.replace("*", directory.path);
  const ended = await runProgram(args.map(place), {
    cwd: directory.path,
    env: Object.fromEntries(
      // Another program may listen on the default port.
      Object.entries({ PORT: "0", ...env })
        .map(([name, value]) => [name, place(value)]),
    ),
  });
  assert.deepEqual(listFiles(directory), before);
  assert.ok(!ended.stderr.includes(SECRET), ended.stderr);
  return ended;
}

for (const [reason, refused] of Object.entries(REFUSED)) {
  const { message } = refused;
  Deno.test(`serve refuses ${reason} with one line and creates no file`, async () => {
    assertOneLine(await runRefused(refused), 2, message);
  });
}

const JSON_REFUSED: readonly Refused[] = [
  { args: ["--log-format", "json", "--frob"], message: /^unknown flag --frob/ },
  { args: ["--frob", "--log-format=json"], message: /^unknown flag --frob/ },
  {
    args: ["--kv", "--log-format", "json"],
    message: /^--kv needs a value, got the flag --log-format$/,
  },
  {
    args: ["--log-format=json", "--log-format=text"],
    message: /^--log-format is given twice/,
  },
  { args: ["frob", "--log-format=json"], message: /^unknown command frob/ },
  { args: ["--host=[]", "--log-format=json"], message: /^--host: .*"\[\]"$/ },
  { args: ["--\n\x1b"], message: /^unknown flag -- \\u\{1b\}: see --help$/ },
  { env: { PORT: "x" }, message: /^PORT: / },
  { env: { ACCESS_TOKEN_FILE: "*/none" }, message: /\/none: no such file$/ },
  { args: ["--kv", "*/directory"], message: /: it is a directory: / },
  { args: ["export", "--kv", "*/none"], message: /: no such file: / },
  { args: ["import", "*/none"], message: /: no such file/ },
  {
    args: ["healthcheck", "--port", "1"],
    message: /^no answer from 127\.0\.0\.1 port 1: /,
    status: 1,
  },
];

for (const refused of JSON_REFUSED) {
  const { args = [], env = {}, message, status = 2 } = refused;
  const isByFlag = args.some((arg) => arg.startsWith("--log-format"));
  const start = JSON.stringify([...args, ...Object.keys(env)].join(" "));
  Deno.test(
    `${
      isByFlag ? "--log-format json" : "LOG_FORMAT=json"
    } applies to the error of ${start}`,
    async () => {
      const ended = await runRefused({
        ...refused,
        env: { ...env, ...(!isByFlag && { LOG_FORMAT: "json" }) },
      });
      assertOneEntry(ended, status, message);
    },
  );
}

Deno.test("an invalid log format is reported as text", async () => {
  const ended = await runRefused({
    env: { LOG_FORMAT: "JSON" },
    message: /LOG_FORMAT/,
  });
  assertOneLine(ended, 2, 'LOG_FORMAT: expected text or json, got "JSON"');
});
