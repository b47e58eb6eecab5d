/**
 * What commands do to files: they change none that they have not made, and a kill
 * at any moment leaves no incomplete one under its name.
 */
import assert from "node:assert/strict";
import { inParallel } from "../support/waiting.ts";
import { range, WHOLE } from "../support/plants.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { numberFromEnv } from "../support/random.ts";
import {
  type Call,
  parseTrace,
  traced,
  withStrace,
} from "../support/strace.ts";
import { TestPlace } from "../support/tests.ts";
import {
  backUp,
  createAndKill,
  exportLines,
  toLine,
  writeLines,
} from "../support/transfer.ts";

/** Maximum number of kills of each command. */
const KILL_POINTS = numberFromEnv("KILL_POINTS", 2);

/** The calls that create files, write, sync them, or change names and modes. */
const CALLS = "trace=?open,openat,?openat2,?creat,?mkdir,mkdirat," +
  "?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat," +
  "?unlink,unlinkat,?rmdir,?truncate,ftruncate,write,pwrite64,fsync,fdatasync," +
  "?chmod,fchmod,fchmodat,?chown,fchown,?lchown,fchownat,exit_group";

/** Kills come before and after these calls. */
const KILLED = /sync$|^link|^rename/;

/** What SQLite does to the files beside an open store, and to a store itself. */
const BY_SQLITE =
  /^(?:(?:open|unlink|ftruncate|fchown) \S+\.db-(?:wal|shm|journal)|ftruncate \S+\.db)$/;

/** A file system without hard links, owners and permissions, such as FAT. */
const WITHOUT_LINKS = "inject=?link,linkat,?chmod,fchmod,fchmodat," +
  "?chown,fchown,fchownat:error=EPERM";

const linesOf = (ids: readonly bigint[]) =>
  ids.map((id) => toLine(id, WHOLE.name, WHOLE.tag));

/** The plants of a store that was killed, and of a file that a start imports. */
const STORED = linesOf(range(1n, 100));
const RESCUED = linesOf(range(200n, 10));

/** A command, and its changes of files that it has not made. */
interface Command {
  readonly words: string;
  readonly changes: readonly string[];
  /** Whether its store is deleted while it runs. */
  readonly isDeleted?: boolean;
}

const SERVE = "serve --port 0 --kv plants.db";
const IMPORTED = "rename plants.db.rescued-2026.jsonl";
const COMMANDS: readonly Command[] = [
  ...[
    "backup new.db --kv plants.db",
    "restore copy.db --kv new.db",
    "export --kv plants.db",
    "export 2 --kv plants.db",
    "import lines --kv plants.db",
    "remove 1 --kv plants.db",
    "check --kv plants.db",
    "healthcheck --port 1",
    "openapi",
    "serve --port 0 --kv new.db",
  ].map((words) => ({ words, changes: [] })),
  { words: SERVE, changes: [IMPORTED] },
  {
    words: SERVE,
    changes: [IMPORTED, "rename plants.db-shm", "rename plants.db-wal"],
    isDeleted: true,
  },
];

/** Returns the changes of files that a command has not made itself. */
function changesOfOthers(calls: readonly Call[], before: string[]): string[] {
  const made: string[] = [];
  const isOwn = (path: string) =>
    made.some((own) => `${path}/`.startsWith(`${own}/`));
  const changes: string[] = [];
  for (const { name: call, args, paths, result } of calls) {
    if (/^(-1|\?)/.test(result) || /sync|write/.test(call)) continue;
    const name = call.replace(/at2?$/, "");
    const to = paths.at(-1) ?? "";
    const isOld = before.includes(to) || isOwn(to);
    const truncates = args.includes("O_TRUNC");
    const creates = args.includes("O_CREAT") && !isOld;
    if (name === "open" && !truncates && !creates) continue;
    const isNew = /^(mkdir|link|symlink|rename)/.test(name) && !isOld;
    if (isNew || creates && args.includes("O_EXCL")) made.push(to);
    const others = paths.filter((it) => !isOwn(it));
    changes.push(...others.map((it) => `${name} ${it}`));
  }
  return changes.filter((change) => !BY_SQLITE.test(change));
}

