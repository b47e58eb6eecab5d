/** Calls of the API in several languages, for the page and the banner. */
import { EXAMPLE } from "./api.ts";

const NAME = JSON.stringify(EXAMPLE.name);
const TAG = JSON.stringify(EXAMPLE.tag);

/** Returns a text as one word of a POSIX shell. */
function quoteForShell(text: string): string {
  return /^[\w:/.-]+$/.test(text)
    ? text
    : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Returns a create with curl, on several lines. */
export function curlSample(baseUrl: string, token = "$ACCESS_TOKEN"): string {
  const body = `{"id":${EXAMPLE.id},"name":${NAME},"tag":${TAG}}`;
  return String.raw`curl -i ${quoteForShell(`${baseUrl}/plants`)} \
  -H "Authorization: Bearer ${token}" \
  -H 'Content-Type: application/json' \
  -d ${quoteForShell(body)}`;
}

function typescriptSample(baseUrl: string): string {
  return `// Node.js 24, or: deno run --allow-net --allow-env create.ts
import process from "node:process";

const id = ${EXAMPLE.id}n; // a bigint: exact above 2 ** 53 too
const name = ${NAME};
const tag = ${TAG};

const reply = await fetch(${JSON.stringify(`${baseUrl}/plants`)}, {
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

function pythonSample(baseUrl: string): string {
  return `import json, os, urllib.error, urllib.request

plant = {"id": ${EXAMPLE.id}, "name": ${NAME}, "tag": ${TAG}}
request = urllib.request.Request(
    ${JSON.stringify(`${baseUrl}/plants`)},
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

/** Returns the calls by language, for a base URL without a trailing slash. */
export function samples(baseUrl: string): Readonly<Record<string, string>> {
  return {
    curl: curlSample(baseUrl),
    TypeScript: typescriptSample(baseUrl),
    Python: pythonSample(baseUrl),
  };
}
