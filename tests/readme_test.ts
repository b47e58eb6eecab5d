import assert from "node:assert/strict";
import { ALL_SETTINGS } from "../src/config.ts";
import { BODY_BYTES_MAX } from "../src/limits.ts";
import { API_ERRORS, type ApiError, statusOf } from "../src/errors.ts";

const README = new URL("../README.md", import.meta.url);

/** Asserts that the README has a table with these rows, as they are. */
function assertTable(header: readonly string[], rows: string[][]): void {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  const table = line(header) + line(header.map(() => "---")) +
    rows.map(line).join("");
  const text = Deno.readTextFileSync(README);
  const start = text.indexOf(line(header));
  const end = text.indexOf("\n\n", start) + 1;
  assert.equal(text.slice(start, end), table);
}

function code(text = ""): string {
  return text === "" ? "" : `\`${text}\``;
}

Deno.test("the README has every error of the API as src/errors.ts has it", () => {
  const errors: ApiError[] = Object.values(API_ERRORS);
  assertTable(
    ["status", "error", "when", "what to do", "headers"],
    errors.map(({ error, when, remedy, headers = {} }) => [
      `${statusOf(error)}`,
      `${error}`,
      when,
      remedy,
      Object.keys(headers).map(code).join(", "),
    ]),
  );
});

Deno.test("the configuration of nginx in the README has the limit of the body", () => {
  const text = Deno.readTextFileSync(README);
  for (
    const line of [
      `client_max_body_size    ${BODY_BYTES_MAX / 1024}k;`,
      `client_body_buffer_size ${BODY_BYTES_MAX / 1024}k;`,
      `"message":"${API_ERRORS.bodyTooLarge.message("")}"`,
    ]
  ) assert.ok(text.includes(line), line);
});

Deno.test("the README has every setting as src/config.ts has it", () => {
  assertTable(
    ["flag", "environment", "default", "meaning"],
    ALL_SETTINGS.map((setting) => [
      code(setting.flag),
      code(setting.variable),
      code(setting.default),
      `${code(setting.placeholder)}: ${setting.help}`.replaceAll("|", "\\|"),
    ]),
  );
});
