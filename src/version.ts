import config from "../deno.json" with { type: "json" };

/** The version of the program. */
export const VERSION = config.version;
