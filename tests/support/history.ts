/**
 * What must hold of creates and removals, whatever happens to the service. Tests
 * record what is sent and answered, most of them in a `Ledger`, and compare it
 * with what is stored. A history is correct if it is linearizable: each operation
 * takes effect at one moment between its request and its reply, and these moments
 * explain every answer and what is stored in the end, for each id:
 *
 * - a create stores its plant if there is none, and is answered 200;
 * - it is answered 200 as well if its plant is stored, and 409 if another one is;
 * - a removal removes the plant that is stored, or answers that there is none;
 * - a replacement stores its plant in place of one, or answers that there is none.
 *
 * The client of a KV Connect server repeats a write whose reply was lost: a create
 * that is running while its plant is removed may store it again, and be answered 409
 * if its plant is replaced.
 *
 * An operation without an outcome may take effect at any later moment, or never.
 * Only the order of requests and replies counts, not their time.
 */
import { isDeepStrictEqual } from "node:util";
import { API_ERRORS, statusOf } from "../../src/api_errors.ts";
import { QUOTE_CHARS_MAX } from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import { truncate } from "../../src/text.ts";

/** A create, a removal or a replacement as its client saw it. */
export interface Operation {
  readonly id: bigint;
  /** `undefined` for a removal. */
  readonly plant: Plant | undefined;
  /** Whether it changes a plant that is stored, and creates none. */
  readonly isChange: boolean;
  /** The times of both, counted as {@link History.now}. */
  readonly sentAt: number;
  answeredAt: number;
  /**
   * 200 for a create that was stored or a change that was made, the error number of
   * another reply, {@link ABSENT}, or 0 without an outcome.
   */
  answer: number;
}

/** A create as its client saw it. */
export interface Create extends Operation {
  readonly plant: Plant;
}

function isCreate(operation: Operation): operation is Create {
  return !operation.isChange;
}

/** The answer of a removal or a replacement that has found no plant. */
export const ABSENT = 404;

const TAKEN = API_ERRORS.idTaken.error;

/** The answers after which a create cannot take effect. */
const REFUSALS: readonly number[] = [
  API_ERRORS.shuttingDown.error,
  API_ERRORS.busy.error,
];

/** Returns whether an operation has no outcome, so that its client retries. */
export function isUnsettled(answer: number): boolean {
  return answer === 0 || statusOf(answer) === 503;
}

/**
 * Returns whether an answer is right while a value is stored, `undefined` for
 * nothing, which the operation does not change.
 */
export function isRight(
  { plant, isChange, answer }: {
    readonly plant: Plant | undefined;
    readonly isChange: boolean;
    readonly answer: number;
  },
  value: unknown,
): boolean {
  if (value === undefined) return isChange && answer === ABSENT;
  const isSame = isDeepStrictEqual(plant, value);
  if (isChange) return isSame && answer === 200;
  return answer === (isSame ? 200 : TAKEN);
}

/** Operations in the order in which they were sent and answered. */
export class History {
  /** Every create that was sent, by its id. */
  readonly sent = new Map<bigint, Create[]>();
  /** The first create of each id that was answered 200. */
  readonly acknowledged = new Map<bigint, Create>();
  /** Every removal and every replacement that was started, by its id. */
  readonly changes = new Map<bigint, Operation[]>();
  /** The time, counted in events: operations that were sent, and their answers. */
  now = 0;
  /** Whether the store may carry out a create again while it has no reply. */
  repeatsCreates = false;

  /**
   * Records that a plant may be stored from now on: by a create that is sent now, or
   * by another program.
   */
  mayStore({ id, plant }: NewPlant): Create {
    const create = { id, plant, isChange: false, ...this.#sentNow() };
    this.sent.getOrInsertComputed(id, () => []).push(create);
    return create;
  }

  /** Records that a plant may be removed from now on. */
  mayRemove(id: bigint): Operation {
    return this.#mayChange(id, undefined);
  }

  /** Records that a plant may be stored from now on in place of another one. */
  mayReplace({ id, plant }: NewPlant): Operation {
    return this.#mayChange(id, plant);
  }

  /** Records the answer to an operation. */
  answered(operation: Operation, answer: number): void {
    operation.answer = answer;
    operation.answeredAt = this.now++;
    if (answer === 200 && isCreate(operation)) {
      this.acknowledged.getOrInsert(operation.id, operation);
    }
  }

  /** Returns the violations, with the values in the store at the end. */
  violations(stored: ReadonlyMap<bigint, unknown>): string[] {
    const ids = new Set(
      [this.sent, this.changes, stored].flatMap((map) => [...map.keys()]),
    );
    return [...ids].flatMap((id) => {
      const operations = [
        ...this.sent.get(id) ?? [],
        ...this.changes.get(id) ?? [],
      ];
      const value = stored.get(id);
      const problem = findUnexplained(operations, value, this.repeatsCreates);
      if (problem === undefined) return [];
      const all = operations.map(describe).join("; ");
      return [`${id}: ${problem}, which nothing explains: ${all}`];
    });
  }

  #mayChange(id: bigint, plant: Plant | undefined): Operation {
    const change = { id, plant, isChange: true, ...this.#sentNow() };
    this.changes.getOrInsertComputed(id, () => []).push(change);
    return change;
  }

  #sentNow() {
    return { sentAt: this.now++, answeredAt: NaN, answer: 0 };
  }
}

