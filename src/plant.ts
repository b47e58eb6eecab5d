/** A plant as it is stored and answered: the `Plant` of the API description. */
export interface Plant {
  readonly name: string;
  readonly tag?: string;
}

/** A plant and the id it is created under: `NewPlant`. */
export interface NewPlant {
  /** An int64, exact. */
  readonly id: bigint;
  readonly plant: Plant;
}
