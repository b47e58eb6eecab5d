/**
 * Every bound of the service, each with its reason. Units stand in the names.
 */

/**
 * The largest body. A name that fills it takes at most two bytes a character
 * in the store, so the value stays below Deno KV's 65,536 bytes.
 */
export const BODY_BYTES_MAX = 32 * 1024;

/**
 * How much of a refused body is read before its connection is ended: a client
 * that is still sending then does not see the reply.
 */
export const BODY_DISCARD_BYTES_MAX = 1024 * 1024;

/** How long a body may take to arrive: 32 KiB at the pace of a slow modem. */
export const BODY_MS_MAX = 10_000;

/** The deepest nesting of arrays and objects, the outermost being level 1. */
export const JSON_DEPTH_MAX = 64;

/** The lowest and the highest int64 (OpenAPI format registry, `int64`). */
export const ID_MIN = -(2n ** 63n);
export const ID_MAX = 2n ** 63n - 1n;

/**
 * How long a create may wait for its commit, in the queue and in the store.
 * A hundred times the slowest commit of a healthy disk; clients wait longer.
 */
export const COMMIT_MS_MAX = 5_000;

/**
 * Creates that may wait at one time. At 32 KiB each they take 640 MB at the
 * worst, and 2 MB as they usually are; at full speed they are gone in 0.25 s.
 */
export const CREATES_WAITING_MAX = 10_000;

/** The most plants in one commit to a file: Deno KV takes 100 checks. */
export const COMMIT_PLANTS_MAX_FILE = 100;

/** The most plants in one commit to a KV Connect server: it takes 10 checks. */
export const COMMIT_PLANTS_MAX_REMOTE = 10;

/**
 * The most bytes in one commit, as `commitBytesMax` counts them: Deno KV
 * takes 819,200.
 */
export const COMMIT_BYTES_MAX = 800_000;

/**
 * Commits under way at one time, to a file and to a KV Connect server. Both
 * write with one thread, so more of them only take turns: three to a file
 * halve the speed at random ids, 32 to a server cost a quarter.
 */
export const COMMITS_IN_FLIGHT_MAX_FILE = 2;
export const COMMITS_IN_FLIGHT_MAX_REMOTE = 16;

/** How many keys one read of the store may name: Deno KV's `getMany` limit. */
export const READ_KEYS_MAX = 10;

/** How many keys one page of a whole store has at the most: Deno KV's limit. */
export const LIST_KEYS_MAX = 1_000;

/** How many it has at first, and of the largest plants. */
export const LIST_KEYS_MIN = 20;

/** How much text one page has, more or less; this bounds an export's memory. */
export const LIST_CHARACTERS = 512 * 1024;

/** How long to wait for such a page; a KV Connect server may never answer. */
export const LIST_MS_MAX = 10_000;

/** How long the start waits for the store to open and take a first write. */
export const STORE_OPEN_MS_MAX = 9_000;

/** How long the store may take to answer the read that shows it is ready. */
export const READY_MS_MAX = 1_000;

/** How long a stop waits for running creates: two commits that time out. */
export const DRAIN_MS_MAX = 10_000;

/** How long a stop waits for the last replies to leave: a slow round trip. */
export const REPLIES_MS_MAX = 1_000;

/**
 * How often deadlines are looked at. One timer for all requests costs next to
 * nothing; a deadline is met late by this much at the most.
 */
export const SWEEP_MS = 250;

/** How long the service tries to listen again after its listener died. */
export const LISTEN_AGAIN_MS_MAX = 60_000;

/**
 * What an import has waiting for the store: enough for full commits, and few
 * enough that lines of any size take little memory.
 */
export const IMPORT_CREATES_WAITING_MAX = 2_000;
export const IMPORT_CHARACTERS_WAITING_MAX = 4 * 1024 * 1024;

/** How long the program waits for its own service to say that it is ready. */
export const HEALTHCHECK_MS_MAX = 3_000;
