/**
 * The model that a history of creates is checked against: an id is a register
 * that is written once, and the final export shows the winner. A history is
 * correct if, for each id,
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
import assert from "node:assert/strict";
import { API_ERRORS, statusOf } from "../../src/errors.ts";
import { truncate } from "../../src/messages.ts";
import type { Answer } from "./load.ts";

/** A create as its client saw it. */
export interface Create {
  readonly id: bigint;
  /** The plant without its id, as JSON. */
  readonly content: string;
  /** The positions of both events among all events of the history. */
  readonly sentAt: number;
  readonly answeredAt: number;
  /** 200, the error number of another reply, or 0 without a reply. */
  readonly answer: number;
}

/** The answers after which a create cannot take effect. */
const REFUSALS: readonly number[] = [
  API_ERRORS.shuttingDown.error,
  API_ERRORS.queueFull.error,
];

const QUOTE_CHARS_MAX = 60;

/** Returns whether a create has no outcome, so that its client retries. */
export function isUnsettled(answer: number): boolean {
  return answer === 0 || statusOf(answer) === 503;
}

/**
 * Returns the violations of a history, each with its id.
 * @param exported the content of each stored plant
 */
export function findViolations(
  creates: Iterable<Create>,
  exported: ReadonlyMap<bigint, string>,
): string[] {
  const byId = Map.groupBy(creates, ({ id }) => id);
  const ids = new Set([...byId.keys(), ...exported.keys()]);
  return [...ids].flatMap((id) =>
    violationsOf(byId.get(id) ?? [], exported.get(id))
      .map((violation) => `${id}: ${violation}`)
  );
}

/** Returns the violations of the creates of one id. */
function violationsOf(
  creates: readonly Create[],
  winner: string | undefined,
): string[] {
  const winnerSentAt = creates
    .filter(({ content }) => content === winner)
    .filter(({ answer }) => !REFUSALS.includes(answer))
    .reduce((first, { sentAt }) => Math.min(first, sentAt), Infinity);

  function isCorrect({ content, answer, answeredAt }: Create): boolean {
    if (answer === 200) return content === winner;
    if (answer === API_ERRORS.idTaken.error) {
      return content !== winner && winnerSentAt < answeredAt;
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
    { content, sentAt, answeredAt, answer },
  ) =>
    `${quote(content)}, sent at ${sentAt}, was answered ${answer} at ` +
    `${answeredAt}, but ${stored}`
  );
}

function quote(content: string): string {
  return truncate(content, QUOTE_CHARS_MAX);
}

/** Records creates and the order of their events. */
export class History {
  readonly creates: Create[] = [];
  #events = 0;

  /** Records a create that is sent now, and returns its answer. */
  async record(
    { id, content }: Pick<Create, "id" | "content">,
    send: () => Promise<Answer>,
  ): Promise<number> {
    const sentAt = this.#events++;
    const { status, error } = await send();
    const answer = error ?? status;
    const answeredAt = this.#events++;
    this.creates.push({ id, content, sentAt, answeredAt, answer });
    return answer;
  }
}

/** Returns the content of each plant in the lines of an export. */
export function parseExport(lines: readonly string[]): Map<bigint, string> {
  const exported = new Map<bigint, string>();
  for (const line of lines) {
    const [, id = "", members] = /^\{"id":(-?\d+),(.*)$/.exec(line) ?? [];
    exported.set(BigInt(id), `{${members}`);
  }
  assert.equal(exported.size, lines.length, "an id was exported twice");
  return exported;
}
