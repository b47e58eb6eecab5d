/**
 * Returns milliseconds since any moment; never decreases. A parameter where tests
 * provide their own.
 */
export type Clock = () => number;

/** The real time. */
export const SYSTEM_CLOCK: Clock = () => performance.now();
