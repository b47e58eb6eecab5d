/** The checker of histories, on histories of one id. */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { API_ERRORS } from "../../src/api_errors.ts";
import {
  ABSENT,
  History,
  isRight,
  isUnsettled,
  type Operation,
} from "./history.ts";
import { type Random, withSeed } from "./random.ts";

const ID = 1n;

/**
 * Examples of histories, and what each violates. `A?` is the event that a client
 * sends the plant A, `A=200` that it gets this answer, `A!` that A is stored at
 * the end. `-?` is a removal, `a?` a replacement by A. The random histories below have
 * the other cases.
 */
const HISTORIES: readonly [name: string, events: string, wrong?: string][] = [
  ["two winners", "A? B? A=200 B=200 A!", "answered 200 at 3"],
  ["a lost plant", "A? A=200", "nothing is stored"],
  ["a plant that nobody sent", "A!", `"A"} is stored`],
  ["a 409 without a winner", "A? A=40901", "answered 40901 at 1"],
  ["an unexpected answer", "A? A=50001", "answered 50001 at 1"],
  ["a removal of nothing", "-? -=200", "removal sent at 0, answered 200"],
  ["a removal that overlooks a plant", "A? A=200 -? -=404 A!", "answered 404"],
  ["a replacement of nothing", "a? a=200 A!", "answered 200 at 1"],
  [
    "a replacement that overlooks a plant",
    "A? A=200 b? b=404 A!",
    "answered 404",
  ],
  ["a lost replacement", "A? A=200 b? b=200 A!", `"A"} is stored`],
  ["nothing if a failed create wins", "A? B? A=50303 B=40901 A!"],
];

/** Returns the violations of an example. */
function violationsOf(events: string, repeatsCreates = false): string[] {
  const history = new History();
  history.repeatsCreates = repeatsCreates;
  const stored = new Map<bigint, unknown>();
  const sent = new Map<string, (answer: number) => void>();
  for (const event of events.split(" ")) {
    const [name = "", kind] = event;
    if (kind === "!") stored.set(ID, { name });
    else if (kind === "=") sent.get(name)?.(Number(event.slice(2)));
    else if (/[a-z]/.test(name)) {
      const plant = { name: name.toUpperCase() };
      const replacement = history.mayReplace({ id: ID, plant });
      sent.set(name, (answer) => history.answered(replacement, answer));
    } else if (/[A-Z]/.test(name)) {
      const create = history.mayStore({ id: ID, plant: { name } });
      sent.set(name, (answer) => history.answered(create, answer));
    } else {
      const removal = history.mayRemove(ID);
      sent.set(name, (answer) => history.answered(removal, answer));
    }
  }
  return history.violations(stored);
}

Deno.test("History.violations() accepts that a running create is repeated after a removal or a replacement, if the store repeats creates", () => {
  for (
    const events of [
      "A? -? -=200 A=200 A!",
      "A? A=0 -? -=200 A!",
      "A? b? b=200 A=40901 B!",
    ]
  ) {
    assert.equal(violationsOf(events).length, 1, events);
    assert.deepEqual(violationsOf(events, true), [], events);
  }
  // But not after its reply, and no removal twice.
  for (const events of ["A? A=200 -? -=200 A!", "A? A=200 -? B? B=200 -=200"]) {
    assert.equal(violationsOf(events, true).length, 1, events);
  }
});

for (const [name, events, wrong = ""] of HISTORIES) {
  Deno.test(`History.violations() returns ${name}`, () => {
    const violations = violationsOf(events);
    assert.equal(violations.length, wrong === "" ? 0 : 1, `${violations}`);
    assert.ok(violations.every((it) => it.includes(wrong)), `${violations}`);
  });
}

/** Random histories, which are short enough to try every order. */
const RANDOM_HISTORIES = 20_000;

Deno.test("History.violations() agrees with a search through every order of the operations", () =>
  withSeed((random) => {
    let correct = 0;
    for (let i = 0; i < RANDOM_HISTORIES; i++) {
      const { history, operations } = drawHistory(random);
      const value = random.pick([undefined, { name: "A" }, { name: "B" }]);
      const stored = new Map(value === undefined ? [] : [[ID, value]]);
      const isCorrect = hasOrder(operations, undefined, value);
      const violations = history.violations(stored);
      assert.equal(violations.length, isCorrect ? 0 : 1, `history ${i}`);
      if (isCorrect) correct++;
    }
    assert.ok(correct > RANDOM_HISTORIES / 20, `${correct} were correct`);
  }));

/** Draws operations that overlap, and their answers. */
function drawHistory(random: Random) {
  const history = new History();
  const operations: Operation[] = [];
  const open: Operation[] = [];
  for (let left = random.int(1, 5); left > 0 || open.length > 0;) {
    if (left > 0 && random.chance(0.6)) {
      left--;
      const plant = { name: random.pick(["A", "B"]) };
      const operation = random.pick([
        () => history.mayRemove(ID),
        () => history.mayReplace({ id: ID, plant }),
        () => history.mayStore({ id: ID, plant }),
        () => history.mayStore({ id: ID, plant }),
      ])();
      operations.push(operation);
      open.push(operation);
      continue;
    }
    const [operation] = open.splice(random.int(0, open.length - 1), 1);
    if (operation === undefined) continue;
    const answers = operation.isChange
      ? [0, 200, ABSENT]
      : [0, 200, 200, API_ERRORS.idTaken.error, API_ERRORS.busy.error];
    history.answered(operation, random.pick(answers));
  }
  return { history, operations };
}

/** Returns whether some order of the operations explains the answers. */
function hasOrder(
  operations: readonly Operation[],
  value: unknown,
  stored: unknown,
): boolean {
  const isDone = operations.every(({ answer }) => isUnsettled(answer));
  if (isDone && isDeepStrictEqual(value, stored)) return true;
  return operations.some((next) => {
    const { plant, isChange, answer, sentAt } = next;
    const others = operations.filter((it) => it !== next);
    const isFirst = others
      .every((it) => isUnsettled(it.answer) || sentAt < it.answeredAt);
    if (!isFirst || answer === API_ERRORS.busy.error) return false;
    const hasPlace = isChange !== (value === undefined);
    const mayChange = answer === 200 || isUnsettled(answer);
    return hasPlace && mayChange
      ? hasOrder(others, plant, stored)
      : isRight(next, value) && hasOrder(others, value, stored);
  });
}
