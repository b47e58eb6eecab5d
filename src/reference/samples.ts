/** Sample creates in several languages, for the page and the banner. */
import { quoteForShell } from "../messages.ts";
import { RETRYABLE_STATUSES } from "../api_errors.ts";
import { EXAMPLES, PAUSES_S, REPLY_S_MAX } from "./api.ts";
import java from "./samples/Create.java" with { type: "text" };
import go from "./samples/create.go" with { type: "text" };
import python from "./samples/create.py" with { type: "text" };
import typescript from "./samples/create.ts" with { type: "text" };

const { id, plant } = EXAMPLES.tagged;

/** The members of the example, written the same in JSON, Python, Go and Java. */
const MEMBERS = Object.entries(plant)
  .map(([name, text]) => `"${name}": "${text}"`).join(", ");
const NEW_PLANT = `{"id": ${id}, ${MEMBERS}}`;

/** Returns a create with curl up to its body. */
export function curlBeforeBody(url: string, token = "$ACCESS_TOKEN"): string {
  return String.raw`curl -i ${quoteForShell(url)} \
  -H "Authorization: Bearer ${token}" \
  -H 'Content-Type: application/json' \
  -d `;
}

/** Returns a create with curl, without retries. */
export function curlSample(baseUrl: string, token?: string): string {
  return `${curlBeforeBody(`${baseUrl}/plants`, token)}'${NEW_PLANT}'`;
}

/**
 * Returns the samples by language, for a base URL without a trailing slash.
 * Each retries as the description says.
 */
export function samples(baseUrl: string): Readonly<Record<string, string>> {
  const values: Readonly<Record<string, string>> = {
    PLANTS_URL: `${baseUrl}/plants`,
    NEW_PLANT,
    PLANT_ID: `${id}n`,
    PLANT: `{ ${MEMBERS} }`,
    REPLY_S_MAX: `${REPLY_S_MAX}`,
    RETRIES: `${PAUSES_S.length}`,
    STATUSES: RETRYABLE_STATUSES.join(", "),
  };
  const fillIn = (template: string) =>
    template.trimEnd().replace(
      /[A-Z_]+/g,
      (name) => values[name] ?? name,
    );
  return {
    curl: String.raw`${curlSample(baseUrl)} \
  --retry ${PAUSES_S.length} --retry-all-errors --max-time ${REPLY_S_MAX}`,
    TypeScript: fillIn(typescript),
    Python: fillIn(python),
    Go: fillIn(go),
    Java: fillIn(java),
  };
}
