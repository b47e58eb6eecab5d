/** The API reference for people: a page whose tables derive from the API. */
import { hash } from "node:crypto";
import type { ApiError } from "../errors.ts";
import {
  API_TITLE,
  API_VERSION,
  AUTHENTICATION,
  CREATED,
  ERROR,
  exampleMessage,
  INTRODUCTION,
  type Limit,
  LIMITS,
  type Member,
  PLANT,
  PLANT_ID,
  REFUSALS,
  type Refusals,
  REFUSING,
  REPEATING,
  SUMMARY,
} from "./api.ts";
import css from "./page.css" with { type: "text" };
import template from "./page.html" with { type: "text" };
import script from "./page.js" with { type: "text" };
import { samples } from "./samples.ts";

/** The page as it is served. */
export interface Page {
  readonly html: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Elements of page.html that are replaced with inline code. */
const STYLE_LINK = '<link rel="stylesheet" href="page.css">';
const SCRIPT_LINK = '<script type="module" src="page.js"></script>';

const NEW_PLANT = [PLANT_ID, ...PLANT];

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

/** Converts text with code in backticks to HTML. */
function toHtml(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

function table(name: string, columns: readonly string[], bodies: string) {
  const head = columns.map((column) => `<th scope="col">${column}</th>`);
  return `<table class="${name}">
<thead><tr>${head.join("")}</tr></thead>
${bodies}
</table>`;
}

function membersTable(members: readonly Member[]): string {
  const rows = members.map((member) => {
    const { name, type, format, description, minimum, maximum } = member;
    const kind = format === undefined ? type : `${type} (${format})`;
    const bounds = minimum === undefined || maximum === undefined
      ? ""
      : `<span class="bounds soft"><code>${minimum}</code> to <code>${maximum}</code></span>`;
    return `<tr>
  <th scope="row"><code>${name}</code></th>
  <td class="soft">${kind}, ${member.isRequired ? "required" : "optional"}</td>
  <td class="wide">${toHtml(description)}${bounds}</td>
</tr>`;
  });
  const body = `<tbody>\n${rows.join("\n")}\n</tbody>`;
  return table("fields", ["Member", "Type", "Meaning"], body);
}

function inputs(members: readonly Member[]): string {
  return members.map(({ name, description, isRequired }) =>
    `<div class="field">
  <label for="${name}">${name}${isRequired ? "" : " (optional)"}</label>
  <input id="${name}" type="text" autocomplete="off" autocapitalize="none" spellcheck="false" aria-describedby="${name}-problem ${name}-hint">
  <span class="problem" id="${name}-problem"></span>
  <span class="hint soft" id="${name}-hint">${toHtml(description)}</span>
</div>`
  ).join("\n");
}

/** @param statusCell the cell of the status, empty except in its first row */
function replyRow(apiError: ApiError, statusCell: string): string {
  const { error, when, remedy, headers = {} } = apiError;
  const sent = [
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    exampleMessage(apiError),
  ].map((line) => `<code class="sent soft">${escapeHtml(line)}</code>`).join(
    "",
  );
  return `<tr id="error-${error}">
  ${statusCell}
  <th scope="row" class="number"><code>${error}</code></th>
  <td class="when">${toHtml(when)}${sent}</td>
  <td class="remedy">${toHtml(remedy)}</td>
</tr>`;
}

function replyGroup({ status, errors }: Refusals): string {
  const statusCell =
    `<th scope="rowgroup" rowspan="${errors.length}" class="status">${status}</th>`;
  const rows = errors.map((apiError, i) =>
    replyRow(apiError, i === 0 ? statusCell : "")
  );
  return `<tbody>\n${rows.join("\n")}\n</tbody>`;
}

function repliesTable(): string {
  return table(
    "replies",
    ["Status", "error", "When, with headers and message", "What to do"],
    `<tbody>
<tr>
  <th scope="rowgroup" class="status">200</th>
  <td class="number soft">none</td>
  <td class="when">${toHtml(CREATED)}</td>
  <td class="remedy">Nothing.</td>
</tr>
</tbody>
${REFUSALS.map(replyGroup).join("\n")}`,
  );
}

function limitRow({ subject, bound, error }: Limit): string {
  const link = error === undefined
    ? "none"
    : `<a href="#error-${error}"><code>${error}</code></a>`;
  return `<tr>
  <th scope="row">${toHtml(subject)}</th>
  <td class="wide">${toHtml(bound)}</td>
  <td class="wide number">${link}</td>
</tr>`;
}

function limitsTable(): string {
  const body = `<tbody>\n${LIMITS.map(limitRow).join("\n")}\n</tbody>`;
  return table("limits", ["Subject", "Bound", "error"], body);
}

function sampleFigures(baseUrl: string): string {
  return Object.entries(samples(baseUrl)).map(([language, code]) =>
    `<figure>
<figcaption>${language} <button type="button" class="copy">Copy<span class="unseen"> the ${language} call</span></button></figcaption>
<pre tabindex="0" aria-label="${language}"><code>${
      escapeHtml(code)
    }</code></pre>
</figure>`
  ).join("\n");
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
    summary: escapeHtml(SUMMARY),
    introduction: escapeHtml(INTRODUCTION),
    plants_url: escapeHtml(`${baseUrl}/plants`),
    description_path: escapeHtml(descriptionUrl.pathname),
    authentication: toHtml(AUTHENTICATION),
    new_plant_members: membersTable(NEW_PLANT),
    repeating: toHtml(REPEATING),
    samples: sampleFigures(baseUrl),
    inputs: inputs(NEW_PLANT),
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
