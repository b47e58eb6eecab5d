/**
 * What must hold of creates, whatever happens to the service, and the one place
 * that checks it: the simulation, the histories, the kills and the power cuts
 * record what was sent and answered here. An id is a register that is written
 * once, and the store shows the winner. A history is correct if, for each id,
 *
 * - 200 answers only the winner;
 * - 409 answers only other plants, and only after a client sent the winner;
 * - a client sent the winner, in a create that was not refused;
 * - without a winner, neither 200 nor 409 answers any create.
 *
 * Only the order of events counts, not their time. A create without a reply may
 * take effect at any later moment, or never. So the correct histories are
 * exactly the linearizable ones.
 */
import { isDeepStrictEqual } from "node:util";
import { API_ERRORS, statusOf } from "../../src/api_errors.ts";
import { truncate } from "../../src/messages.ts";
import type { Plant } from "../../src/plant/plant.ts";
import { getOrInsert } from "./maps.ts";

/** A create as its client saw it. */
export interface Create<Value = Plant> {
  readonly id: bigint;
  readonly plant: Value;
  /** The positions of both events among all events of the history. */
  readonly sentAt: number;
  answeredAt: number;
  /** 200, the error number of another reply, or 0 without a reply. */
  answer: number;
}

/** The answers after which a create cannot take effect. */
const REFUSALS: readonly number[] = [
  API_ERRORS.shuttingDown.error,
  API_ERRORS.busy.error,
];

const QUOTE_CHARS_MAX = 60;

/** Returns whether a create has no outcome, so that its client retries. */
export function isUnsettled(answer: number): boolean {
  return answer === 0 || statusOf(answer) === 503;
}

/** Creates in the order in which they were sent and answered. */
export class History<Value = Plant> {
  /** Every create that was sent, by its id. */
  readonly sent = new Map<bigint, Create<Value>[]>();
  /** The first create of each id that was answered 200. */
  readonly acknowledged = new Map<bigint, Create<Value>>();
  /** Creates that were sent, plus replies. */
  events = 0;

  /** Records a create that is sent now, or the write of another program. */
  sends({ id, plant }: Pick<Create<Value>, "id" | "plant">): Create<Value> {
    const sentAt = this.events++;
    const create = { id, plant, sentAt, answeredAt: NaN, answer: 0 };
    getOrInsert(this.sent, id, () => []).push(create);
    return create;
  }

  /**
   * Records the answer to a create.
   * @param stored the values in the store now, at least those that are known
   * @returns the violation, if it is one
   */
  answered(
    create: Create<Value>,
    answer: number,
    stored?: ReadonlyMap<bigint, unknown>,
  ): string | undefined {
    const { id } = create;
    create.answer = answer;
    create.answeredAt = this.events++;
    if (answer === 200) getOrInsert(this.acknowledged, id, () => create);
    if (stored !== undefined) return this.#violation(create, stored.get(id));
    const winner = this.acknowledged.get(id);
    return winner && this.#violation(create, winner.plant);
  }

  /** Returns the violations, with the values in the store at the end. */
  violations(stored: ReadonlyMap<bigint, unknown>): string[] {
    const ids = new Set([...this.sent.keys(), ...stored.keys()]);
    return [...ids].flatMap((id) => {
      const value = stored.get(id);
      if (value !== undefined && this.#sentAt(id, value) === Infinity) {
        return `${id}: ${
          quote(value)
        } is stored, but was never sent, or only refused`;
      }
      return (this.sent.get(id) ?? [])
        .map((create) => this.#violation(create, value))
        .filter((violation) => violation !== undefined);
    });
  }

  /** Returns when a value was first sent with an id, and not refused. */
  #sentAt(id: bigint, value: unknown): number {
    const first = this.sent.get(id)?.find(({ plant, answer }) =>
      !REFUSALS.includes(answer) && isDeepStrictEqual(plant, value)
    );
    return first?.sentAt ?? Infinity;
  }

  /** @param value what is stored with the id, `undefined` for nothing */
  #violation(
    { id, plant, sentAt, answeredAt, answer }: Create<Value>,
    value: unknown,
  ): string | undefined {
    const winnerSentAt = this.#sentAt(id, value);
    const isWinner = isDeepStrictEqual(plant, value);
    const isCorrect = answer === API_ERRORS.idTaken.error
      ? !isWinner && winnerSentAt < answeredAt
      : answer === 200
      ? isWinner
      : isUnsettled(answer);
    if (isCorrect) return undefined;
    const stored = value === undefined
      ? "nothing is stored"
      : `${quote(value)}, first sent at ${winnerSentAt}, is stored`;
    return `${id}: ${quote(plant)}, sent at ${sentAt}, was answered ` +
      `${answer} at ${answeredAt}, but ${stored}`;
  }
}

function quote(value: unknown): string {
  return truncate(JSON.stringify(value), QUOTE_CHARS_MAX);
}
