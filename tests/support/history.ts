/**
 * The model that creates are checked against: an id is a register that is
 * written once, and the store finally shows the winner. A history is correct
 * if, for each id,
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
import { API_ERRORS, statusOf } from "../../src/errors.ts";
import { truncate } from "../../src/messages.ts";
import type { Plant } from "../../src/plant/plant.ts";

/** A create as its client saw it. */
export interface Create {
  readonly plant: Plant;
  /** The positions of both events among all events of the history. */
  readonly sentAt: number;
  readonly answeredAt: number;
  /** 200, the error number of another reply, or 0 without a reply. */
  readonly answer: number;
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

/**
 * Returns the violations of a history, each with its id.
 * @param sent the creates by id
 * @param stored the values in the store
 */
export function findViolations(
  sent: ReadonlyMap<bigint, readonly Create[]>,
  stored: ReadonlyMap<bigint, unknown>,
): string[] {
  const ids = new Set([...sent.keys(), ...stored.keys()]);
  return [...ids].flatMap((id) =>
    violationsOf(sent.get(id) ?? [], JSON.stringify(stored.get(id)))
      .map((violation) => `${id}: ${violation}`)
  );
}

/** Returns the violations of the creates of one id. */
function violationsOf(
  creates: readonly Create[],
  winner: string | undefined,
): string[] {
  const isWinner = ({ plant }: Create) => JSON.stringify(plant) === winner;
  const winnerSentAt = creates
    .filter((it) => !REFUSALS.includes(it.answer) && isWinner(it))
    .reduce((first, { sentAt }) => Math.min(first, sentAt), Infinity);

  function isCorrect(create: Create): boolean {
    const { answer, answeredAt } = create;
    if (answer === 200) return isWinner(create);
    if (answer === API_ERRORS.idTaken.error) {
      return !isWinner(create) && winnerSentAt < answeredAt;
    }
    return isUnsettled(answer);
  }

  if (winner !== undefined && winnerSentAt === Infinity) {
    return [`${quote(winner)} is stored, but was never sent, or only refused`];
  }
  const stored = winner === undefined
    ? "nothing is stored"
    : `${quote(winner)}, first sent at ${winnerSentAt}, is stored`;
  return creates.filter((create) => !isCorrect(create)).map((
    { plant, sentAt, answeredAt, answer },
  ) =>
    `${quote(JSON.stringify(plant))}, sent at ${sentAt}, was answered ` +
    `${answer} at ${answeredAt}, but ${stored}`
  );
}

function quote(json: string): string {
  return truncate(json, QUOTE_CHARS_MAX);
}
