import assert from "node:assert/strict";
import { together } from "../support/load.ts";
import { Program, runProgram, TemporaryDirectory } from "../support/program.ts";

function backUp(store: string, target: string) {
  return runProgram(["backup", target, "--kv", store]);
}

/** A store with the plants 1 to `count`. */
async function makeStore(path: string, count: number): Promise<string> {
  const file = `${path}.in`;
  const lines = Array.from(
    { length: count },
    (_, i) => `{"id":${i + 1},"name":"Plant ${i + 1}"}\n`,
  );
  Deno.writeTextFileSync(file, lines.join(""));
  const { status } = await runProgram(["import", file, "--kv", path]);
  assert.equal(status, 0);
  Deno.removeSync(file);
  return path;
}

async function exportOf(store: string): Promise<string> {
  const { status, stdout } = await runProgram(["export", "--kv", store]);
  assert.equal(status, 0);
  return stdout;
}

function namesIn(path: string): string[] {
  return [...Deno.readDirSync(path)].map(({ name }) => name).toSorted();
}

Deno.test("backup: one file with every plant of the store", async () => {
  using directory = new TemporaryDirectory();
  using away = new TemporaryDirectory();
  const store = await makeStore(directory.file("plants.db"), 3_000);
  const copy = away.file("copy.db");
  const { status, stdout, stderr } = await backUp(store, copy);
  assert.deepEqual({ status, stdout, stderr }, {
    status: 0,
    stdout: "",
    stderr: `${copy} is a whole copy, 3000 entries\n`,
  });
  assert.deepEqual(namesIn(away.path), ["copy.db"]);
  assert.equal(await exportOf(copy), await exportOf(store));
});

Deno.test("backup, while a service creates: all that was acknowledged before", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(["--kv", store]);
  const acknowledged: number[] = [];
  let next = 1;
  let isRunning = true;
  const creating = together(Array(32).fill(0), async () => {
    while (isRunning) {
      const id = next++;
      const response = await program.create({ id, name: `Plant ${id}` });
      await response.body?.cancel();
      assert.equal(response.status, 200);
      acknowledged.push(id);
    }
  }, 32);
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    const before = [...acknowledged];
    const copy = directory.file(`copy${i}.db`);
    const { status, stderr } = await backUp(store, copy);
    assert.equal(status, 0, stderr);
    const found = new Set((await exportOf(copy)).split("\n"));
    const lost = before.filter((id) =>
      !found.has(`{"id":${id},"name":"Plant ${id}"}`)
    );
    assert.deepEqual(lost, []);
  }
  isRunning = false;
  await creating;
  assert.ok(acknowledged.length > 100);
});

Deno.test("backup: a service serves the copy", async () => {
  using directory = new TemporaryDirectory();
  const store = await makeStore(directory.file("plants.db"), 10);
  const copy = directory.file("copy.db");
  await backUp(store, copy);
  await using program = await Program.start(["--kv", copy]);
  const statuses = [];
  for (const name of ["Plant 7", "another"]) {
    const response = await program.create({ id: 7, name });
    await response.body?.cancel();
    statuses.push(response.status);
  }
  assert.deepEqual(statuses, [200, 409]);
});

Deno.test("backup: what exists is never written over", async () => {
  using directory = new TemporaryDirectory();
  const store = await makeStore(directory.file("plants.db"), 10);
  const file = directory.file("file");
  const empty = directory.file("empty");
  const link = directory.file("link");
  Deno.writeTextFileSync(file, "mine");
  Deno.writeTextFileSync(empty, "");
  Deno.symlinkSync(directory.file("nowhere"), link);
  const before = namesIn(directory.path).filter((name) =>
    !/-(wal|shm)$/.test(name)
  );
  for (const target of [file, empty, link, store, directory.path]) {
    const { status, stderr } = await backUp(store, target);
    assert.equal(
      stderr,
      `plant-store: ${target} exists: name a file that does not\n`,
    );
    assert.equal(status, 2);
  }
  assert.equal(Deno.readTextFileSync(file), "mine");
  assert.equal(Deno.statSync(empty).size, 0);
  const after = namesIn(directory.path).filter((name) =>
    !/-(wal|shm)$/.test(name)
  );
  assert.deepEqual(after, before);
});

Deno.test("backup: of several to one name at the same time one succeeds", async () => {
  using directory = new TemporaryDirectory();
  using away = new TemporaryDirectory();
  const store = await makeStore(directory.file("plants.db"), 1_000);
  const copy = away.file("copy.db");
  const ended = await Promise.all(
    Array.from({ length: 4 }, () => backUp(store, copy)),
  );
  const statuses = ended.map(({ status }) => status);
  assert.deepEqual(statuses.toSorted(), [0, 2, 2, 2]);
  assert.deepEqual(namesIn(away.path), ["copy.db"]);
  assert.equal(await exportOf(copy), await exportOf(store));
});

Deno.test("backup: nobody may read the copy who may not read the store", async () => {
  using directory = new TemporaryDirectory();
  const store = await makeStore(directory.file("plants.db"), 10);
  Deno.chmodSync(store, 0o600);
  const copy = directory.file("copy.db");
  await backUp(store, copy);
  assert.equal((Deno.statSync(copy).mode ?? 0) & 0o777, 0o600);
});

Deno.test("backup: a store that is not there is refused and not made", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const { status, stderr } = await backUp(store, directory.file("copy.db"));
  assert.equal(
    stderr,
    `plant-store: there is no file ${store}: name the store with --kv or ` +
      "KV_PATH\n",
  );
  assert.equal(status, 2);
  assert.deepEqual(namesIn(directory.path), []);
});

Deno.test("backup: a directory that is not there is one plain line", async () => {
  using directory = new TemporaryDirectory();
  const store = await makeStore(directory.file("plants.db"), 10);
  const copy = directory.file("no/copy.db");
  const { status, stderr } = await backUp(store, copy);
  assert.match(stderr, /^plant-store: cannot make .*no\/copy\.db: .*\n$/);
  assert.equal(status, 1);
});

Deno.test("backup: a path that cannot be is one plain line", async () => {
  using directory = new TemporaryDirectory();
  const store = await makeStore(directory.file("plants.db"), 10);
  for (const path of [`${store}/copy.db`, directory.file("x".repeat(254))]) {
    const { status, stderr } = await backUp(store, path);
    assert.match(stderr, /^plant-store: cannot make [^\n]+\n$/);
    assert.equal(status, 1);
  }
});

Deno.test("backup: a KV Connect server is refused by name", async () => {
  using directory = new TemporaryDirectory();
  const copy = directory.file("copy.db");
  const { status, stderr } = await runProgram(
    ["backup", copy, "--kv", "https://kv.example"],
    { env: { DENO_KV_ACCESS_TOKEN: "a-token-for-tests" } },
  );
  assert.equal(
    stderr,
    "plant-store: https://kv.example/ is a KV Connect server, which makes its " +
      "own backups: write its plants to a file with export\n",
  );
  assert.equal(status, 2);
  assert.deepEqual(namesIn(directory.path), []);
});
