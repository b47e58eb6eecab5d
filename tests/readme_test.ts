/** What the README and the files for operators state for people. */
import assert from "node:assert/strict";
import project from "../deno.json" with { type: "json" };
import { ALL_SETTINGS } from "../src/config/settings.ts";
import { API_ERRORS, RETRYABLE_STATUSES, statusOf } from "../src/api_errors.ts";
import { RequestHandler } from "../src/http/handler.ts";
import { BODY_BYTES_MAX, BODY_MS_MAX } from "../src/limits.ts";
import { PAUSES_S, PLANT, REPLY_S_MAX } from "../src/reference/api.ts";
import { samples } from "../src/reference/samples.ts";
import { DOCUMENTS, HANDBOOK, read, ROOT } from "./support/readme.ts";

/** Returns the rows of a table in the README, by its header. */
function tableRows(header: readonly string[]): string[][] {
  const tables = read("README.md").split("\n\n").map((block) =>
    block.split("\n").map((line) =>
      line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim())
    )
  );
  const table = tables.find(([first]) => `${first}` === `${header}`);
  assert.ok(table !== undefined, `no table ${header}`);
  return table.slice(2);
}

Deno.test("the README has every error of the API as src/api_errors.ts has it", () => {
  const header = ["status", "error", "meaning", "what to do"];
  const [success, ...errors] = tableRows(header);
  assert.equal(success?.[0], "200");
  assert.deepEqual(
    errors,
    Object.values(API_ERRORS).map(({ error, when, remedy }) => [
      ...[`${statusOf(error)}`, `${error}`, when, remedy],
    ]),
  );
});

Deno.test("the README names every path of the service, and those that need a token", () => {
  const text = read("README.md");
  const monitored = new Map(
    tableRows(["path", "reply", "token"]).map(([path, , token]) =>
      [path, token] as const
    ),
  );
  // The page has two paths: the base URL with and without a slash.
  const routes = RequestHandler.ROUTES.filter(({ path }) => path !== "");
  for (const { path, methods, needsToken } of routes) {
    if (methods.includes("POST")) assert.ok(text.includes(`\`POST ${path}\``));
    else assert.ok(text.includes(`\`${path}\``), path);
    const token = monitored.get(`\`${path}\``);
    if (token !== undefined) assert.equal(token, needsToken ? "yes" : "no");
  }
});

Deno.test("the README has every setting as src/config/settings.ts has it", () => {
  const code = (text = "") => text === "" ? "" : `\`${text}\``;
  assert.deepEqual(
    tableRows(["flag", "environment", "default", "meaning"]),
    ALL_SETTINGS.map((setting) => [
      code(setting.flag),
      code(setting.variable),
      code(setting.default),
      `${code(setting.placeholder)}: ${setting.help}`.replaceAll("|", "\\|"),
    ]),
  );
});

Deno.test("the README has the sample in curl, and its diagram the rule for retries", () => {
  const text = read("README.md");
  const { curl = "" } = samples("http://127.0.0.1:8000");
  assert.ok(text.includes(curl.replaceAll(/^/gm, "    ")), curl);
  for (
    const part of [
      `wait ${REPLY_S_MAX} s for its reply`,
      `"${RETRYABLE_STATUSES.join(", ")},<br>or none"`,
      `"1 to ${PAUSES_S.length}"| wait["wait ${
        PAUSES_S.join(", ")
      } s<br>(or Retry-After, if longer),`,
      `|${PAUSES_S.length + 1}| keep`,
      `an outage of up to ${PAUSES_S.reduce((sum, s) => sum + s)} s`,
    ]
  ) assert.ok(text.includes(part), part);
});

Deno.test("both READMEs name every member of a Plant where they say what is required, compared and stored", () => {
  const { required, properties } = PLANT;
  const names = Object.keys(properties);
  const [text = "", design = ""] = ["README.md", "src/README.md"].map((path) =>
    read(path).replaceAll(/\s+/g, " ")
  );
  const isRequired = (name: string) => required.includes(name);
  for (const name of names) {
    const absent = isRequired(name) ? "." : ", or absent.";
    assert.ok(text.includes(`\`${name}\` is a string${absent}`), name);
  }
  assert.ok(text.includes(` with another ${names.join(" or ")} is answered`));
  const stored = names.map((name) => isRequired(name) ? name : `${name}?`);
  assert.ok(design.includes(`value \`{ ${stored.join(", ")} }\``));
});

Deno.test("the configuration of nginx has the limits of the body, and the pause after a store that failed", () => {
  const text = read("src/deploy/nginx.conf");
  const after = API_ERRORS.storeFailed.headers?.["Retry-After"];
  for (
    const line of [
      `client_header_timeout ${BODY_MS_MAX / 1000}s;`,
      `client_body_timeout   ${BODY_MS_MAX / 1000}s;`,
      `client_max_body_size    ${BODY_BYTES_MAX / 1024}k;`,
      `client_body_buffer_size ${BODY_BYTES_MAX / 1024}k;`,
      `"message":"${API_ERRORS.bodyTooLarge.message("")}"`,
      `add_header Retry-After ${after} always;`,
    ]
  ) assert.ok(text.includes(line), line);
});

Deno.test("the README has every error that nginx answers itself", () => {
  const text = read("README.md");
  const errors = read("src/deploy/nginx.conf").matchAll(/"error":(\d+)/g);
  const numbers = [...errors].map(([, error = ""]) => error);
  assert.deepEqual(numbers, ["40000", "41301", "50303"]);
  for (const number of numbers) assert.ok(text.includes(number), number);
});

Deno.test("the handbook says when the units delete a backup", () => {
  const unit = read("src/deploy/plant-store-backup.service");
  const [, days] = /-mtime \+(\d+) -delete/.exec(unit) ?? [];
  assert.ok(read(HANDBOOK).includes(`those older than ${days} days`));
});

Deno.test("every size in the README is the limit of the body", () => {
  // The table of errors is compared above.
  const found = read("README.md").replace(/^\| 413 .*$/gm, "")
    .matchAll(/\b(\d+) ([KM])iB\b/g);
  const sizes = [...found].map(([, number, unit]) =>
    Number(number) * (unit === "K" ? 1024 : 1024 ** 2)
  );
  assert.deepEqual([...new Set(sizes)], [BODY_BYTES_MAX]);
});

Deno.test("the binary has the permissions of the serve task, with which the tests run the program", () => {
  const { serve, compile } = project.tasks;
  const permissions = ({ command }: typeof serve) =>
    command.match(/--(allow|deny)-\S+/g);
  assert.deepEqual(permissions(compile), permissions(serve));
});

Deno.test("every relative link of the documents leads to a file", () => {
  for (const document of DOCUMENTS) {
    const links = read(document).matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g);
    for (const [, path = ""] of links) {
      const target = new URL(path, new URL(document, ROOT));
      assert.ok(Deno.statSync(target), `${document}: ${path}`);
    }
  }
});
