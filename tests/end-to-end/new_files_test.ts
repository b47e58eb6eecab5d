/**
 * A command renames, replaces, cuts, links, deletes and re-owns no file that it
 * has not made itself in that run.
 */
import assert from "node:assert/strict";
import { isStored, PLANT, send } from "../support/load.ts";
import { type Ended, Program } from "../support/program.ts";
import {
  type Call,
  parseTrace,
  traced,
  withStrace,
} from "../support/strace.ts";
import { createAndKill, toLine, writeLines } from "../support/transfer.ts";

/** The calls that create files, and those that change more than a content. */
const CALLS = "trace=?open,openat,?openat2,?creat,?mkdir,mkdirat," +
  "?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat," +
  "?unlink,unlinkat,?rmdir,?truncate,ftruncate," +
  "?chmod,fchmod,fchmodat,?chown,fchown,?lchown,fchownat";

/** What SQLite does to the files beside an open store, and to a store itself. */
const BY_SQLITE =
  /^(?:(?:unlink|ftruncate|fchown) \S+\.db-(?:wal|shm|journal)|ftruncate \S+\.db)$/;

const decoder = new TextDecoder();

/** Returns the paths of a call: those that it names, or that of a descriptor. */
function pathsOf({ args, strings }: Call): string[] {
  const [, opened = ""] = /<([^>]*)>/.exec(args) ?? [];
  const texts = strings.map((it) => decoder.decode(it));
  return texts.length === 0
    ? [opened]
    : texts.map((it) => it.startsWith("/") ? it : `${opened}/${it}`);
}

/**
 * Returns the changes of files that the program has not made itself.
 * @param before the files that were there before it started
 */
function changesOfOthers(
  calls: readonly Call[],
  before: ReadonlySet<string>,
): string[] {
  const made: string[] = [];
  const isOwn = (path: string) =>
    made.some((own) => `${path}/`.startsWith(`${own}/`));
  const changes: string[] = [];
  for (const call of calls) {
    if (/^(-1|\?)/.test(call.result)) continue;
    const name = call.name.replace(/at2?$/, "");
    const paths = pathsOf(call);
    if (/^(open|creat|mkdir)/.test(name)) {
      const creates = name !== "open" || call.args.includes("O_CREAT");
      if (creates && !before.has(paths[0] ?? "")) made.push(...paths);
      if (!call.args.includes("O_TRUNC")) continue;
    }
    if (/^(link|symlink|rename)/.test(name) && !before.has(paths[1] ?? "")) {
      made.push(...paths.slice(1));
    }
    changes.push(
      ...paths.filter((it) => !isOwn(it)).map((it) => `${name} ${it}`),
    );
  }
  return changes.filter((change) => !BY_SQLITE.test(change));
}

/** Returns the files in a directory. */
function filesIn(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) =>
    `${directory}/${name}`
  );
}

withStrace.test("no command changes a file that it has not made itself, but the open store, as SQLite does", async ({ directory, store }) => {
  const trace = directory.file("trace");
  const options = traced(trace, CALLS);
  const away = directory.file("away");
  Deno.mkdirSync(away);
  await createAndKill(store, 100);
  const [copy, lines] = [`${away}/copy.db`, `${away}/lines`];
  writeLines(lines, [toLine(-1n, "One")]);

  /** Runs a command and what uses it; returns its changes of other files. */
  async function changesBy(
    args: readonly string[],
    use: (program: Program) => Promise<Ended> = (program) => program.ended(),
  ): Promise<string[]> {
    const before = new Set([...filesIn(directory.path), ...filesIn(away)]);
    await using program = Program.spawn(args, options);
    const ended = await use(program);
    assert.equal(ended.status, 0, `${args.join(" ")}: ${ended.stderr}`);
    return changesOfOthers(parseTrace(trace, 0), before);
  }
  async function createAndStop(program: Program): Promise<Ended> {
    [, program.origin = ""] = await program.printed(/listens on (\S+)\n/);
    const newPlant = { id: 1_000n, plant: PLANT };
    assert.ok(isStored(await send(program, newPlant)));
    return await program.stop();
  }

  await using service = await Program.start(["--kv", `${away}/other.db`]);
  for (
    const args of [
      ["backup", copy, "--kv", store],
      ["export", "--kv", store],
      ["export", "1", "--kv", store],
      ["import", lines, "--kv", store],
      ["remove", "1", "--kv", store],
      ["restore", copy, "--kv", `${away}/restored.db`],
      ["check", "--kv", store],
      ["healthcheck", "--port", `${service.port}`],
      ["openapi"],
    ]
  ) assert.deepEqual(await changesBy(args), [], args.join(" "));
  for (const path of [store, `${away}/new.db`]) {
    const args = ["--port", "0", "--kv", path];
    assert.deepEqual(await changesBy(args, createAndStop), []);
  }

  // The exception: the log of a lost store, when its plants are saved.
  const lost = `${away}/lost.db`;
  await createAndKill(lost, 1);
  const changes = await changesBy(["--port", "0", "--kv", lost], async (it) => {
    await it.printed(/listens on/);
    Deno.removeSync(lost);
    await it.printed(/saved all plants/);
    return await it.stop();
  });
  assert.deepEqual(changes, [`rename ${lost}-shm`, `rename ${lost}-wal`]);
});
