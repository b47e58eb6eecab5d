import assert from "node:assert/strict";
import { OpenFiles } from "../../src/store/open_files.ts";
import { KEY, makeBackup, PLANT, testPlaces } from "../support/places.ts";

const DELETED = /^the database file was deleted: do not stop /;
const REPLACED =
  "the database file was replaced: to open the new one, stop the service, move plants.db-wal away, and start it";

testPlaces(
  (place) => `OpenFiles reports a database behind ${place} that was deleted`,
  async (path, real) => {
    using kv = await Deno.openKv(path);
    await kv.set(KEY, PLANT);
    const files = new OpenFiles(path);
    assert.equal(files.checkDatabase(), undefined);
    assert.equal(files.check(), undefined);
    Deno.renameSync(real, `${real}.away`);
    assert.match(files.checkDatabase() ?? "", DELETED);
    // The problem lasts: plants may be lost by now.
    Deno.renameSync(`${real}.away`, real);
    assert.match(files.checkDatabase() ?? "", DELETED);
    assert.match(files.check() ?? "", DELETED);
  },
);

testPlaces(
  (place) => `OpenFiles reports a database behind ${place} that was replaced`,
  async (path, real) => {
    await makeBackup(`${real}.other`);
    using kv = await Deno.openKv(path);
    await kv.set(KEY, PLANT);
    const files = new OpenFiles(path);
    Deno.renameSync(real, `${real}.away`);
    Deno.renameSync(`${real}.other`, real);
    assert.equal(files.check(), REPLACED);
    Deno.renameSync(`${real}.away`, real);
    assert.equal(files.check(), REPLACED);
    assert.equal(files.checkDatabase(), REPLACED);
  },
);

testPlaces(
  (place) =>
    `OpenFiles reports a log of the database behind ${place} that was deleted or replaced`,
  async (path, real) => {
    for (const isReplaced of [false, true]) {
      const kv = await Deno.openKv(path);
      await kv.set(KEY, PLANT);
      const files = new OpenFiles(path);
      Deno.renameSync(`${real}-wal`, `${real}.away`);
      if (isReplaced) Deno.createSync(`${real}-wal`).close();
      assert.equal(files.checkDatabase(), undefined);
      const problem = files.check() ?? "";
      assert.match(
        problem,
        /^plants\.db-wal was deleted or replaced: restart /,
      );
      assert.equal(files.checkDatabase(), problem);
      Deno.renameSync(`${real}.away`, `${real}-wal`);
      assert.equal(files.check(), problem);
      kv.close();
    }
  },
);
