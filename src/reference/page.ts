/** The API reference for people: page.html, with what the code knows. */
import { hash } from "node:crypto";
import {
  API_ERRORS,
  type ErrorRow,
  exampleMessage,
  statusOf,
} from "../api_errors.ts";
import {
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  BUSY_BODY_MS_MAX,
  CREATES_RUNNING_MAX,
  ID_RANGE,
  JSON_DEPTH_MAX,
  WRITE_MS_MAX,
} from "../limits.ts";
import {
  API_VERSION,
  AUTHENTICATION,
  CREATED,
  LEAD,
  type ObjectSchema,
  PLANT,
  PLANT_ID,
} from "./openapi.ts";
import css from "./page.css" with { type: "text" };
import template from "./page.html" with { type: "text" };
import script from "./page.js" with { type: "text" };
import { samples } from "./samples.ts";

/** Elements of page.html that are replaced with inline code. */
const STYLE_LINK = '<link rel="stylesheet" href="page.css">';
const SCRIPT_LINK = '<script type="module" src="page.js"></script>';

const {
  bodyTimedOut,
  bodyTooLarge,
  busy,
  notANewPlant,
  notJson,
  notUtf8,
  storeFailed,
} = API_ERRORS;

/** A bound that clients can reach, with the error when it is exceeded, if any. */
type Limit = readonly [subject: string, bound: string, row?: ErrorRow];

const LIMITS: readonly Limit[] = [
  [
    "The id",
    `an integer ${ID_RANGE}, compared by value: 1.0 is 1, 1e2 is 100`,
    notANewPlant,
  ],
  [
    "Known members",
    "at most once each. Unknown members are ignored: to find a misspelled one, compare the reply with the plant that was sent",
    notANewPlant,
  ],
  [
    "Strings of known members",
    "any text without unpaired surrogates; it may be empty",
    notANewPlant,
  ],
  [
    "Encoding of the body",
    "UTF-8; a `charset` in the content type is ignored",
    notUtf8,
  ],
  ["Byte order mark before the JSON", "not allowed", notJson],
  ["Nesting of arrays and objects", `${JSON_DEPTH_MAX} levels`, notJson],
  ["Size of the body", `${BODY_BYTES_MAX / 1024} KiB`, bodyTooLarge],
  [
    "Time for the body to arrive",
    `${BODY_MS_MAX / 1000} s, or ${
      BUSY_BODY_MS_MAX / 1000
    } s while the service is busy`,
    bodyTimedOut,
  ],
  ["Time to store a plant", `${WRITE_MS_MAX / 1000} s`, storeFailed],
  [
    "Creates running at one time",
    CREATES_RUNNING_MAX.toLocaleString("en"),
    busy,
  ],
  [
    "Headers of a request",
    "at most 64 KiB and 128 lines. Beyond that, the request gets a 400 or 431 without a body, or no reply; the nginx of the handbook sends error 40000",
  ],
  [
    "`Connection: Upgrade`",
    "not supported in a create: with an `Upgrade` header beside it, the reply is a 400 without a body. Clients that ask for HTTP/2 over http send both: see Samples",
  ],
  [
    "Connections",
    "HTTP/1.1, or HTTP/2. Idle ones stay open. A client that half-closes its connection before the reply may get none, although the plant may be stored",
  ],
  [
    "Web pages",
    "those of other origins cannot call the service: no reply has CORS headers",
  ],
];

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** Converts text with code in backticks to HTML. */
function toHtml(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

function memberRows({ required, properties }: ObjectSchema): string {
  return Object.entries(properties).map(([name, { type, description }]) => {
    const need = required.includes(name) ? "required" : "optional";
    return `<tr>
  <th scope="row"><code>${name}</code></th>
  <td class="soft">${type}, ${need}</td>
  <td class="wide">${toHtml(description)}</td>
</tr>`;
  }).join("\n");
}

/** Renders the inputs of the members of a Plant. Each member may be empty. */
function plantInputs(): string {
  return Object.keys(PLANT.properties).map((name) => {
    const [hint, attribute] = PLANT.required.includes(name)
      ? ["", ""]
      : [" (optional)", "data-optional"];
    return `<div>
  <label for="member-${name}">${name}${hint}</label>
  <input id="member-${name}" data-member="${name}" autocomplete="off" ${attribute}>
</div>`;
  }).join("\n");
}

function refusalRow(row: ErrorRow): string {
  const { error, when, remedy, headers = {} } = row;
  const sent = Object.entries(headers).map((header) => header.join(": "));
  const lines = [...sent, exampleMessage(row)].map(escapeHtml).join("<br>");
  return `<tr id="error-${error}">
  <td class="status">${statusOf(error)}</td>
  <th scope="row"><code>${error}</code></th>
  <td class="wide">${toHtml(when)}<code class="note soft">${lines}</code></td>
  <td class="remedy wide">${toHtml(remedy)}</td>
</tr>`;
}

function limitRow([subject, bound, row]: Limit): string {
  const link = row === undefined
    ? "none"
    : `<a href="#error-${row.error}"><code>${row.error}</code></a>`;
  return `<tr>
  <th scope="row" class="wide">${toHtml(subject)}</th>
  <td class="wide">${toHtml(bound)}</td>
  <td>${link}</td>
</tr>`;
}

/** Renders a sample, with a button to copy it. */
function figure([language, code]: readonly [string, string]): string {
  const open = language === "curl" ? " open" : "";
  const html = escapeHtml(code);
  return `<details name="sample"${open}>
<summary>${language}</summary>
<figure>
<figcaption><button type="button" class="copy" aria-label="Copy ${language}">Copy</button></figcaption>
<pre tabindex="0" aria-label="${language}"><code>${html}</code></pre>
</figure>
</details>`;
}

/** Returns a content security policy source that allows inline code. */
function hashSource(code: string): string {
  return `'sha256-${hash("sha256", code, "base64")}'`;
}

/** The page, with the headers of its reply. */
interface Page {
  readonly html: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Renders the page for a base URL without a trailing slash. */
export function renderPage(baseUrl: string): Page {
  const { pathname } = new URL(`${baseUrl}/openapi.json`);
  const parts = new Map(Object.entries({
    api_version: API_VERSION,
    lead: LEAD,
    plants_url: escapeHtml(`${baseUrl}/plants`),
    description_path: escapeHtml(pathname),
    created: CREATED,
    authentication: toHtml(AUTHENTICATION),
    plant_inputs: plantInputs(),
    new_plant: memberRows(PLANT_ID) + memberRows(PLANT),
    id_range: ID_RANGE,
    samples: Object.entries(samples(baseUrl)).map(figure).join("\n"),
    refusals: Object.values(API_ERRORS).map(refusalRow).join("\n"),
    limits: LIMITS.map(limitRow).join("\n"),
  }));
  const html = template
    .replace(/\{\{ (\w+) \}\}/g, (place, name) => {
      const part = parts.get(name);
      if (part === undefined) throw new Error(`no text for ${place}`);
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
