/**
 * The bounds that relate several files, with their reasons; the others are beside
 * the code that they bound. The names contain the units.
 */

/**
 * Maximum size of a request body. The store needs at most two bytes for each
 * byte of a name, so the value fits Deno KV's limit of 65,536 bytes. The
 * configuration of nginx in src/deploy/ repeats it.
 */
export const BODY_BYTES_MAX = 32 * 1024;

/**
 * Maximum size of a line of an import. An export must fit. Its line of a plant can
 * be longer than the body that created the plant: a body can write an id as 1e18,
 * an export writes 19 digits. The rest is for a byte order mark and a CR.
 */
export const LINE_BYTES_MAX = BODY_BYTES_MAX + 20;

/**
 * Maximum creates that are running, from the header to the reply. Their bodies take
 * at most 128 MiB, and the process at most 1 GiB. Bodies that were refused come on
 * top: see http/body.ts. Two cores complete so many creates in a fifth of a second.
 * A lower bound would refuse clients that all start at once, and those that wait
 * while a disk pauses.
 */
export const CREATES_RUNNING_MAX = 4_096;

/**
 * Time for a body to arrive: 32 KiB at the speed of a slow modem. The
 * configuration of nginx repeats it. Clients wait longer, 20 s.
 */
export const BODY_MS_MAX = 10_000;

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
 * Time for a create to reach an outcome, and for a removal: many times the longest
 * pause of a healthy disk, and below the usual time-outs of clients.
 */
export const COMMIT_MS_MAX = 5_000;

/**
 * Maximum characters of the plants in one commit. Deno KV allows 819,200 bytes in
 * one write: two a character, and up to 128 for the three keys of a plant.
 */
export const COMMIT_CHARS_MAX = 400_000;

/** Time for a probe write, and the minimum interval between two of them. */
export const PROBE_MS = 1_000;

/**
 * Minimum time from the last failed write to one that counts as a recovery: some
 * writes may fail while others succeed, as on a disk that is nearly full.
 */
export const RECOVERY_MS_MIN = 2_000;

/**
 * The `Retry-After` of a busy service, the shortest that the header can state. The
 * creates that are running take less: see {@link CREATES_RUNNING_MAX}.
 */
export const BUSY_RETRY_MS = 1_000;

/**
 * The `Retry-After` of a service that stops. Running requests finish earlier: the
 * deadline of a create is {@link COMMIT_MS_MAX}.
 */
export const STOP_RETRY_MS = 10_000;

/** Time for the last replies to leave when the service stops. */
export const REPLIES_MS_MAX = 1_000;

/**
 * Interval between two sweeps, which end what has reached its deadline. One timer
 * for all requests costs next to nothing. A deadline takes effect at most this
 * much late.
 */
export const SWEEP_MS = 250;

/**
 * Maximum accepted tokens; a rotation needs two. A request compares its token
 * with all of them, and 100 take about as long as the rest of a create.
 */
export const TOKENS_MAX = 100;

/** Time for the service to answer a healthcheck, more than a probe takes. */
export const HEALTHCHECK_MS_MAX = 3_000;