/** Returns where strace kills a command: before and after some calls. */
function killPoints(calls: readonly Call[]): string[] {
  const counts = new Map<string, number>();
  const points = new Set<string>();
  let isAfter = false;
  for (const { thread, name, result } of calls) {
    if (/^(open|write)/.test(name)) continue;
    const nth = (counts.get(thread + name) ?? 0) + 1;
    counts.set(thread + name, nth);
    const isBefore = KILLED.test(name) && !result.startsWith("-1");
    if (isBefore || isAfter) {
      points.add(`inject=${name}:signal=SIGKILL:when=${nth}`);
    }
    isAfter = isBefore;
  }
  const share = (i: number) => Math.floor(i * KILL_POINTS / points.size);
  return [...points].filter((_, i) => share(i + 1) > share(i));
}

/** Runs a command in a copy of a directory, and checks what it leaves there. */
async function run(
  template: string,
  { words, changes, isDeleted = false }: Command,
  injections: readonly string[],
  isKilled: boolean,
): Promise<Call[]> {
  using place = new TestPlace();
  const { directory } = place;
  const data = directory.file("data");
  new Deno.Command("cp", { args: ["-a", template, data] }).outputSync();
  const before = directory.names("data");
  const trace = directory.file("trace");
  const options = { ...traced(trace, CALLS, ...injections), cwd: data };
  await using program = Program.spawn(words.split(" "), options);
  const isService = words.startsWith("serve");
  try {
    if (isService) await program.printed(/listens on/);
    if (isDeleted) {
      Deno.removeSync(`${data}/plants.db`);
      await program.printed(/rescued all plants/);
    }
  } catch (error) {
    if (!isKilled) throw error;
  }
  const ended = await (isService ? program.stop() : program.ended());
  const how = `${words} ${injections}: ${ended.stderr}`;
  const status = words.startsWith("healthcheck") ? 1 : 0;
  const outcome = isKilled ? "SIGKILL" : status;
  assert.equal(ended.signal ?? ended.status, outcome, how);
  const calls = parseTrace(trace);
  if (!isKilled) {
    const paths = before.map((name) => `${data}/${name}`);
    const found = changesOfOthers(calls, paths);
    assert.deepEqual(found.map((it) => it.replace(`${data}/`, "")), changes);
  }

  const names = directory.names("data");
  const made = names.filter((name) => !before.includes(name));
  if (made.includes("new.db") && !isService) {
    assert.deepEqual(await exportLines(`${data}/new.db`), STORED, how);
  }
  const rescued = made.filter((name) => /rescued-.*\.jsonl$/.test(name));
  for (const name of rescued) {
    const text = Deno.readTextFileSync(`${data}/${name}`);
    assert.deepEqual(text.trimEnd().split("\n"), [...STORED, ...RESCUED], how);
  }
  for (const name of made.filter((name) => name.endsWith(".partial"))) {
    const { mode } = Deno.statSync(`${data}/${name}`);
    assert.equal((mode ?? 0) & 0o077, 0, name);
  }
  // The plants of a store that was deleted, but not rescued, are nowhere.
  const isRescued = rescued.length > 0 && !names.includes("plants.db-wal");
  if (names.includes("plants.db") || isRescued) {
    const name = isService ? words.replace(/.* /, "") : "plants.db";
    const args = ["--kv", `${data}/${name}`];
    await using service = await Program.start(args);
    assertSucceeded(await service.stop());
    const found = new Set(await exportLines(`${data}/${name}`));
    const expected = name === "new.db" ? [] : [...STORED.slice(1), ...RESCUED];
    assert.deepEqual(expected.filter((line) => !found.has(line)), [], how);
  }
  return calls;
}

for (const command of COMMANDS) {
  const { words, isDeleted = false } = command;
  const isCopy = /^(backup|restore)/.test(words);
  for (const injections of isCopy ? [[], [WITHOUT_LINKS]] : [[]]) {
    const where = injections.length > 0 ? " without hard links" : "";
    const when = isDeleted ? " when its store is deleted" : "";
    withStrace.test(`"${words}"${where}${when} changes no file that it has not made, and a kill leaves no incomplete one`, async ({ directory, store }) => {
      await createAndKill(store, STORED.length);
      assertSucceeded(await backUp(store, directory.file("copy.db")));
      writeLines(directory.file("lines"), linesOf([-1n]));
      writeLines(directory.file(IMPORTED.replace("rename ", "")), RESCUED);
      const { path } = directory;
      const calls = await run(path, command, injections, false);
      const kills = killPoints(calls).map((kill) => [...injections, kill]);
      await inParallel(kills, (it) => run(path, command, it, true), 2);
    });
  }
}
