/** The blocks of the handbook for operators, run as they are printed. */
import assert from "node:assert/strict";
import { statOrUndefined } from "../../src/files/file_system.ts";
import { Machine, onMachine, SERVER_TOOLS } from "../support/machine.ts";
import { isThere } from "../support/needs.ts";
import { statusOf, TOKEN } from "../support/program.ts";
import { blockOf, ROOT } from "../support/readme.ts";
import { testsIf } from "../support/tests.ts";
import { exportLines, toLine } from "../support/transfer.ts";

const TOKEN_FILE = "etc/plant-store.token";
const BINARY = "usr/local/bin/plant-store";

/** Returns the text of a file of a machine. */
function textOf(machine: Machine, path: string): string {
  return Deno.readTextFileSync(machine.path(path));
}

/** Puts the binary and the folder `deploy` where the commands are run. */
async function copyFiles(machine: Machine): Promise<void> {
  const deploy = new URL("src/deploy", ROOT).pathname;
  await machine.succeed(`cp -r ${deploy} . && cp ${BINARY} .`);
}

/** Returns whether the service accepts a token. */
async function accepts(machine: Machine, token: string): Promise<boolean> {
  return await statusOf(machine.service.get("/metrics", token)) === 200;
}

onMachine.test("the commands that deploy the service start it, and change nothing the second time", async () => {
  await using machine = new Machine();
  await copyFiles(machine);
  const created = [TOKEN_FILE, "etc/plant-store.env", BINARY];
  for (const path of created) Deno.removeSync(machine.path(path));
  const deploy = blockOf("## Deploy");
  const { stdout } = await machine.succeed(deploy);
  assert.match(stdout, /^HTTP\/1\.1 200 /);
  const modes = created.map((path) =>
    ((Deno.statSync(machine.path(path)).mode ?? 0) & 0o777).toString(8)
  );
  assert.deepEqual(modes, ["640", "600", "755"]);
  const token = textOf(machine, TOKEN_FILE);
  assert.match(token, /^[0-9a-f]{64}\n$/);
  assert.ok(await accepts(machine, token.trim()));
  const { service } = machine;
  Deno.writeTextFileSync(machine.path("etc/plant-store.env"), "PORT=8000\n");
  await machine.succeed(deploy);
  assert.equal(machine.service, service);
  assert.equal(textOf(machine, TOKEN_FILE), token);
  assert.equal(textOf(machine, "etc/plant-store.env"), "PORT=8000\n");
});

for (const lineBreak of ["\n", ""]) {
  const file = lineBreak === "" ? "a file without a line break" : "its file";
  onMachine.test(`a token is replaced in ${file}, and the counters show which one is used`, async () => {
    await using machine = new Machine();
    Deno.writeTextFileSync(machine.path(TOKEN_FILE), TOKEN + lineBreak);
    await machine.succeed("systemctl start $service");
    const added = await machine.succeed(blockOf("## Tokens", 0));
    assert.match(added.stdout, /^reloaded 2 tokens from /m);
    const [first, token = ""] = textOf(machine, TOKEN_FILE).split("\n");
    assert.equal(first, TOKEN);
    assert.ok(added.stdout.endsWith(`\n${token}\n`));
    assert.ok(await accepts(machine, TOKEN));

    const { stdout } = await machine.succeed(blockOf("## Tokens", 1));
    const [one = "", other = "", ...counters] = stdout.trimEnd().split("\n");
    const count = (token: string, requests: number) =>
      `plant_store_token_requests_total{token="${token}"} ${requests}`;
    assert.deepEqual(counters, [count(one, 1), count(other, 1)]);

    const deleted = await machine.succeed(blockOf("## Tokens", 2));
    assert.match(deleted.stdout, /^reloaded 1 token from /m);
    assert.equal(await accepts(machine, TOKEN), false);
    assert.ok(await accepts(machine, token));
  });
}

onMachine.test("the commands for two instances start both in place of the one, without its port", async () => {
  await using machine = await Machine.start();
  await copyFiles(machine);
  Deno.writeTextFileSync(machine.path("etc/plant-store.env"), "PORT=8000\n");
  Deno.mkdirSync(machine.path("etc/nginx/conf.d"), { recursive: true });
  machine.addTool("nginx", ":");
  const { service } = machine;
  const page = "src/deploy/instances/README.md";
  const title = "# Two instances of Plant Store on one file";
  await machine.succeed(blockOf(title, 0, page));
  assert.equal((await service.ended()).status, 0);
  const environment = textOf(machine, "etc/plant-store.env");
  assert.equal(environment, "BASE_URL=https://plants.example.com\n");
  assert.equal(machine.services.length, 2);
  await machine.assertHasAll();
});

