/** What the schedules of a simulation reached, to show that they test it. */
export class Seen {
  readonly counts = new Map<string, number>();
  batchPlantsMax = 0;

  add(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }
}
