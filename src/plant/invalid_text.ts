/** A place in a text: line and column, counted in code points from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** Why a text is not a NewPlant. The parsers return it. */
export class InvalidText {
  /**
   * @param message what was expected, and what was found
   * @param position where the text is not JSON
   */
  constructor(
    readonly kind: "not JSON" | "not a NewPlant",
    readonly message: string,
    readonly position?: Position,
  ) {}
}