/** What may be the case for one id after some events. */
interface State {
  /** What is stored, `undefined` for nothing. */
  readonly value: unknown;
  /** The operations without a reply that have changed the value. */
  readonly used: ReadonlySet<Operation>;
  /** Those whose answers were right at some moment. */
  readonly explained: ReadonlySet<Operation>;
}

/** Returns the first answer to an id that nothing explains, or what is stored. */
function findUnexplained(
  sent: readonly Operation[],
  stored: unknown,
  repeatsCreates: boolean,
): string | undefined {
  const operations = sent.filter(({ answer }) => !REFUSALS.includes(answer))
    .sort((a, b) => deadlineOf(a) - deadlineOf(b));
  const events = operations.flatMap((operation) => [
    { at: operation.sentAt, operation, isReply: false },
    { at: deadlineOf(operation), operation, isReply: true },
  ]).filter(({ at }) => at < Infinity).sort((a, b) => a.at - b.at);

  const open = new Set<Operation>();
  let states: State[] = [
    { value: undefined, used: new Set(), explained: new Set() },
  ];
  // Before a reply, every change that may have happened; no earlier moment has
  // more operations to explain.
  function change(): void {
    const candidates = operations.filter((operation) => open.has(operation));
    for (const state of states) {
      const changes = changesOf(state, candidates, repeatsCreates);
      for (const operation of changes) {
        const next = observe({
          value: operation.plant,
          used: new Set([...state.used, operation]),
          explained: new Set([...state.explained, operation]),
        }, open);
        if (!states.some((other) => isAtLeast(other, next))) states.push(next);
      }
    }
  }
  for (const { operation, isReply } of events) {
    if (isReply) {
      change();
      states = states.filter(({ explained }) => explained.has(operation));
      if (states.length === 0) return describe(operation);
      open.delete(operation);
    } else {
      open.add(operation);
      states = states.map((state) => observe(state, open));
    }
  }
  change();
  const isExplained = states
    .some(({ value }) => isDeepStrictEqual(value, stored));
  return isExplained ? undefined : `${quote(stored)} is stored at the end`;
}

/** Returns when the reply to an operation must be right. */
function deadlineOf({ answer, answeredAt }: Operation): number {
  return isUnsettled(answer) ? Infinity : answeredAt;
}

/**
 * Returns the operations that may change a value: one for each result, that with
 * the earliest reply, since it is of no more use after that.
 */
function changesOf(
  { value, used }: State,
  candidates: readonly Operation[],
  repeatsCreates: boolean,
): readonly Operation[] {
  const changes: Operation[] = [];
  for (const operation of candidates) {
    const { plant, isChange, answer } = operation;
    if (isChange === (value === undefined)) continue;
    const mayRepeat = repeatsCreates && !isChange;
    const mayChange = answer === 200 || isUnsettled(answer) ||
      mayRepeat && answer === TAKEN;
    if (!mayChange || used.has(operation) && !mayRepeat) continue;
    const isKnown = changes.some((it) => isDeepStrictEqual(it.plant, plant));
    if (!isKnown) changes.push(operation);
  }
  return changes;
}

/** Returns a state with the open operations whose answers are right in it. */
function observe(
  { value, used, explained }: State,
  open: ReadonlySet<Operation>,
): State {
  const right = [...open].filter((operation) => isRight(operation, value));
  return { value, used, explained: explained.union(new Set(right)) };
}

/** Returns whether a state explains everything that another one can explain. */
function isAtLeast(state: State, other: State): boolean {
  return state.used.isSubsetOf(other.used) &&
    state.explained.isSupersetOf(other.explained) &&
    isDeepStrictEqual(state.value, other.value);
}

function describe(operation: Operation): string {
  const { plant, isChange, sentAt, answeredAt, answer } = operation;
  const of = isChange ? "a replacement by " : "";
  const what = plant === undefined ? "a removal" : of + quote(plant);
  const end = answer === 0 ? "" : `, answered ${answer} at ${answeredAt}`;
  return `${what} sent at ${sentAt}${end}`;
}

function quote(value: unknown): string {
  return truncate(JSON.stringify(value) ?? "nothing", QUOTE_CHARS_MAX);
}
