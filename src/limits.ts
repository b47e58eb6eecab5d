/**
 * Every bound of the service, each with its reason. Units stand in the names.
 * `tests/limits_test.ts` asserts how the bounds relate to each other.
 */

/**
 * The largest request body. A name that fills it takes at most two bytes a
 * character in the store, so the value fits {@link KV_VALUE_BYTES_MAX}.
 */
export const BODY_BYTES_MAX = 32 * 1024;

/**
 * Bytes of all bodies held at one time: arriving, and of creates that wait. An
 * ordinary body has 60 bytes, so only large bodies meet this bound before
 * {@link CREATES_WAITING_MAX}.
 */
export const BODIES_HELD_BYTES_MAX = 64 * 1024 * 1024;

/**
 * Bytes to read of a refused body before ending its connection. A client that
 * is still sending when the connection ends does not see the reply.
 */
export const BODY_DISCARD_BYTES_MAX = 1024 * 1024;

/** Time for a body to arrive: 32 KiB at the speed of a slow modem. */
export const BODY_MS_MAX = 10_000;

/** Deepest nesting of arrays and objects; the outermost one is level 1. */
export const JSON_DEPTH_MAX = 64;

/** The range of int64 (OpenAPI format registry, `int64`). */
export const ID_MIN = -(2n ** 63n);
export const ID_MAX = 2n ** 63n - 1n;

/** Longest part of a request that a message quotes, in UTF-16 code units. */
export const QUOTE_CHARS_MAX = 60;

/**
 * Time for a create to reach an outcome, from the queue to the commit. It is a
 * hundred times the slowest commit of a healthy disk, and below the time-outs
 * that clients commonly have.
 */
export const COMMIT_MS_MAX = 5_000;

/** Creates that may wait at one time: a quarter second of work at full speed. */
export const CREATES_WAITING_MAX = 10_000;

/**
 * How long the oldest queued create may have waited before new creates are
 * refused. Above the pauses of a healthy disk (300 ms), and low enough that a
 * backlog is gone before its clients give up.
 */
export const QUEUE_MS_MAX = 500;

/** Deno KV's own limits for one atomic write and for one value. */
export const KV_WRITE_BYTES_MAX = 819_200;
export const KV_VALUE_BYTES_MAX = 65_536;

/** Most plants in one commit to a file: Deno KV allows 100 checks. */
export const COMMIT_PLANTS_MAX_FILE = 100;

/** Most plants in one commit to a KV Connect server: it allows 10 checks. */
export const COMMIT_PLANTS_MAX_SERVER = 10;

/** Most bytes in one commit, as `commitBytes` estimates them from above. */
export const COMMIT_BYTES_MAX = 800_000;

/**
 * Commits in flight at one time. Both kinds of store write with one thread, so
 * more commits only take turns: three to a file halve the speed of random ids,
 * 32 to a server cost a quarter.
 */
export const COMMITS_IN_FLIGHT_MAX_FILE = 2;
export const COMMITS_IN_FLIGHT_MAX_SERVER = 16;

/** Maximum delay before retrying a write while another process holds the lock. */
export const LOCK_RETRY_MS_MAX = 20;

/**
 * Plants to remember after their commit, so that a retry needs no store: more
 * than a second of creates at full speed. A power of 2.
 */
export const RECENT_PLANTS_MAX = 65_536;

/**
 * Longest name and tag together to remember, in UTF-16 code units: longer
 * plants are rare. All remembered plants take 9 MiB.
 */
export const RECENT_CHARS_MAX = 64;

/** Keys in one read: Deno KV's limit for `getMany`. */
export const READ_KEYS_MAX = 10;

/** Keys in one page of a listing: Deno KV's limit. */
export const LIST_KEYS_MAX = 1_000;

/** Keys in the first page of a listing, and in pages of the largest plants. */
export const LIST_KEYS_MIN = 20;

/** Approximate text in one page of a listing; bounds the memory of an export. */
export const LIST_CHARS = 512 * 1024;

/** Time for one page of a listing; a KV Connect server may never answer. */
export const LIST_MS_MAX = 10_000;

/** Time for the store to open and to accept a first write. */
export const STORE_OPEN_MS_MAX = 9_000;

/** Time for the probe write of a health check, and the least between two. */
export const PROBE_MS = 1_000;

/**
 * How long after a failed create a probe write alone cannot report that the
 * store has recovered: the probe is small and may succeed where creates fail.
 */
export const RECOVERY_MS_MIN = 2_000;

/**
 * Age at which the last check of the database file is too old for answering a
 * retry from memory. Checking takes a tenth of the time of a create.
 */
export const FILE_CHECK_MS_MAX = 1;

/** Time for running requests to finish when the service stops. */
export const DRAIN_MS_MAX = 10_000;

/** Time for the last replies to leave when the service stops. */
export const REPLIES_MS_MAX = 1_000;

/**
 * Interval between two checks of all deadlines. One timer for all requests
 * costs next to nothing; a deadline is at most this much late.
 */
export const SWEEP_MS = 250;

/** Time to try to listen again after the runtime stopped listening. */
export const LISTEN_AGAIN_MS_MAX = 60_000;

/** Most creates that an import has waiting: enough for full commits. */
export const IMPORT_CREATES_WAITING_MAX = 2_000;

/** Most text of these creates, which bounds the memory of an import. */
export const IMPORT_CHARS_WAITING_MAX = 4 * 1024 * 1024;

/** Largest token or PEM file: thousands of tokens. */
export const TOKEN_FILE_BYTES_MAX = 1024 * 1024;

/** Time to reload the token file, which may be on a slow file system. */
export const TOKEN_FILE_MS_MAX = 5_000;

/** Time for the service to answer `plant-store healthcheck`. */
export const HEALTHCHECK_MS_MAX = 3_000;
