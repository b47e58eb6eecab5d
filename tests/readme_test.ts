/** What the documents and the files for operators have from the source. */
import assert from "node:assert/strict";
import project from "../deno.json" with { type: "json" };
import { API_ERRORS } from "../src/api_errors.ts";
import { ALL_SETTINGS } from "../src/config/settings.ts";
import { BODY_BYTES_MAX, SWEEP_MS, WRITE_MS_MAX } from "../src/limits.ts";
import { PLANT, PLANT_ID } from "../src/reference/openapi.ts";
import { renderPage } from "../src/reference/page.ts";
import { samples } from "../src/reference/samples.ts";
import { filesIn, read, ROOT } from "./support/readme.ts";
import { ROUTES } from "./support/service.ts";

const README = read("README.md");

/** Returns the rows of a table in the README, by its header. */
function tableRows(header: readonly string[]): string[][] {
  const tables = README.split("\n\n").map((block) =>
    block.split("\n").map((line) =>
      line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim())
    )
  );
  const table = tables.find(([first]) => `${first}` === `${header}`);
  assert.ok(
    table !== undefined,
    `README.md has no table with the columns ${header.join(", ")}`,
  );
  return table.slice(2);
}

/** Asserts that the README has a text. */
function assertHas(text: string): void {
  assert.ok(README.includes(text), `README.md does not have: ${text}`);
}

Deno.test("the README has every error of the API as src/api_errors.ts has it", () => {
  assert.deepEqual(
    tableRows(["error", "meaning"]),
    Object.values(API_ERRORS).map(({ error, when }) => [`${error}`, when]),
  );
});

Deno.test("the README names every member of a NewPlant", () => {
  for (const { properties } of [PLANT_ID, PLANT]) {
    for (const name in properties) assertHas(`\`${name}\``);
  }
});

Deno.test("the README names every path of the service, and whether it needs a token", () => {
  // The page has two paths: the base URL with and without a slash.
  const routes = ROUTES.filter(({ path }) => path !== "");
  const tokens = new Map<string, string>();
  for (const { path, methods, needsToken } of routes) {
    assertHas(methods.includes("GET") ? `\`${path}\`` : `\`POST ${path}\``);
    tokens.set(`\`${path}\``, needsToken ? "yes" : "no");
  }
  for (const [path = "", , token] of tableRows(["path", "reply", "token"])) {
    assert.equal(token, tokens.get(path), `the token of ${path}`);
  }
});

Deno.test("the README has every setting as src/config/settings.ts has it", () => {
  const code = (text = "") => text === "" ? "" : `\`${text}\``;
  const rows = tableRows(["flag", "environment", "default", "meaning"]);
  assert.deepEqual(
    rows,
    ALL_SETTINGS.map(({ flag, placeholder, variable, help, ...setting }) => [
      flag === undefined
        ? ""
        : code(`--${flag} ${placeholder}`).replaceAll("|", "\\|"),
      code(variable),
      code(setting.default),
      help,
    ]),
  );
});

Deno.test("the README has the sample in curl", () => {
  const { curl = "" } = samples("http://127.0.0.1:8000");
  assertHas(curl.replaceAll(/^/gm, "    "));
});

const NGINX = read("src/deploy/nginx.conf").replaceAll(/ +/g, " ");

Deno.test("nginx has the limit of the body, waits for each reply, and announces the pause after a store that failed", () => {
  const after = API_ERRORS.storeFailed.headers?.["Retry-After"];
  for (
    const line of [
      `client_max_body_size ${BODY_BYTES_MAX / 1024}k;`,
      `client_body_buffer_size ${BODY_BYTES_MAX / 1024}k;`,
      `"message":"${API_ERRORS.bodyTooLarge.message("")}"`,
      `add_header Retry-After ${after} always;`,
    ]
  ) assert.ok(NGINX.includes(line), line);
  const [, readS] = /proxy_read_timeout (\d+)s;/.exec(NGINX) ?? [];
  assert.ok(Number(readS) * 1000 > WRITE_MS_MAX + SWEEP_MS);
});

Deno.test("the page names every error that nginx answers itself", () => {
  const { html } = renderPage("http://127.0.0.1:8000");
  const errors = NGINX.matchAll(/"error":(\d+)/g);
  const numbers = Array.from(errors, ([, error = ""]) => error);
  assert.notDeepEqual(numbers, []);
  for (const number of numbers) {
    assert.ok(html.includes(number), `the page does not have ${number}`);
  }
});

Deno.test("the binary has the permissions of the serve task, with which the tests run the program", () => {
  const { serve, compile } = project.tasks;
  const permissions = ({ command }: typeof serve) =>
    command.match(/--(allow|deny)-\S+/g) ?? [];
  assert.ok(permissions(serve).length > 0);
  assert.deepEqual(permissions(compile), permissions(serve));
});

/** Returns the anchors of the headings in a document, as GitHub makes them. */
function anchorsIn(document: string): string[] {
  const headings = read(document).matchAll(/^#+ (.*)$/gm);
  return Array.from(
    headings,
    ([, heading = ""]) =>
      heading.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
  );
}

Deno.test("every relative link of the documents leads to a file, and its anchor to a heading", () => {
  const documents = [...filesIn("src/"), ...filesIn("tests/")]
    .filter((path) => path.endsWith(".md"));
  let checked = 0;
  for (const document of ["README.md", ...documents]) {
    const links = read(document).matchAll(/\]\(([^)#:]*)(?:#([^)]*))?\)/g);
    for (const [link, path = "", anchor] of links) {
      const target = new URL(path, new URL(document, ROOT));
      const info = Deno.statSync(target);
      assert.ok(info.isFile || info.isDirectory, `${document}: ${link}`);
      checked++;
      if (anchor === undefined) continue;
      assert.ok(
        anchorsIn(target.href).includes(anchor),
        `${document}: ${link}`,
      );
    }
  }
  assert.ok(checked > 50, `${checked} links`);
});
