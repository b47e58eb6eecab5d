/** A place in a text: line and column, counted in code points from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** Why a text is not a NewPlant; returned, never thrown. */
export class InvalidText {
  readonly kind: "not JSON" | "not a NewPlant";
  /** What was expected, and what was found. */
  readonly message: string;
  /** Where the text is not JSON, unless it is empty. */
  readonly position: Position | undefined;

  constructor(
    kind: InvalidText["kind"],
    message: string,
    position?: Position,
  ) {
    this.kind = kind;
    this.message = message;
    this.position = position;
  }
}
