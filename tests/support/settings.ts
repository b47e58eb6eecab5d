import { type Config, Settings } from "../../src/config/settings.ts";

/** A value that no message may contain. */
export const SECRET = "secret";

/** Returns settings from flags, without their dashes, and variables. */
export function settings(
  flags: Record<string, string> = {},
  variables: Record<string, string> = {},
): Settings {
  return new Settings(flags, (name) => variables[name]);
}

/** Reads the configuration of the service from flags and variables. */
export function readConfig(
  flags: Record<string, string> = {},
  variables: Record<string, string> = {},
): Config {
  return settings(flags, variables).config();
}
