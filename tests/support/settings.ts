import assert from "node:assert/strict";
import { type Config, Settings } from "../../src/config/settings.ts";
import { EXIT_CONFIGURATION, OperatorError } from "../../src/operator_error.ts";

/** A value that no message may contain. */
export const SECRET = "secret";

/** Returns settings from flags, without their dashes, and variables. */
export function settings(
  flags: Record<string, string> = {},
  variables: Record<string, string> = {},
): Settings {
  return new Settings(flags, new Map(Object.entries(variables)));
}

/** Reads the configuration of the service from flags and variables. */
export function readConfig(
  flags: Record<string, string> = {},
  variables: Record<string, string> = {},
): Config {
  return settings(flags, variables).config();
}

/** Returns a check that an error is one line about the configuration. */
export function configError(
  message: string | RegExp,
): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof OperatorError, String(error));
    assert.equal(error.exitStatus, EXIT_CONFIGURATION);
    if (typeof message === "string") assert.equal(error.message, message);
    else assert.match(error.message, message);
    assert.ok(!error.message.includes("\n"), error.message);
    assert.ok(!error.message.includes(SECRET), error.message);
    return true;
  };
}

/** Asserts that the service does not start with flags and variables. */
export function assertRefused(
  flags: Record<string, string>,
  variables: Record<string, string>,
  message: string | RegExp,
): void {
  assert.throws(() => readConfig(flags, variables), configError(message));
}
