/** The handbook has what the journal says, in the words of the source. */
import assert from "node:assert/strict";
import { describeExpiry } from "../../src/console/certificate.ts";
import {
  explain,
  fileFailure,
  storeFailure,
} from "../../src/console/failures.ts";
import { listenFailure } from "../../src/console/listen_failure.ts";
import { reportsTo, rescuedFailure } from "../../src/console/store_reports.ts";
import { FileError, type FileProblem } from "../../src/files/file_error.ts";
import {
  DatabaseError,
  type DatabaseProblem,
} from "../../src/store/files/database_error.ts";
import { inspect } from "../../src/store/files/inspect.ts";
import { noAnswer } from "../../src/store/retry.ts";
import type { StoreError } from "../../src/store/store_error.ts";
import { COMMIT_MS_MAX } from "../../src/limits.ts";
import { Log } from "../../src/telemetry/log.ts";
import { HANDBOOK, read, ROOT } from "../support/readme.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const STORE = {
  kind: "file",
  path: "/data/plants.db",
  setting: "KV_PATH",
} as const;

/** A code in the first column of the tables: a pattern of messages. */
interface Code {
  readonly text: string;
  readonly pattern: RegExp;
  readonly isWarning: boolean;
  /** Whether it stands for all reasons that have no row. */
  readonly isAnyOther: boolean;
}

