/** Returns milliseconds since some moment; never decreases. Tests pass their own clock. */
export type Clock = () => number;

/** The real time. */
export const SYSTEM_CLOCK: Clock = () => performance.now();
