import assert from "node:assert/strict";
import { reportsTo, rescuedFailure } from "../../src/console/store_reports.ts";
import { FileError } from "../../src/files/file_error.ts";
import { DatabaseError } from "../../src/store/files/database_error.ts";
import type { Rescued } from "../../src/store/rescue.ts";
import { Log } from "../../src/telemetry/log.ts";

const STORE = "/srv/my plants.db";

/** A complete file, one that is being written, and a directory without one. */
const RESCUED: readonly (readonly [Rescued, command: string])[] = [
  [
    {
      path: `${STORE}.rescued-1.jsonl`,
      file: `${STORE}.rescued-1.jsonl`,
      imported: `${STORE}.imported-1.jsonl`,
    },
    `plant-store import '${STORE}.rescued-1.jsonl' --kv '${STORE}' && ` +
    `mv '${STORE}.rescued-1.jsonl' '${STORE}.imported-1.jsonl'`,
  ],
  [
    {
      path: "/srv/plants.db.rescued-1.jsonl.0.partial",
      file: "/srv/plants.db.rescued-1.jsonl.0.partial/it's.jsonl",
      imported: "/srv/plants.db.imported-1.jsonl.0.partial",
    },
    String
      .raw`plant-store import '/srv/plants.db.rescued-1.jsonl.0.partial/it'\''s.jsonl' --kv '${STORE}' && mv /srv/plants.db.rescued-1.jsonl.0.partial /srv/plants.db.imported-1.jsonl.0.partial`,
  ],
  [
    {
      path: `${STORE}.rescued-1.jsonl.0.partial`,
      file: undefined,
      imported: `${STORE}.imported-1.jsonl.0.partial`,
    },
    `mv '${STORE}.rescued-1.jsonl.0.partial' ` +
    `'${STORE}.imported-1.jsonl.0.partial'`,
  ],
];

/** Returns reports of the store, and what they have logged. */
function setUp() {
  const logged: string[] = [];
  const log = new Log("journal", (text) => logged.push(text));
  const store = { kind: "file", path: STORE, setting: "KV_PATH" } as const;
  return { reports: reportsTo(log, store), logged };
}

Deno.test("rescuedFailure() prints the command after which a start succeeds, with words for a shell", () => {
  for (const [rescued, command] of RESCUED) {
    const { message, exitStatus } = rescuedFailure(rescued, STORE);
    const state = rescued.file === rescued.path
      ? "were saved"
      : "are being saved";
    const begin = `cannot start with ${STORE}: its plants ${state} in `;
    assert.ok(message.startsWith(begin + rescued.path), message);
    assert.match(message, /[:,] run this command, and start again; if /);
    assert.ok(message.endsWith(`: ${command}`), message);
    const isWarned = message.includes("first restore a backup");
    assert.equal(isWarned, rescued.file !== rescued.path);
    assert.equal(exitStatus, 2);
  }
});

Deno.test("reportsTo() logs where the plants of a lost store are saved, and the same command", () => {
  for (
    const [foreign, others] of [
      [0, ""],
      [2, ", other entries lost: 2"],
    ] as const
  ) {
    const { reports, logged } = setUp();
    const [[rescued, command] = assert.fail()] = RESCUED;
    reports.plantsSaved(rescued, 3, foreign);
    assert.deepEqual(logged, [
      `<3>saved all plants (3) in ${rescued.path}${others}: stop the service, ` +
      `run this, and start it again: ${command}`,
    ]);
  }
});

Deno.test("reportsTo() logs that plants are not saved yet, or are lost", () => {
  const { reports, logged } = setUp();
  reports.plantsNotSaved(new FileError("full"));
  reports.plantsLost(new DatabaseError("corrupt"));
  assert.deepEqual(logged, [
    "<3>cannot save the plants: the disk is full: fix this while the " +
    "service runs, which tries again every 10 s",
    "<3>cannot save the plants: the database is corrupt, or its disk fails: " +
    "restore a backup",
  ]);
});

Deno.test("reportsTo() logs why the store fails, that a lost one is being saved, and that it has recovered", () => {
  const { reports, logged } = setUp();
  const saving = ": saving its plants: a kill or a second signal loses them";
  reports.storeFailing(new DatabaseError("lost", "it was replaced"));
  reports.storeFailing(new DatabaseError("cut"));
  reports.storeFailing(new FileError("read-only"));
  reports.storeRecovered();
  assert.deepEqual(logged, [
    `<3>the store fails: ${STORE}: it was replaced${saving}`,
    `<3>the store fails: ${STORE}: it became shorter: stop the service, and ` +
    "restore a backup",
    `<3>the store fails: ${STORE}: the file system is read-only: mount it for ` +
    "writing, add it to ReadWritePaths of the systemd unit, or name another " +
    "file with KV_PATH",
    "<6>the store has recovered",
  ]);
});
