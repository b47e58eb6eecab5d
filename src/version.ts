import config from "../deno.json" with { type: "json" };

/** The version of the program, from its one source. */
export const VERSION = config.version;