/** Adds a line to the binary in the folder, which makes it a newer one. */
const NEWER = "echo '# newer' >> plant-store\n";

onMachine.test("an upgrade restarts the service with the new binary, keeps the old one, and can go back", async () => {
  await using machine = await Machine.start();
  await copyFiles(machine);
  const old = textOf(machine, BINARY);
  const upgrade = blockOf("## Upgrade");
  const { service } = machine;
  await machine.succeed(NEWER, upgrade);
  assert.notEqual(machine.service, service);
  assert.equal(textOf(machine, BINARY), `${old}# newer\n`);
  // The same binary again.
  await machine.succeed(upgrade);
  assert.equal(textOf(machine, "plant-store.old"), old);
  await machine.succeed(blockOf("## Upgrade", 1));
  assert.equal(textOf(machine, BINARY), old);
  await machine.assertHasAll();
});

for (
  const [name, before] of [
    ["the backup fails", "rm -r $backups; touch $backups\n"],
    ["the configuration is invalid", "echo HOST=[] >> /etc/plant-store.env\n"],
  ] as const
) {
  onMachine.test(`an upgrade leaves the service running if ${name}`, async () => {
    await using machine = await Machine.start();
    await copyFiles(machine);
    const { service } = machine;
    const { status } = await machine.run(before, NEWER, blockOf("## Upgrade"));
    assert.notEqual(status, 0);
    assert.equal(machine.service, service);
    await machine.assertHasAll();
  });
}

onMachine.test("the last backup is tested by a store of its own, which is removed", async () => {
  await using machine = await Machine.start();
  await machine.succeed(blockOf("## Back up", 0));
  await machine.succeed("plants remove 1", blockOf("## Back up", 0));
  const { stdout } = await machine.succeed(blockOf("## Back up", 1));
  assert.equal(stdout, "99\n");
  const { stdout: names } = await machine.succeed("ls -A $backups");
  assert.match(names, /^(plants-[-\d]+\.db\n){2}$/);
});

onMachine.test("an operator can correct and remove plants while the service runs", async () => {
  await using machine = await Machine.start();
  const correct = blockOf("## Correct or remove a plant");
  await machine.succeed("EDITOR='sed -i s/Monstera.42/Ficus/'", correct);
  await machine.succeed("plants remove 43 44");
  const lines = await exportLines(machine.store);
  assert.equal(lines.length, 98);
  assert.equal(lines[41], toLine(42n, "Ficus"));
  const reply = await machine.service.create({ id: 42, name: "Ficus" });
  assert.equal(await statusOf(Promise.resolve(reply)), 200);
});

onMachine.test("a correction that is not a plant is refused, and can be corrected and imported again", async () => {
  await using machine = await Machine.start();
  const correct = blockOf("## Correct or remove a plant");
  const { status, stderr } = await machine.run(
    "EDITOR='sed -i s/}$//'",
    correct,
  );
  assert.equal(status, 1);
  assert.match(stderr, /^line 1: column \d+: [^]*, 1 refused\n$/m);
  const again = correct.trim().split("\n").at(-1) ?? "";
  await machine.succeed("sed -i 's/$/}/' plant.jsonl", again);
  await machine.assertHasAll();
});

/** The configuration that Debian's package installs. */
const PROMETHEUS = "etc/prometheus/prometheus.yml";

const withPrometheus = testsIf(
  isThere(...SERVER_TOOLS, "PROMTOOL") &&
    statOrUndefined(`/${PROMETHEUS}`) !== undefined,
);

withPrometheus.test("the commands for Prometheus extend Debian's configuration once", async () => {
  await using machine = new Machine();
  await copyFiles(machine);
  Deno.mkdirSync(machine.path("etc/prometheus"));
  const configuration = Deno.readTextFileSync(`/${PROMETHEUS}`);
  Deno.writeTextFileSync(machine.path(PROMETHEUS), configuration);
  const scrape = machine.path("deploy/prometheus/scrape.yml");
  const text = Deno.readTextFileSync(scrape);
  Deno.writeTextFileSync(scrape, text.replace("/etc/", machine.path("etc/")));
  const page = "src/deploy/prometheus/README.md";
  const add = blockOf("# Plant Store with Prometheus", 0, page);
  const { stdout } = await machine.succeed(add, add);
  assert.match(stdout, /SUCCESS: \d+ rules found/);
  const extended = textOf(machine, PROMETHEUS);
  for (const line of configuration.split("\n")) {
    assert.ok(extended.includes(`${line}\n`), line);
  }
  assert.equal(extended.match(/job_name: plant-store/g)?.length, 1);
  assert.equal(
    textOf(machine, "etc/prometheus/plant-store.token"),
    `${TOKEN}\n`,
  );
});
