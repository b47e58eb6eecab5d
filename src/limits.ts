/**
 * The bounds that relate several files, with their reasons; the others are beside
 * the code that they bound. The names contain the units.
 */

/**
 * Maximum size of a request body. Its plant fits a value of Deno KV, which has at most
 * 65,536 bytes: 2 × (32,768 - 18) + 36. The shortest JSON around a name takes 18 bytes:
 * `{"id":0,"name":""}`. A byte of the name becomes at most 2 in the value, because V8
 * stores every character with two bytes if one of them needs it. 36 bytes are left for
 * what V8 stores around the name. The configuration of nginx in src/deploy/ repeats
 * this maximum.
 */
export const BODY_BYTES_MAX = 32 * 1024;

/**
 * Maximum creates that are running, from the header to the reply. Their bodies take at
 * most 128 MiB, and the process at most 1 GiB. Connections that stay silent, and bodies
 * that were refused, come on top of that: see src/README.md. Two cores complete so many
 * creates in a fifth of a second. A lower bound would refuse clients that all start at
 * once, and those that wait while a disk pauses.
 */
export const CREATES_RUNNING_MAX = 4_096;

/**
 * Time for a body to arrive: 32 KiB at the speed of a slow modem. Clients wait longer
 * for a reply, 20 s.
 */
export const BODY_MS_MAX = 10_000;

/**
 * Time for a body to arrive while no further create is admitted. Creates whose bodies
 * never arrive cannot keep the others out for longer. An ordinary body arrives with its
 * header.
 */
export const BUSY_BODY_MS_MAX = 1_000;

/**
 * Maximum nesting of arrays and objects, so that no text overflows the stack. The
 * outermost one is level 1.
 */
export const JSON_DEPTH_MAX = 64;

/** The range of int64 (OpenAPI format registry, `int64`). */
export const ID_MIN = -(2n ** 63n);
export const ID_MAX = 2n ** 63n - 1n;
export const ID_RANGE = `from ${ID_MIN} to ${ID_MAX}`;

/** Maximum length of a quotation, in UTF-16 code units: messages stay one line. */
export const QUOTE_CHARS_MAX = 60;

/**
 * Time for a create, a removal or a replacement to reach an outcome: many times the
 * longest pause of a healthy disk, and below the usual time-outs of clients.
 */
export const WRITE_MS_MAX = 5_000;

/**
 * Interval between two sweeps, which end what has reached its deadline. A deadline
 * takes effect at most this much late. Measured: a timer for each request costs 22 % of
 * the throughput, and the sweep 8 %.
 */
export const SWEEP_MS = 250;

/**
 * Time after which something that occurs again and again, such as a refusal, counts as
 * over. The log has its start and its end, and nothing in between.
 */
export const QUIET_MS = 5_000;
