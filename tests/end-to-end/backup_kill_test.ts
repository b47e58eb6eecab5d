/** A backup has its name only when it is complete. */
import assert from "node:assert/strict";
import { killPoints, trace } from "../support/kills.ts";
import { assertOneLine } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { withStrace } from "../support/strace.ts";
import {
  assertSameLines,
  createStore,
  exportLines,
} from "../support/transfer.ts";

const COPY = "copy.db";
const LEFTOVER = /^copy\.db\.[0-9a-f]{8}\.partial$/;

/** Kills at writes: the others do what the first ones do. */
const WRITE_KILLS_MAX = 2;

/** File systems, and how strace makes one of them. */
const FILE_SYSTEMS: readonly [where: string, expressions: string[]][] = [
  ["", []],
  // As on FAT.
  [
    " on a file system without hard links and permissions",
    ["inject=?link,linkat,?chmod,fchmod,fchmodat:error=EPERM"],
  ],
];

for (const [where, expressions] of FILE_SYSTEMS) {
  withStrace.test(`a backup${where} is complete, or missing after a kill at a sync, link, rename, removal or one of the first writes`, async ({ directory, store }) => {
    using away = new TemporaryDirectory();
    const lines = await createStore(store, 100);
    Deno.chmodSync(store, 0o600);
    const copy = away.file(COPY);
    const backUp = (store: string, copy: string, kill: string[] = []) =>
      trace(["backup", copy, "--kv", store], [...expressions, ...kill]);
    const { ended, trace: calls } = await backUp(store, copy);
    assert.equal(ended.stderr, `${copy} is a complete copy, 100 entries\n`);
    assert.equal(ended.status, 0);
    assert.deepEqual(away.names(), [COPY]);
    assertSameLines(await exportLines(copy), lines);
    const isWithout = expressions.length > 0;
    assert.equal(/EPERM .*INJECTED/.test(calls), isWithout, calls);
    assertOneLine(
      (await backUp(store, copy)).ended,
      2,
      `${copy} already exists: name a new file`,
    );

    let copies = 0;
    const points = killPoints(calls, isWithout ? 0 : WRITE_KILLS_MAX);
    for (const [where, expression] of points) {
      using target = new TemporaryDirectory();
      const copy = target.file(COPY);
      // The files that a kill leaves beside a store change the next calls.
      const fresh = directory.file(`${where}.db`);
      Deno.copyFileSync(store, fresh);
      const { ended } = await backUp(fresh, copy, [expression]);
      assert.equal(ended.signal, "SIGKILL", `${where}: ${ended.stderr}`);
      const names = target.names();
      if (names.includes(COPY)) {
        copies++;
        assertSameLines(await exportLines(copy), lines);
      }
      for (const name of names.filter((name) => name !== COPY)) {
        assert.match(name, LEFTOVER, where);
        const mode = Deno.statSync(target.file(name)).mode ?? 0;
        assert.equal(mode & 0o077, 0, `others may read ${name}, ${where}`);
      }
    }
    assert.ok(copies > 0, "no kill came after the copy had its name");
  });
}
