import config from "../deno.json" with { type: "json" };

/** The version of the program. */
export const VERSION = config.version;

/** The oldest version of Deno without known faults that concern the service. */
export const DENO_OLDEST = "2.9.6";
