/** Random creates through several instances, checked against a model. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { type Create, History } from "../support/history.ts";
import { HISTORY_S, runHistory } from "../support/history_run.ts";
import { Instance } from "../support/instances.ts";
import { KV_ENV, KvServer, withServer } from "../support/kv_server.ts";
import { Ledger } from "../support/load.ts";
import { seedOfRun } from "../support/random.ts";
import { test } from "../support/tests.ts";

/** The id of the histories below. */
const ID = 1n;

/**
 * Histories of one id, and what each violates. `A?` is the event that a client
 * sends A, `A=200` that it gets this answer, `A!` that A is stored.
 */
const HISTORIES: readonly [name: string, events: string, wrong?: string][] = [
  ["two winners", "A? B? A=200 B=200 A!", `"B"}, sent at 1, was answered 200`],
  ["a lost plant", "A? A=200", "answered 200 at 1, but nothing is stored"],
  ["an altered plant", "A? A=200 a!", `"a"} is stored, but was never sent`],
  ["an unknown plant", "A!", `"A"} is stored, but was never sent`],
  ["a plant that was refused", "A? A=50302 A!", "sent, or only refused"],
  ["a 409 before the winner", "B? B=40901 A? A=200 A!", `"B"}, sent at 0, was`],
  ["a 409 without a winner", "A? A=40901", "at 1, but nothing is stored"],
  ["a 409 for the winner", "A? A=0 A? A=40901 A!", "answered 40901 at 3"],
  ["an unexpected answer", "A? A=50001", "answered 50001 at 1"],
  ["nothing if the winner is answered last", "A? B? B=40901 A=200 A!"],
  ["nothing if the winner is repeated", "A? A=200 A? A=200 A!"],
  ["nothing if a lost create wins", "A? A=0 B? B=40901 A!"],
  ["nothing if a failed create wins", "A? B? A=50303 B=40901 A!"],
  ["nothing if no create has an outcome", "A? A=0 A? A=50301 B? B=50303"],
];

for (const [name, events, wrong = ""] of HISTORIES) {
  Deno.test(`History.violations() returns ${name}`, () => {
    const history = new History();
    const stored = new Map<bigint, unknown>();
    const sent = new Map<string, Create>();
    for (const event of events.split(" ")) {
      const [name = "", kind] = event;
      const create = sent.get(name);
      if (kind === "?") {
        sent.set(name, history.sends({ id: ID, plant: { name } }));
      } else if (kind === "!") stored.set(ID, { name });
      else if (create) history.answered(create, Number(event.slice(2)));
    }
    const violations = history.violations(stored);
    assert.equal(violations.length, wrong === "" ? 0 : 1);
    assert.ok(violations.every((violation) => violation.includes(wrong)));
  });
}

Deno.test("History.answered() returns the violation of a reply that contradicts the store, or an earlier 200", () => {
  const history = new History();
  const one = { id: ID, plant: { name: "A" } };
  const other = { id: ID, plant: { name: "B" } };
  const create = history.sends(one);
  const answer = (newPlant: typeof one, answer: number) =>
    history.answered(history.sends(newPlant), answer);
  assert.equal(answer(other, API_ERRORS.idTaken.error), undefined);
  assert.match(`${history.answered(create, 200, new Map())}`, /nothing is/);
  assert.equal(answer(one, 200), undefined);
  assert.equal(answer(other, API_ERRORS.idTaken.error), undefined);
  assert.match(`${answer(other, 200)}`, /"A"}, first sent at 0, is stored/);
  assert.match(`${answer(one, API_ERRORS.idTaken.error)}`, /answered 40901/);
});

test("creates through two instances on one file are exact when these are killed, stopped and restarted", async ({ store }) => {
  await assertExact(2, store);
});

for (const count of [2, 3]) {
  withServer.test(`creates through ${count} instances on a KV Connect server are exact when any of them is killed, stopped or restarted`, async ({ directory }) => {
    const file = directory.file("kv.db");
    await using server = await KvServer.start(file);
    await assertExact(count, file, server);
  });
}

/**
 * Runs instances with clients and accidents, and checks the history.
 * @param file the store, or that of the KV Connect server
 */
async function assertExact(
  count: number,
  file: string,
  server?: KvServer,
): Promise<void> {
  const seed = seedOfRun();
  const ledger = new Ledger();
  const instances: Instance[] = [];
  const accidents: string[] = [];
  await using stack = new AsyncDisposableStack();
  try {
    for (let i = 0; i < count; i++) {
      const env = server === undefined ? {} : KV_ENV;
      instances.push(stack.use(await Instance.start(server?.url ?? file, env)));
    }
    await runHistory({ instances, server, seed, ledger, accidents });
    for (const instance of instances) await instance.end("SIGTERM");
    await server?.kill();
    await ledger.assertFile(file);
    assert.notEqual(accidents.length, 0);
    const answers = [...ledger.sent.values()].flat().map((it) => it.answer);
    assert.ok(answers.includes(200));
    assert.ok(answers.includes(API_ERRORS.idTaken.error));
  } catch (cause) {
    throw new Error(`with SEED=${seed} HISTORY_S=${HISTORY_S}`, { cause });
  }
}
