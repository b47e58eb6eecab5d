/**
 * Every bound of the service, each with its reason. Units stand in the names.
 */

/**
 * The largest body. A name that fills it takes at most two bytes a character
 * in the store, so the value stays below Deno KV's 65,536 bytes.
 */
export const BODY_BYTES_MAX = 32 * 1024;

/** The deepest nesting of arrays and objects, the outermost being level 1. */
export const JSON_DEPTH_MAX = 64;

/** The lowest and the highest int64 (OpenAPI format registry, `int64`). */
export const ID_MIN = -(2n ** 63n);
export const ID_MAX = 2n ** 63n - 1n;
