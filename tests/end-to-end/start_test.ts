import assert from "node:assert/strict";
import config from "../../deno.json" with { type: "json" };
import { API_ERRORS } from "../../src/errors.ts";
import { errorOf, has, Program, statusOf } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

const PLANT = { id: 7, name: "Monstera" };

/** A token that no output may contain. */
const SECRET = "hush-hush";

const HAS_CURL = await has("curl", "--version");

/** Returns the curl command of a banner. */
function curlOf(stderr: string): string {
  return /^ {2}(curl [^]*?)\n\n/m.exec(stderr)?.[1] ?? "";
}

/** Runs a command in a shell and returns its output. */
function shell(
  command: string,
  env: Record<string, string> = {},
): Promise<string> {
  return runTool("sh", ["-c", `${command} 2>/dev/null`], { env });
}

/** Whether this machine has the IPv6 loopback address. */
function hasIpv6(): boolean {
  try {
    Deno.listen({ hostname: "::1", port: 0 }).close();
    return true;
  } catch {
    return false;
  }
}

Deno.test("serve prints where it listens and stores, and a curl command that creates a plant", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  await using program = await Program.start(["--kv", file], { ownToken: true });
  const { stderr, origin } = program;
  assert.ok(
    stderr.startsWith(`Plant Store ${config.version} listens on ${origin}\n`),
    stderr,
  );
  assert.ok(
    stderr.includes(`\nCreated a new, empty store in ${file}\n`),
    stderr,
  );
  assert.match(stderr, /\nNo token is configured: .* for this run\n/);
  assert.ok(stderr.endsWith(`\n\nAPI reference: ${origin}/\n\n`), stderr);
  const curl = curlOf(stderr);
  assert.match(curl, /Bearer [0-9a-f]{32}"/);
  assert.ok(curl.includes(`${origin}/plants`), curl);
  if (!HAS_CURL) return;
  for (let i = 0; i < 2; i++) {
    const reply = await shell(curl);
    assert.match(reply, /^HTTP\/1\.1 200 /);
    assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera","tag":"climber"}'));
  }
  const conflict = await shell(curl.replace("Monstera", "M"));
  assert.ok(conflict.includes(`"error":${API_ERRORS.idTaken.error}`), conflict);
});

Deno.test("serve with a token prints a curl command that takes it from the shell, and never the token", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")], {
    env: { ACCESS_TOKEN: SECRET },
  });
  assert.doesNotMatch(program.stderr, /No token is configured/);
  const curl = curlOf(program.stderr);
  assert.ok(curl.includes("$ACCESS_TOKEN"), curl);
  if (HAS_CURL) {
    const accepted = await shell(curl, { ACCESS_TOKEN: SECRET });
    assert.match(accepted, /^HTTP\/1\.1 200 /);
    const refused = await shell(curl, { ACCESS_TOKEN: "x" });
    assert.match(refused, /^HTTP\/1\.1 401 /);
  }
  const { stderr, stdout } = await program.stop();
  assert.ok(!stderr.includes(SECRET), stderr);
  assert.equal(stdout, "");
});

Deno.test("serve generates another token for each run", async () => {
  using directory = new TemporaryDirectory();
  const tokens = new Set<string>();
  for (let run = 0; run < 2; run++) {
    const program = await Program.start(["--kv", directory.file("plants.db")], {
      ownToken: true,
    });
    const [, token = ""] = await program.printed(/Bearer ([0-9a-f]{32})"/);
    // The second run finds the store of the first one.
    const isNew = program.stderr.includes("Created a new, empty store");
    assert.equal(isNew, run === 0, program.stderr);
    tokens.add(token);
    assert.equal(await statusOf(program.create(PLANT, token)), 200);
    const wrong = program.create(PLANT, "0".repeat(32));
    assert.equal(await statusOf(wrong), 401);
    assert.equal((await program.stop()).status, 0);
  }
  assert.equal(tokens.size, 2);
});

Deno.test("serve --log-format json prints the banner as one object", async () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("plants.db");
  const program = await Program.start(["--log-format", "json", "--kv", file], {
    ownToken: true,
  });
  const { time, curl, ...started } = JSON.parse(program.stderr);
  assert.deepEqual(started, {
    level: "info",
    event: "started",
    message:
      `created a new, empty store in ${file}; listening on ${program.origin}`,
    version: config.version,
    address: program.origin,
    baseUrl: program.origin,
    store: file,
    isNewStore: true,
  });
  assert.equal(new Date(time).toISOString(), time);
  if (HAS_CURL) assert.match(await shell(curl), /^HTTP\/1\.1 200 /);
  const { status, stderr } = await program.stop();
  assert.equal(status, 0);
  const lines = stderr.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ event }) => event),
    ["started", "stopping", "stopped"],
  );
});

Deno.test("serve prints the address that DENO_SERVE_ADDRESS names", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(
    ["--host", "192.0.2.1", "--kv", directory.file("p.db")],
    { env: { DENO_SERVE_ADDRESS: "tcp:127.0.0.1:0" } },
  );
  assert.match(program.origin, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(await statusOf(program.create(PLANT)), 200);
});

Deno.test({
  name: "serve listens on an IPv6 address in brackets",
  ignore: !hasIpv6(),
  async fn() {
    using directory = new TemporaryDirectory();
    await using program = await Program.start(
      ["--host", "[::1]", "--kv", directory.file("p.db")],
    );
    assert.match(program.origin, /^http:\/\/\[::1\]:\d+$/);
    assert.equal(await statusOf(program.create(PLANT)), 200);
  },
});

Deno.test("serve prints the base URL and a curl command with it, and answers below its path only", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start([
    ...["--kv", directory.file("p.db")],
    ...["--base-url", "https://plants.test/api/v1/"],
  ]);
  const { stderr, origin } = program;
  assert.match(stderr, /curl -i https:\/\/plants\.test\/api\/v1\/plants /);
  assert.match(stderr, /\nAPI reference: https:\/\/plants\.test\/api\/v1\/\n/);
  assert.deepEqual(
    await errorOf(program.create(PLANT)),
    [404, API_ERRORS.unknownPath.error],
  );
  program.origin = `${origin}/api/v1`;
  assert.equal(await statusOf(program.create(PLANT)), 200);
});
