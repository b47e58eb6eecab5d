/**
 * Starts that are refused, one for each part of the program that refuses.
 * `config_test.ts` and `config_files_test.ts` have every refused setting.
 */
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
}

/** What is refused, and how. */
const REFUSED: Readonly<Record<string, Refused>> = {
  "an unknown flag with a control character": {
    args: ["--\x1b[31m\nred"],
    message: /unknown flag --\\u\{1b\}\[31m red: see --help$/m,
  },
  "a port that is no number": {
    env: { PORT: "http" },
    message: /PORT: expected a whole number from 0 to 65535, got "http"$/m,
  },
  "a token file with an invalid line": {
    args: ["--token-file", "*/tokens"],
    message: /--token-file: \/.*\/tokens: token 2 has a character/,
  },
  "TLS files that are not PEM": {
    args: ["--tls-cert", "*/tokens", "--tls-key", "*/tokens"],
    message: /--tls-cert: expected a certificate as PEM in \/.*\/tokens$/m,
  },
  "a token of a KV Connect server with a line end": {
    args: ["--kv", "https://kv.test"],
    env: { DENO_KV_ACCESS_TOKEN: `${SECRET}\nx` },
    message: /DENO_KV_ACCESS_TOKEN: expected a token without white space/,
  },
  "a store in a missing directory": {
    args: ["--kv", "*/no/p.db"],
    message: /cannot store plants in .*: no directory \/.*\/no: create it, or /,
  },
  "a store that is a directory": {
    args: ["--kv", "*/directory"],
    message: /cannot store .*\/directory: it is a directory: name a file in it/,
  },
  "a store that is another database": {
    env: { KV_PATH: "*/other.db" },
    message: /cannot store plants in \/.*\/other\.db: .*: name another file/,
  },
};

/** Makes the files that {@link REFUSED} names. */
function makeFiles(directory: TemporaryDirectory): void {
  Deno.mkdirSync(directory.file("directory"));
  Deno.writeTextFileSync(directory.file("tokens"), `a\n${SECRET} b\n`);
  const other = new DatabaseSync(directory.file("other.db"));
  other.exec("CREATE TABLE plants (id INTEGER)");
  other.close();
}

/** Returns the names and sizes of the files in a directory. */
function listFiles(directory: TemporaryDirectory): [string, number][] {
  return directory.names().map((name) => [
    name,
    Deno.statSync(directory.file(name)).size,
  ]);
}

/** Runs a start that is refused, and asserts that no file changed. */
async function runRefused({ args = [], env = {} }: Refused): Promise<Ended> {
  using directory = new TemporaryDirectory();
  makeFiles(directory);
  const before = listFiles(directory);
  const place = (text: string) => text.replace("*", directory.path);
  const ended = await runProgram(args.map(place), {
    cwd: directory.path,
    // Another program may listen on the default port.
    env: Object.fromEntries(
      Object.entries({ PORT: "0", ...env })
        .map(([name, value]) => [name, place(value)]),
    ),
  });
  assert.deepEqual(listFiles(directory), before);
  assert.ok(!ended.stderr.includes(SECRET), ended.stderr);
  return ended;
}

for (const [what, refused] of Object.entries(REFUSED)) {
  Deno.test(`serve refuses ${what} with one line and creates no file`, async () => {
    assertOneLine(await runRefused(refused), 2, refused.message);
  });
}

for (
  const [how, refused, status] of [
    ["a flag after the error", {
      args: ["--frob", "--log-format=json"],
      message: /^unknown flag --frob: see --help$/,
    }, 2],
    ["the first of two flags", {
      args: ["--log-format=json", "--log-format=text"],
      message: /^--log-format is given twice: give it once$/,
    }, 2],
    ["a variable", {
      env: { LOG_FORMAT: "json", ACCESS_TOKEN_FILE: "*/none" },
      message: /^ACCESS_TOKEN_FILE: cannot read \/.*\/none: no such file$/,
    }, 2],
    ["a variable of another command", {
      args: ["healthcheck", "--port", "1"],
      env: { LOG_FORMAT: "json" },
      message: /^no answer from 127\.0\.0\.1 port 1: /,
    }, 1],
  ] as const
) {
  Deno.test(`an error is one JSON object if ${how} configures it`, async () => {
    assertOneEntry(await runRefused(refused), status, refused.message);
  });
}

Deno.test("an invalid log format is reported as text", async () => {
  const message = /LOG_FORMAT: expected text or json, got "JSON"$/m;
  const env = { LOG_FORMAT: "JSON" };
  assertOneLine(await runRefused({ env, message }), 2, message);
});
