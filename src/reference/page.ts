/** The API reference for people: a page whose tables derive from the API. */
import { hash } from "node:crypto";
import { API_ERRORS, statusOf } from "../api_errors.ts";
import {
  API_TITLE,
  API_VERSION,
  AUTHENTICATION,
  CREATED,
  ERROR,
  exampleMessage,
  INTRODUCTION,
  LARGE_IDS,
  LIMITS,
  MANY_CREATES,
  type MemberSchema,
  type ObjectSchema,
  PLANT,
  PLANT_ID,
  REFUSING,
  REPEATING,
  REPLY_S_MAX,
} from "./api.ts";
import css from "./page.css" with { type: "text" };
import template from "./page.html" with { type: "text" };
import script from "./page.js" with { type: "text" };
import { curlBeforeBody, samples } from "./samples.ts";

/** Elements of page.html that are replaced with inline code. */
const STYLE_LINK = '<link rel="stylesheet" href="page.css">';
const SCRIPT_LINK = '<script type="module" src="page.js"></script>';

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** Converts text with code in backticks to HTML. */
function toHtml(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

/**
 * The rules for the input of a required member, as attributes. An empty name is
 * valid, but in a form it is a mistake, and the stored plant never changes.
 */
const INPUT_RULES = {
  string: "required",
  integer:
    'required pattern="\\s*-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+\\-]?[0-9]+)?\\s*" title="an integer, such as 42"',
};

/** Renders every member of schemas, in order. */
function renderMembers(
  schemas: readonly ObjectSchema[],
  render: (name: string, schema: MemberSchema, isRequired: boolean) => string,
): string {
  return schemas.flatMap(({ properties, required }) =>
    Object.entries(properties).map(([name, schema]) =>
      render(name, schema, required.includes(name))
    )
  ).join("\n");
}

function renderTable(columns: readonly string[], rows: string): string {
  const head = columns.map((column) => `<th scope="col">${column}</th>`);
  return `<table>
<thead class="soft"><tr>${head.join("")}</tr></thead>
<tbody>
${rows}
</tbody>
</table>`;
}

function membersTable(...schemas: readonly ObjectSchema[]): string {
  const rows = renderMembers(schemas, (name, schema, isRequired) => {
    const { type, format, description, minimum, maximum } = schema;
    const kind = format === undefined ? type : `${type} (${format})`;
    const bounds = minimum === undefined
      ? ""
      : `<br><span class="soft"><code>${minimum}</code> to <code>${maximum}</code></span>`;
    return `<tr>
  <th scope="row"><code>${name}</code></th>
  <td class="soft">${kind}, ${isRequired ? "required" : "optional"}</td>
  <td class="wide">${toHtml(description)}${bounds}</td>
</tr>`;
  });
  return renderTable(["Member", "Type", "Meaning"], rows);
}

/** Renders the inputs from which the script builds the body. */
function memberInputs(...schemas: readonly ObjectSchema[]): string {
  return renderMembers(schemas, (name, schema, isRequired) => {
    const { type, description, minimum, maximum } = schema;
    const attributes = isRequired ? INPUT_RULES[type] : "data-optional";
    const hint = minimum === undefined
      ? description
      : `An integer from ${minimum} to ${maximum}`;
    return `<div>
  <label for="member-${name}">${name}${isRequired ? "" : " (optional)"}</label>
  <input id="member-${name}" data-member="${name}" data-type="${type}" ${attributes} autocomplete="off" autocapitalize="none" spellcheck="false" aria-describedby="member-${name}-hint">
  <span class="note soft" id="member-${name}-hint">${toHtml(hint)}</span>
</div>`;
  });
}

function repliesTable(): string {
  const refused = Object.values(API_ERRORS).map((apiError) => {
    const { error, when, remedy, headers = {} } = apiError;
    const sent = [
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      exampleMessage(apiError),
    ].map((line) => `<code class="note soft">${escapeHtml(line)}</code>`);
    return `<tr id="error-${error}">
  <td class="status">${statusOf(error)}</td>
  <th scope="row"><code>${error}</code></th>
  <td class="wide">${toHtml(when)}${sent.join("")}</td>
  <td class="remedy wide">${toHtml(remedy)}</td>
</tr>`;
  });
  const rows = `<tr>
  <td class="status">200</td>
  <th scope="row" class="soft">none</th>
  <td class="wide">${toHtml(CREATED)}</td>
  <td class="remedy wide">Nothing.</td>
</tr>
${refused.join("\n")}`;
  const when = "When, with headers and message";
  return renderTable(["Status", "error", when, "What to do"], rows);
}

function limitsTable(): string {
  const rows = LIMITS.map(([subject, bound, apiError]) => {
    const link = apiError === undefined
      ? "none"
      : `<a href="#error-${apiError.error}"><code>${apiError.error}</code></a>`;
    return `<tr>
  <th scope="row" class="wide">${toHtml(subject)}</th>
  <td class="wide">${toHtml(bound)}</td>
  <td>${link}</td>
</tr>`;
  });
  return renderTable(["Subject", "Bound", "error"], rows.join("\n"));
}

/** Renders code, or its place for the script, with a button to copy it. */
function figure(label: string, id: string, code = "", caption = label): string {
  return `<figure>
<figcaption class="soft">${caption} <button type="button" class="copy" aria-label="Copy ${label}">Copy</button></figcaption>
<pre tabindex="0" aria-label="${label}"><code id="${id}">${
    escapeHtml(code)
  }</code></pre>
</figure>`;
}

/** Renders the samples, of which the browser shows one at a time. */
function renderSamples(baseUrl: string): string {
  return Object.entries(samples(baseUrl)).map(([language, code], i) =>
    `<details name="sample"${i === 0 ? " open" : ""}>
<summary>${language}</summary>
${figure(language, `sample-${language}`, code, "")}
</details>`
  ).join("\n");
}

/** Returns a content security policy source that allows inline code. */
function hashSource(code: string): string {
  return `'sha256-${hash("sha256", code, "base64")}'`;
}

/**
 * Renders the page for a base URL without a trailing slash, and returns it with
 * the headers of its reply.
 */
export function renderPage(baseUrl: string) {
  const descriptionUrl = new URL(`${baseUrl}/openapi.json`);
  const parts: Readonly<Record<string, string>> = {
    title: API_TITLE,
    version: API_VERSION,
    introduction: escapeHtml(INTRODUCTION),
    plants_url: escapeHtml(`${baseUrl}/plants`),
    description_path: escapeHtml(descriptionUrl.pathname),
    authentication: toHtml(AUTHENTICATION),
    new_plant_members: membersTable(PLANT_ID, PLANT),
    repeating: toHtml(REPEATING),
    many_creates: toHtml(MANY_CREATES),
    large_ids: toHtml(LARGE_IDS),
    samples: renderSamples(baseUrl),
    curl_before_body: escapeHtml(curlBeforeBody("PLANTS_URL")),
    reply_s_max: `${REPLY_S_MAX}`,
    inputs: memberInputs(PLANT_ID, PLANT),
    curl_figure: figure(
      "The same call as curl, after export ACCESS_TOKEN=…",
      "curl",
    ),
    refusing: toHtml(REFUSING),
    replies: repliesTable(),
    plant_members: membersTable(PLANT),
    error_members: membersTable(ERROR),
    limits: limitsTable(),
  };
  const html = template
    .replace(/\{\{ (\w+) \}\}/g, (_, name: string) => {
      const part = parts[name];
      if (part === undefined) {
        throw new Error(`page.html: unknown part ${name}`);
      }
      return part;
    })
    .replace(STYLE_LINK, () => `<style>${css}</style>`)
    .replace(SCRIPT_LINK, () => `<script type="module">${script}</script>`);
  const policy = [
    "default-src 'none'",
    `script-src ${hashSource(script)}`,
    `style-src ${hashSource(css)}`,
    "img-src data:",
    "connect-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    html,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy.join("; "),
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
    },
  };
}
