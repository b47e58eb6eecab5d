/** The API reference for people: a page whose tables derive from the API. */
import { hash } from "node:crypto";
import type { ApiError } from "../errors.ts";
import {
  API_TITLE,
  API_VERSION,
  AUTHENTICATION,
  CREATED,
  ERROR,
  ERRORS_BY_STATUS,
  exampleMessage,
  INTRODUCTION,
  type Limit,
  LIMITS,
  type ObjectSchema,
  PLANT,
  PLANT_ID,
  REFUSING,
  REPEATING,
} from "./api.ts";
import css from "./page.css" with { type: "text" };
import template from "./page.html" with { type: "text" };
import script from "./page.js" with { type: "text" };
import { curlBeforeBody, samples } from "./samples.ts";

/** The page as it is served. */
export interface Page {
  readonly html: string;
  readonly headers: Readonly<Record<string, string>>;
}

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

/** Returns the members of schemas, in order. */
function membersOf(schemas: readonly ObjectSchema[]) {
  return schemas.flatMap(({ properties, required }) =>
    Object.entries(properties).map(([name, schema]) => ({
      name,
      schema,
      isRequired: required.includes(name),
    }))
  );
}

/** @param rows in one `tbody` or several */
function renderTable(name: string, columns: readonly string[], rows: string) {
  const head = columns.map((column) => `<th scope="col">${column}</th>`);
  return `<table class="${name}">
<thead class="soft"><tr>${head.join("")}</tr></thead>
${rows}
</table>`;
}

function membersTable(...schemas: readonly ObjectSchema[]): string {
  const rows = membersOf(schemas).map(({ name, schema, isRequired }) => {
    const { type, format, description, minimum, maximum } = schema;
    const kind = format === undefined ? type : `${type} (${format})`;
    const bounds = minimum === undefined || maximum === undefined
      ? ""
      : `<span class="note soft"><code>${minimum}</code> to <code>${maximum}</code></span>`;
    return `<tr>
  <th scope="row"><code>${name}</code></th>
  <td class="soft">${kind}, ${isRequired ? "required" : "optional"}</td>
  <td class="wide">${toHtml(description)}${bounds}</td>
</tr>`;
  });
  const columns = ["Member", "Type", "Meaning"];
  return renderTable("members", columns, `<tbody>${rows.join("\n")}</tbody>`);
}

/** Renders the inputs from which the script builds the body. */
function memberInputs(...schemas: readonly ObjectSchema[]): string {
  return membersOf(schemas).map(({ name, schema, isRequired }) =>
    `<div class="field">
  <label for="${name}">${name}${isRequired ? "" : " (optional)"}</label>
  <input id="${name}" data-type="${schema.type}"${
      isRequired ? "" : " data-optional"
    } autocomplete="off" autocapitalize="none" spellcheck="false" aria-describedby="${name}-problem ${name}-hint">
  <span class="note problem" id="${name}-problem"></span>
  <span class="note soft" id="${name}-hint">${toHtml(schema.description)}</span>
</div>`
  ).join("\n");
}

/** @param statusCell the cell of the status, empty except in its first row */
function errorRow(apiError: ApiError, statusCell: string): string {
  const { error, when, remedy, headers = {} } = apiError;
  const sent = [
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    exampleMessage(apiError),
  ].map((line) => `<code class="note soft">${escapeHtml(line)}</code>`);
  return `<tr id="error-${error}">
  ${statusCell}
  <th scope="row" class="number"><code>${error}</code></th>
  <td class="wide">${toHtml(when)}${sent.join("")}</td>
  <td class="remedy wide">${toHtml(remedy)}</td>
</tr>`;
}

function repliesTable(): string {
  const groups = [...ERRORS_BY_STATUS].map(([status, errors]) => {
    const statusCell =
      `<th scope="rowgroup" rowspan="${errors.length}" class="status">${status}</th>`;
    const rows = errors.map((apiError, i) =>
      errorRow(apiError, i === 0 ? statusCell : "")
    );
    return `<tbody>\n${rows.join("\n")}\n</tbody>`;
  });
  return renderTable(
    "replies",
    ["Status", "error", "When, with headers and message", "What to do"],
    `<tbody>
<tr>
  <th scope="rowgroup" class="status">200</th>
  <td class="soft">none</td>
  <td class="wide">${toHtml(CREATED)}</td>
  <td class="remedy wide">Nothing.</td>
</tr>
</tbody>
${groups.join("\n")}`,
  );
}

function limitRow({ subject, bound, error }: Limit): string {
  const link = error === undefined
    ? "none"
    : `<a href="#error-${error}"><code>${error}</code></a>`;
  return `<tr>
  <th scope="row" class="wide">${toHtml(subject)}</th>
  <td class="wide">${toHtml(bound)}</td>
  <td class="number">${link}</td>
</tr>`;
}

function limitsTable(): string {
  const rows = LIMITS.map(limitRow).join("\n");
  const columns = ["Subject", "Bound", "error"];
  return renderTable("limits", columns, `<tbody>\n${rows}\n</tbody>`);
}

/** @param id the id of its code, to fill in by the script */
function figure(caption: string, code: string, id = ""): string {
  return `<figure>
<figcaption class="soft">${caption} <button type="button" class="copy">Copy<span class="unseen"> ${caption}</span></button></figcaption>
<pre tabindex="0" aria-label="${caption}"><code${id && ` id="${id}"`}>${
    escapeHtml(code)
  }</code></pre>
</figure>`;
}

/** Returns a content security policy source that allows inline code. */
function hashSource(code: string): string {
  return `'sha256-${hash("sha256", code, "base64")}'`;
}

/** Renders the page for a base URL without a trailing slash. */
export function renderPage(baseUrl: string): Page {
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
    samples: Object.entries(samples(baseUrl))
      .map(([language, code]) => figure(language, code)).join("\n"),
    curl_before_body: escapeHtml(curlBeforeBody(baseUrl)),
    inputs: memberInputs(PLANT_ID, PLANT),
    exchange: [
      figure("Reply", "", "reply"),
      figure("Request", "", "sent"),
      figure("The same call as curl", "", "curl"),
    ].join("\n"),
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