/** Returns the codes in the first column of the tables. */
function readCodes(): Code[] {
  const [, rest = ""] = read(HANDBOOK).split("\n## What the journal says");
  const [section = ""] = rest.split("\n## ");
  const cells = section.match(/^\| [^|]*/gm) ?? [];
  return cells.flatMap((cell) =>
    Array.from(cell.matchAll(/`([^`]+)`/g), ([, text = ""]) => {
      const pattern = RegExp.escape(text.replace("STORE", STORE.path))
        .replaceAll("…", ".*");
      return {
        text,
        pattern: new RegExp(`^${pattern}`),
        isWarning: cell.includes("warning"),
        isAnyOther: text.endsWith("STORE: …"),
      };
    })
  );
}

/** Returns what is wrong with files at a path, by their suffixes. */
function problemOf(files: Record<string, Uint8Array>, link?: string) {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  if (link !== undefined) Deno.symlinkSync(link, path);
  for (const [suffix, content] of Object.entries(files)) {
    Deno.writeFileSync(path + suffix, content);
  }
  const found = inspect(path);
  assert.ok(found instanceof Error);
  return found;
}

/** Returns bytes, one of which is not 0. */
function bytes(length: number, at = 0, byte = 1): Uint8Array {
  return new Uint8Array(length).fill(byte, at, at + 1);
}

/** An index of a log with a frame that the database does not have. */
const INDEX = new Uint8Array(100);
for (const at of [0, 48]) {
  INDEX.set([0x18, 0xe2, 0x2d], at);
  INDEX.set([1], at + 16);
}

/** What only an open store can have. */
type Loss = "lost" | "cut";

/** Every problem of a store at a start, but those that only new files have. */
const PROBLEMS: Readonly<
  Record<
    Exclude<FileProblem | DatabaseProblem, "exists" | "not synced" | Loss>,
    StoreError
  >
> = {
  "missing": new FileError("missing"),
  "no directory": new FileError("no directory", "no directory /data"),
  "directory": new FileError("directory"),
  "special path": new FileError("special path"),
  "bad path": new FileError("bad path", "File name too long"),
  "read-only": new FileError("read-only"),
  "denied": new FileError("denied"),
  "full": new FileError("full"),
  "other": new FileError("other", "disk I/O error"),
  "not a store": new DatabaseError("not a store"),
  "missing database": problemOf({ "-wal": bytes(1) }),
  "missing log": problemOf({ "": bytes(20, 19, 2), "-shm": INDEX }),
  "log beside link": problemOf({ "-wal": bytes(1) }, "other.db"),
  "foreign log": problemOf({ "": bytes(20), "-wal": bytes(1) }),
  "corrupt": new DatabaseError("corrupt"),
  "newer format": new DatabaseError("newer format"),
  "locked": new DatabaseError("locked"),
  "no answer": noAnswer(COMMIT_MS_MAX),
};

const LOSSES: readonly StoreError[] = [
  new DatabaseError("lost", "it was deleted or moved"),
  new DatabaseError("cut"),
];

/** Errors of a disk, in the words of SQLite and of Deno. */
const DISK_ERRORS: readonly StoreError[] = [
  new FileError("other", "disk I/O error"),
  new FileError("other", "Input/output error (os error 5)"),
];

/** A message of level error or warning. */
interface Message {
  readonly text: string;
  readonly isWarning?: boolean;
  /** Whether it ends with what to do. */
  readonly hasAdvice?: boolean;
}

/** Returns what is said about a store, while it is open and at a start. */
function storeMessages(): Message[] {
  const logged: string[] = [];
  const write = (entry: string) => logged.push(JSON.parse(entry).message);
  const reports = reportsTo(new Log("json", write), STORE);
  const problems = [...Object.values(PROBLEMS), ...DISK_ERRORS];
  const hasAdvice = (error: StoreError) =>
    explain(error, STORE) !== error.message;

  const open = [...problems, ...LOSSES].map((error) => {
    reports.storeFailing(error);
    return { text: logged.pop() ?? "", hasAdvice: hasAdvice(error) };
  });
  const atStart = problems.map((error) => ({
    text: storeFailure("store plants in", STORE, error).message,
    hasAdvice: hasAdvice(error),
  }));
  const path = `${STORE.path}.rescued-TIME.jsonl`;
  const rescued = { path, file: path, imported: "imported" };
  reports.plantsSaved(rescued, 1, 0);
  reports.plantsNotSaved(PROBLEMS.full);
  reports.plantsLost(PROBLEMS.corrupt);
  const names = { host: "", port: "", baseUrl: "", tlsCert: "", tlsKey: "" };
  for (
    const { message } of [
      rescuedFailure(rescued, STORE.path),
      rescuedFailure({ ...rescued, file: undefined }, STORE.path),
      listenFailure({ host: "127.0.0.1", port: 8000, names }, new Error()),
      fileFailure("write", "/backups/copy.db", PROBLEMS.full),
    ]
  ) logged.push(message);
  return [...open, ...atStart, ...logged.map((text) => ({ text }))];
}

/** The messages of events whose calls do not have them as literals. */
const COMPUTED: Readonly<Record<string, readonly Message[]>> = {
  "store failing": storeMessages(),
  // The function above makes these as well.
  "plants saved": [],
  "plants not saved": [],
  "plants lost": [],
  "certificate expired": [{
    text: describeExpiry({
      certFile: { name: "TLS_CERT", path: "/tls.crt" },
      pair: { cert: "", key: "" },
      expires: new Date(0),
    }),
    isWarning: true,
  }],
  // They name a setting, or are those of a start.
  "certificate not read": [],
  "failed": [],
};

/** Returns every message that the source can log, "…" for what varies. */
function allMessages(): Message[] {
  const call = /\.(error|warn)\(\s*"([\w ]+)",\s*(?:`([^`]*)`|"([^"]*)")?/gi;
  const events = new Set<string>();
  const literals = sources().flatMap((source) =>
    Array.from(source.matchAll(call), ([, level, event = "", ...texts]) => {
      events.add(event);
      const [text] = texts.filter((it) => it !== undefined);
      if (event in COMPUTED) return [];
      assert.ok(text !== undefined, `the message of ${event} is not known`);
      const isWarning = level === "warn";
      return [{ text: text.replaceAll(/\$\{[^}]*\}/g, "…"), isWarning }];
    }).flat()
  );
  for (const event of Object.keys(COMPUTED)) assert.ok(events.has(event));
  return [...Object.values(COMPUTED).flat(), ...literals];
}

/** Returns the text of every source file. */
function sources(folder = new URL("src/", ROOT)): string[] {
  return Array.from(Deno.readDirSync(folder)).flatMap((entry) => {
    if (entry.isDirectory) return sources(new URL(`${entry.name}/`, folder));
    if (!entry.name.endsWith(".ts")) return [];
    return [Deno.readTextFileSync(new URL(entry.name, folder))];
  });
}

Deno.test("the handbook has every error and warning of the journal in its words, or the message says what to do", () => {
  const messages = allMessages();
  const codes = readCodes();
  for (const { text, isWarning = false, hasAdvice = false } of messages) {
    const found = codes.filter((code) => code.pattern.test(text));
    const known = found.filter((code) =>
      code.isWarning === isWarning && (hasAdvice || !code.isAnyOther)
    );
    assert.ok(known.length > 0, `no row for: ${text}`);
  }
  for (const { text, pattern } of codes) {
    const isSaid = messages.some((message) => pattern.test(message.text));
    assert.ok(isSaid, `no message is: ${text}`);
  }
});
