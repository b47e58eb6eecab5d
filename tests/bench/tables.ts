/** Medians and Markdown tables. */

/** Returns the median of some numbers. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  return ((sorted[Math.ceil(half) - 1] ?? NaN) +
    (sorted[Math.floor(half)] ?? NaN)) / 2;
}

/** Returns the median of the ratios of numbers that were measured in turn. */
export function medianRatio(
  numbers: readonly number[],
  others: readonly number[],
): number {
  return median(numbers.map((number, i) => number / (others[i] ?? NaN)));
}

/** Prints a table in Markdown; the first row is its header. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const [header = [], ...body] = rows;
  for (const row of [header, header.map(() => "---"), ...body]) {
    console.log(`| ${row.join(" | ")} |`);
  }
}
