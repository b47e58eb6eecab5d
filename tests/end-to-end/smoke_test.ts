/** Every command of the program once; with the compiled binary in PLANT_STORE. */
import assert from "node:assert/strict";
import { descriptionText } from "../../src/reference/openapi.ts";
import { VERSION } from "../../src/version.ts";
import type { Ended } from "../support/background.ts";
import {
  assertOneLine,
  assertSucceeded,
  importFile,
  Program,
  replyStatus,
  runProgram,
  TOKEN,
  untilReady,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { eventually } from "../support/waiting.ts";

const LINE = '{"id":9223372036854775807,"name":"Monstera","tag":"climber"}\n';
const REPLY = '{"name":"Monstera","tag":"climber"}';

/** Asserts that a command has succeeded, and what it has printed. */
function assertPrinted(ended: Ended, stdout: string, stderr = ""): void {
  assert.deepEqual(ended, { status: 0, signal: null, stdout, stderr });
}

Deno.test("serve stores a plant, refuses another token and an invalid body, is healthy, and ends with SIGTERM", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  for (let i = 0; i < 2; i++) {
    const reply = await program.create(LINE);
    assert.deepEqual([reply.status, await reply.text()], [200, REPLY]);
  }
  const refused = [program.create(LINE, "guess"), program.create("{}")];
  assert.deepEqual(await Promise.all(refused.map(replyStatus)), [401, 400]);
  const paths = ["/", "/openapi.json", "/livez", "/metrics"];
  for (const path of paths) {
    assert.equal(await replyStatus(program.get(path)), 200, path);
  }
  await untilReady(program);
  const healthcheck = ["healthcheck", "--port", `${program.port}`];
  const isHealthy = ({ status }: Ended) => status === 0;
  // A slow disk may take longer than the second that a probe has.
  assertPrinted(
    await eventually(() => runProgram(healthcheck), isHealthy),
    "",
  );
  assertSucceeded(await program.stop());
  assertPrinted(await runProgram(["export", "--kv", store]), LINE);
  assertOneLine(await runProgram(healthcheck), 1, /: no answer from /);
});

Deno.test("import, export, replace and remove change the plants of a store", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const file = directory.file("in");
  Deno.writeTextFileSync(file, LINE);
  const created = `created a new store in ${store}\n1 created, `;
  const others = "0 already stored, 0 conflicting, 0 refused\n";
  assertPrinted(await importFile(store, file), "", created + others);
  assertPrinted(await runProgram(["export", "--kv", store]), LINE);
  const other = LINE.replace("Monstera", "Ficus");
  const replace = ["replace", other, "--kv", store];
  assertPrinted(await runProgram(replace), "", "1 plant replaced\n");
  assertPrinted(await runProgram(["export", "--kv", store]), other);
  const remove = ["remove", "9223372036854775807", "--kv", store];
  assertPrinted(await runProgram(remove), "", "1 plant removed\n");
  assertPrinted(await runProgram(["export", "--kv", store]), "");
  assert.deepEqual(directory.names(), ["in", "plants.db"]);
});

Deno.test("check, openapi, --version and --help print without a store", async () => {
  using directory = new TemporaryDirectory();
  const run = (...args: string[]) =>
    runProgram(args, {
      cwd: directory.path,
      env: { ACCESS_TOKEN: TOKEN, HOST: "localhost" },
    });
  const { stdout, stderr, status } = await run("check");
  // The program may be compiled with an older Deno, as that of the gate.
  assert.match(stderr, /^(warning: Deno \S+ is older than .*\n)?$/);
  assert.equal(status, 0);
  assert.match(stdout, /^listens on localhost \(HOST\)\n/);
  assert.ok(!stdout.includes(TOKEN), stdout);
  const description = descriptionText("http://localhost:8000");
  assertPrinted(await run("openapi"), description);
  const version = await run("--version");
  assert.ok(version.stdout.startsWith(`plant-store ${VERSION} (deno `));
  assert.match((await run("--help")).stdout, /^ {2}import FILE /m);
  assert.deepEqual(directory.names(), []);
});

Deno.test("an unknown flag is refused with one line and status 2", async () => {
  const ended = await runProgram(["--frob"]);
  assertOneLine(ended, 2, /'--frob'.*: see --help$/m);
});
