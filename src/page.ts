/**
 * The API reference for people: `page.html` with its tables filled from the
 * description, so that the two cannot disagree.
 */
import { hash } from "node:crypto";
import type { ErrorNumber } from "./errors.ts";
import {
  AUTHENTICATION,
  CREATED,
  describe,
  type Description,
  EXAMPLE,
  INTRODUCTION,
  LIMITS,
  REFUSALS,
  REFUSING,
  REPEATING,
  type Reply,
  type Schema,
} from "./openapi.ts";

/** The page as it is served. */
export interface Page {
  readonly html: string;
  /** The value of the header Content-Security-Policy. */
  readonly contentSecurityPolicy: string;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

/** Text in which backticks mark code, as in the description's CommonMark. */
function marked(text: string): string {
  return escaped(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

/** A member of a schema, with what `allOf` and `$ref` bring in. */
interface Field {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
}

function fieldsOf(schema: Schema, api: Description): Field[] {
  const name = schema.$ref?.split("/").at(-1);
  if (name === "Plant" || name === "NewPlant" || name === "Error") {
    return fieldsOf(api.components.schemas[name], api);
  }
  const own = Object.entries(schema.properties ?? {}).map(([name, schema]) => ({
    name,
    schema,
    required: false,
  }));
  const fields = [
    ...own,
    // What a schema adds comes before what it extends: the id first.
    ...(schema.allOf ?? []).toReversed().flatMap((part) => fieldsOf(part, api)),
  ];
  return fields.map((field) => ({
    ...field,
    required: field.required || (schema.required ?? []).includes(field.name),
  }));
}

function boundsOf({ minimum, maximum }: Schema): string {
  return minimum === undefined || maximum === undefined
    ? ""
    : `<span class="bounds"><code>${minimum}</code> to <code>${maximum}</code></span>`;
}

function fieldsTable(schema: Schema, api: Description): string {
  const rows = fieldsOf(schema, api).map(({ name, schema, required }) => {
    const format = schema.format === undefined ? "" : ` (${schema.format})`;
    return `<tr>
  <th scope="row"><code>${escaped(name)}</code></th>
  <td class="soft">${schema.type ?? ""}${format}, ${
      required ? "required" : "optional"
    }</td>
  <td class="wide">${marked(schema.description ?? "")}${boundsOf(schema)}</td>
</tr>`;
  });
  return `<table class="fields">
<thead><tr><th scope="col">Member</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
<tbody>
${rows.join("\n")}
</tbody>
</table>`;
}

function inputs(schema: Schema, api: Description): string {
  return fieldsOf(schema, api).map(({ name, schema, required }) => {
    const id = escaped(name);
    return `<div class="field">
  <label for="${id}">${id}${required ? "" : " (optional)"}</label>
  <input id="${id}" type="text" autocomplete="off" autocapitalize="none" spellcheck="false" aria-describedby="${id}-wrong ${id}-hint">
  <span class="wrong" id="${id}-wrong"></span>
  <span class="hint" id="${id}-hint">${marked(schema.description ?? "")}</span>
</div>`;
  }).join("\n");
}

/** The headers of a reply as they are sent, for the error with this number. */
function headerLines({ headers }: Reply, error: ErrorNumber): string {
  return Object.entries(headers ?? {}).map(([name, { examples = {} }]) => {
    const example = examples[error] ?? Object.values(examples)[0];
    return `<code class="sent">${escaped(name)}: ${
      escaped(String(example?.value))
    }</code>`;
  }).join("");
}

function repliesTable(): string {
  const groups = REFUSALS.map((reply) => {
    const rows = reply.errors.map(({ error, when, remedy, message }, index) => {
      const status = index > 0
        ? ""
        : `<th scope="rowgroup" rowspan="${reply.errors.length}" class="status">${reply.status}</th>`;
      return `<tr id="error-${error}">
  ${status}
  <th scope="row" class="number"><code>${error}</code></th>
  <td class="when">${marked(when)}${
        headerLines(reply, error)
      }<code class="sent">${escaped(message)}</code></td>
  <td class="remedy">${marked(remedy)}</td>
</tr>`;
    });
    return `<tbody>
${rows.join("\n")}
</tbody>`;
  });
  return `<table class="replies">
<thead><tr><th scope="col">Status</th><th scope="col">error</th><th scope="col">When, with its header and a message</th><th scope="col">What to do</th></tr></thead>
<tbody>
<tr>
  <th scope="rowgroup" class="status">200</th>
  <td class="number"></td>
  <td class="when">${marked(CREATED)}</td>
  <td class="remedy">Nothing.</td>
</tr>
</tbody>
${groups.join("\n")}
</table>`;
}

function limitsTable(): string {
  const rows = LIMITS.map(({ of, bound, error }) =>
    `<tr>
  <th scope="row">${marked(of)}</th>
  <td class="wide">${marked(bound)}</td>
  <td class="wide">${
      error === undefined
        ? "none"
        : `<a href="#error-${error}"><code>${error}</code></a>`
    }</td>
</tr>`
  );
  return `<table class="limits">
<thead><tr><th scope="col">Of</th><th scope="col">Bound</th><th scope="col">error</th></tr></thead>
<tbody>
${rows.join("\n")}
</tbody>
</table>`;
}

/** A text as one word of a POSIX shell, in quotes where it needs them. */
function shellQuoted(text: string): string {
  return /^[\w:/.-]+$/.test(text)
    ? text
    : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A create with curl, over several lines. */
export function curlSample(url: string, token = "$ACCESS_TOKEN"): string {
  const { id, name, tag } = EXAMPLE;
  const body = `{"id":${id},"name":${JSON.stringify(name)},"tag":${
    JSON.stringify(tag)
  }}`;
  return String.raw`curl -i ${shellQuoted(url)} \
  -H "Authorization: Bearer ${token}" \
  -H 'Content-Type: application/json' \
  -d ${shellQuoted(body)}`;
}

function typescriptSample(url: string): string {
  const { id, name, tag } = EXAMPLE;
  return `// Node.js 24, or: deno run --allow-net --allow-env create.ts
import process from "node:process";

const id = ${id}n; // a bigint: exact above 2 ** 53 too
const name = ${JSON.stringify(name)};
const tag = ${JSON.stringify(tag)};

const reply = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: {
    "Authorization": \`Bearer \${process.env.ACCESS_TOKEN}\`,
    "Content-Type": "application/json",
  },
  body: \`{"id":\${id},"name":\${JSON.stringify(name)},"tag":\${JSON.stringify(tag)}}\`,
});
const body = await reply.json();
if (!reply.ok) throw new Error(\`\${body.error}: \${body.message}\`);
console.log(body);`;
}

function pythonSample(url: string): string {
  const { id, name, tag } = EXAMPLE;
  return `import json, os, urllib.error, urllib.request

plant = {"id": ${id}, "name": ${JSON.stringify(name)}, "tag": ${
    JSON.stringify(tag)
  }}
request = urllib.request.Request(
    ${JSON.stringify(url)},
    data=json.dumps(plant).encode(),
    headers={
        "Authorization": f"Bearer {os.environ['ACCESS_TOKEN']}",
        "Content-Type": "application/json",
    },
)
try:
    with urllib.request.urlopen(request, timeout=30) as reply:
        print(json.load(reply))
except urllib.error.HTTPError as refusal:
    body = json.load(refusal)
    raise SystemExit(f"{body['error']}: {body['message']}")`;
}

/** The calls that the page shows, by language. */
export function samples(baseUrl: string): Readonly<Record<string, string>> {
  const url = `${baseUrl.replace(/\/+$/, "")}/plants`;
  return {
    curl: curlSample(url),
    TypeScript: typescriptSample(url),
    Python: pythonSample(url),
  };
}

function sampleFigures(baseUrl: string): string {
  return Object.entries(samples(baseUrl)).map(([language, code]) =>
    `<figure>
<figcaption>${language} <button type="button" class="copy">Copy<span class="unseen"> the ${language} call</span></button></figcaption>
<pre tabindex="0" aria-label="${language}"><code>${escaped(code)}</code></pre>
</figure>`
  ).join("\n");
}

/** The hashes of the inline code in these elements, as CSP sources. */
function sourcesOf(element: "script" | "style", html: string): string {
  const inline = html.matchAll(
    new RegExp(`<${element}>(.*?)</${element}>`, "gs"),
  );
  return Array.from(
    inline,
    ([, code = ""]) => `'sha256-${hash("sha256", code, "base64")}'`,
  ).join(" ");
}

/**
 * The page for a base URL. It is made once, at the start.
 *
 * The template is read from beside this file: text imports would do without,
 * but need a flag before Deno 2.8. `deno compile --include src/page.html` puts
 * it into a binary.
 */
export function renderPage(baseUrl: string): Page {
  const api = describe(baseUrl);
  const { schemas } = api.components;
  const url = api.servers[0]?.url ?? "";
  const { post } = api.paths["/plants"];
  const parts: Readonly<Record<string, string>> = {
    title: escaped(api.info.title),
    version: escaped(api.info.version),
    license: escaped(api.info.license.name),
    summary: escaped(api.info.summary),
    introduction: escaped(INTRODUCTION),
    description: escaped(post.description),
    plants_url: escaped(`${url}/plants`),
    description_path: escaped(
      `${new URL(url).pathname.replace(/\/$/, "")}/openapi.json`,
    ),
    authentication: marked(AUTHENTICATION),
    content_type: Object.keys(post.requestBody.content).join(),
    new_plant_fields: fieldsTable(schemas.NewPlant, api),
    repeating: marked(REPEATING),
    samples: sampleFigures(baseUrl),
    inputs: inputs(schemas.NewPlant, api),
    refusing: marked(REFUSING),
    replies: repliesTable(),
    plant_fields: fieldsTable(schemas.Plant, api),
    error_fields: fieldsTable(schemas.Error, api),
    limits: limitsTable(),
  };
  const template = Deno.readTextFileSync(
    new URL("./page.html", import.meta.url),
  );
  const html = template.replace(/\{\{ (\w+) \}\}/g, (_, name: string) => {
    const part = parts[name];
    if (part === undefined) throw new Error(`page.html wants ${name}`);
    return part;
  });
  const contentSecurityPolicy = [
    "default-src 'none'",
    `script-src ${sourcesOf("script", html)}`,
    `style-src ${sourcesOf("style", html)}`,
    "img-src data:",
    "connect-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
  return { html, contentSecurityPolicy };
}
