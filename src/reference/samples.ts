/** Sample creates, for the page and the report of a start. */
import python from "./samples/create.py" with { type: "text" };
import typescript from "./samples/create.mts" with { type: "text" };

/**
 * Returns a create with curl, without retries. `-w` ends the reply with a line break,
 * so that the prompt of the shell is on the next line.
 */
export function curlSample(baseUrl: string, token = "$ACCESS_TOKEN"): string {
  return String.raw`curl -i '${baseUrl.replaceAll("'", "%27")}/plants' \
  -H "Authorization: Bearer ${token}" \
  -H 'Content-Type: application/json' \
  -d '{"id": 1, "name": "Monstera", "tag": "climber"}' -w '\n'`;
}

/**
 * Returns the samples by language, for a base URL without a trailing slash.
 * TypeScript and Python retry as the page says. curl cannot, and the page says how it
 * differs.
 */
export function samples(baseUrl: string): Readonly<Record<string, string>> {
  const fillIn = (sample: string) =>
    sample.trimEnd().replace("http://127.0.0.1:8000", () => baseUrl);
  return {
    curl: String.raw`${curlSample(baseUrl)} \
  --retry 4 --retry-all-errors --max-time 20`,
    TypeScript: fillIn(typescript),
    Python: fillIn(python),
  };
}
