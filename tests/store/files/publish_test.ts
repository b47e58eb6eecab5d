import assert from "node:assert/strict";
import { basename } from "node:path";
import { makeFile } from "../../../src/store/files/publish.ts";
import { replaced } from "../../support/replaced.ts";
import { storeError } from "../../support/stores.ts";
import { test } from "../../support/tests.ts";

const CONTENT = "Monstera";

/** Fills a new file. */
async function fill(partial: string): Promise<string> {
  await Deno.writeTextFile(partial, CONTENT);
  return "written";
}

test("makeFile() makes a file for its user only, which has its name when it is complete, and returns the result", async ({ directory }) => {
  const path = directory.file("new");
  const result = await makeFile(path, async (partial) => {
    assert.equal(basename(partial), "new");
    assert.equal(Deno.statSync(partial).size, 0);
    const [name = "", ...others] = directory.names();
    assert.match(name, /^new\.[\da-f]{8}\.partial$/);
    assert.deepEqual(others, []);
    const modes = [partial, directory.file(name)]
      .map((file) => (Deno.statSync(file).mode ?? 0) & 0o777);
    assert.deepEqual(modes, [0o600, 0o700]);
    // As SQLite does.
    Deno.createSync(`${partial}-journal`).close();
    return await fill(partial);
  });
  assert.equal(result, "written");
  assert.deepEqual(directory.names(), ["new"]);
  assert.equal(Deno.readTextFileSync(path), CONTENT);
  assert.equal((Deno.statSync(path).mode ?? 0) & 0o777, 0o600);
});

test("makeFile() leaves nothing if the file cannot be filled", async ({ directory }) => {
  const made = makeFile(directory.file("new"), async (partial) => {
    await fill(partial);
    throw new RangeError("out of plants");
  });
  await assert.rejects(made, new RangeError("out of plants"));
  assert.deepEqual(directory.names(), []);
});

test("makeFile() keeps what has the name by the end, also a link that leads nowhere", async ({ directory }) => {
  const path = directory.file("new");
  for (
    const make of [
      () => Deno.writeTextFileSync(path, "other"),
      () => Deno.mkdirSync(path),
      () => Deno.symlinkSync("nowhere", path),
    ]
  ) {
    const made = makeFile(path, (partial) => {
      make();
      return fill(partial);
    });
    await assert.rejects(made, Deno.errors.AlreadyExists);
    assert.deepEqual(directory.names(), ["new"]);
    if (Deno.lstatSync(path).isFile) {
      assert.equal(Deno.readTextFileSync(path), "other");
    }
    Deno.removeSync(path);
  }
});

test("makeFile() does not publish another file in the place of its own, nor the target of a link", async ({ directory }) => {
  const other = directory.file("other");
  Deno.writeTextFileSync(other, "other");
  for (const put of [Deno.linkSync, Deno.symlinkSync]) {
    const made = makeFile(directory.file("new"), async (partial) => {
      await fill(partial);
      Deno.removeSync(partial);
      put(other, partial);
    });
    const message = /^another program has replaced \S+new$/;
    await assert.rejects(made, storeError("other", message));
    assert.deepEqual(directory.names(), ["other"]);
  }
  assert.equal(Deno.readTextFileSync(other), "other");
});

test("makeFile() renames the file on a file system without links, and keeps one that has the name meanwhile", async ({ directory }) => {
  const path = directory.file("new");
  let isTaken = false;
  using _ = replaced(Deno, "linkSync", () => {
    if (isTaken) Deno.writeTextFileSync(path, "other");
    throw new Deno.errors.PermissionDenied("Operation not permitted");
  });
  await makeFile(path, fill);
  assert.deepEqual(directory.names(), ["new"]);
  assert.equal(Deno.readTextFileSync(path), CONTENT);
  Deno.removeSync(path);
  isTaken = true;
  await assert.rejects(makeFile(path, fill), Deno.errors.PermissionDenied);
  assert.deepEqual(directory.names(), ["new"]);
  assert.equal(Deno.readTextFileSync(path), "other");
});

test("makeFile() syncs the file before it has its name, and its directory after that", async ({ directory }) => {
  const path = directory.file("new");
  const { syncSync } = Deno.FsFile.prototype;
  const synced: unknown[] = [];
  let failing = 1;
  using _ = replaced(
    Deno.FsFile.prototype,
    "syncSync",
    function (this: Deno.FsFile) {
      const { isDirectory, size } = this.statSync();
      synced.push(isDirectory ? "directory" : size);
      if (synced.length === failing) throw new Error("Input/output error");
      syncSync.call(this);
    },
  );
  const failed = new Error("Input/output error");
  await assert.rejects(makeFile(path, fill), failed);
  assert.deepEqual(directory.names(), []);
  failing = 3;
  const message =
    "it is complete, but a power cut may remove it: cannot sync its " +
    "directory: Input/output error";
  const notSynced = storeError("other", message);
  await assert.rejects(makeFile(path, fill), notSynced);
  const { length } = CONTENT;
  assert.deepEqual(synced, [length, length, "directory"]);
  assert.deepEqual(directory.names(), ["new"]);
  assert.equal(Deno.readTextFileSync(path), CONTENT);
});
