/**
 * Compares servers that run at the same time and are loaded in turn, in short
 * slices: on a noisy machine ratios are useful, and rates hardly are.
 */
import { shuffled } from "../support/transfer.ts";
import type { Options } from "./main.ts";
import type { Running } from "./servers.ts";
import { median, medianRatio, printTable } from "./tables.ts";
import { type Load, load, type Result, WARM_UP_SECONDS } from "./wrk.ts";

/** A server under a kind of load: one row of the table. */
export interface Subject {
  readonly server: Running;
  readonly load: Load;
  /** What the load is called: the same for each server. */
  readonly title: string;
  /** The same server under new creates only. */
  readonly alone?: Subject;
}

/** Prints the table, and reports whether every create was answered 200. */
export async function compareByTurns(
  subjects: readonly Subject[],
  { connections, rounds, seconds }: Options,
): Promise<boolean> {
  const results = new Map(
    subjects.map((each): [Subject, Result[]] => [each, []]),
  );
  for (const { server, load: kind } of subjects) {
    await load(server, kind, { connections, seconds: WARM_UP_SECONDS });
  }
  for (let round = 1; round <= rounds; round++) {
    for (const [{ server, load: kind }, own] of shuffled([...results])) {
      own.push(await load(server, kind, { connections, seconds }));
    }
    console.error(`round ${round} is done`);
  }
  printResults(results);
  return [...results.values()].flat().every(({ errors }) => errors === 0);
}

function printResults(results: ReadonlyMap<Subject, readonly Result[]>): void {
  const subjects = [...results.keys()];
  // The other service is the first one, if there are two.
  const other = (subject: Subject) =>
    subjects.find(({ title }) => title === subject.title);
  const rates = (subject: Subject) =>
    (results.get(subject) ?? []).map(({ rate }) => rate);
  const ratio = (subject: Subject, base: Subject | undefined) =>
    base === undefined || base === subject
      ? ""
      : medianRatio(rates(subject), rates(base)).toFixed(2);
  const rows = [...results].map(([subject, own]) => {
    const of = (select: (result: Result) => number, digits: number) =>
      median(own.map(select)).toFixed(digits);
    return [
      subject.server.name,
      subject.title,
      of(({ rate }) => rate, 0),
      of(({ p50Ms }) => p50Ms, 2),
      of(({ p99Ms }) => p99Ms, 2),
      of(({ cpu }) => cpu.main, 1),
      of(({ cpu }) => cpu.process, 1),
      ratio(subject, subject.alone),
      ratio(subject, other(subject)),
      String(own.reduce((sum, { errors }) => sum + errors, 0)),
    ];
  });
  printTable([
    [
      ...["server", "load", "creates/s", "p50 ms", "p99 ms"],
      ...["µs of JavaScript thread", "µs of process"],
      ...["to new creates", "to the other", "errors"],
    ],
    ...rows,
  ]);
}
