import { formatNewPlant, type NewPlant } from "../plant/plant.ts";

/** The lines of some plants of a store. */
export interface ExportPage {
  /** One NewPlant per line. */
  readonly text: string;
  /** Number of lines. */
  readonly plants: number;
  /** Names the entries that are not plants of this service. */
  readonly foreign: readonly string[];
}

/** Formats the entries of a store, page by page, for an export. */
export async function* exportPages(
  pages: AsyncIterable<readonly (NewPlant | string)[]>,
): AsyncGenerator<ExportPage> {
  for await (const page of pages) {
    const lines: string[] = [];
    const foreign: string[] = [];
    for (const entry of page) {
      const isForeign = typeof entry === "string";
      const line = isForeign ? undefined : formatNewPlant(entry);
      if (line !== undefined) lines.push(`${line}\n`);
      else foreign.push(isForeign ? entry : `id ${entry.id}`);
    }
    yield { text: lines.join(""), plants: lines.length, foreign };
  }
}
