/** Returns milliseconds since any moment; never decreases. Tests provide their own. */
export type Clock = () => number;

/** The real time. */
export const SYSTEM_CLOCK: Clock = () => performance.now();
