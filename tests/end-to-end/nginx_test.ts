/** What nginx itself answers, as src/deploy/ configures it. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { Instance } from "../support/instances.ts";
import { needs } from "../support/needs.ts";
import { Nginx } from "../support/nginx.ts";
import { TOKEN } from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";

const behindNginx = needs("NGINX");

/** The error number of nginx for a request that it cannot read. */
const BAD_REQUEST = 40000;

/** Returns a create whose body has a length in bytes. */
function bodyOf(length: number): string {
  const [start, end] = ['{"id":1,"name":"', '"}'];
  return start + "x".repeat(length - start.length - end.length) + end;
}

/** Asserts that a reply is a refusal, as those of the service are. */
async function assertError(response: Response, error: number): Promise<void> {
  const { status, headers } = response;
  assertRefusal({ status, headers, text: await response.text() }, { error });
}

behindNginx.test("nginx accepts the largest body, and refuses larger bodies, headers and URLs, and plain HTTP, with an Error", async ({ store }) => {
  await using instance = await Instance.start(store);
  await using nginx = await Nginx.start([instance.port]);
  using client = nginx.client();
  const post = (
    body: BodyInit,
    headers: Readonly<Record<string, string>> = {},
  ) =>
    fetch(`${nginx.origin}/plants`, {
      method: "POST",
      headers: {
        "authorization": `Bearer ${TOKEN}`,
        "content-type": "application/json",
        ...headers,
      },
      body,
      client,
    });

  const stored = await post(bodyOf(BODY_BYTES_MAX));
  assert.equal(stored.status, 200);
  await stored.body?.cancel();
  const tooLarge = bodyOf(BODY_BYTES_MAX + 1);
  for (const body of [tooLarge, new Blob([tooLarge]).stream()]) {
    await assertError(await post(body), API_ERRORS.bodyTooLarge.error);
  }
  const header = { "x-large": "x".repeat(16 * 1024) };
  await assertError(await post("{}", header), BAD_REQUEST);
  const { origin } = nginx;
  for (
    const url of [
      `${origin}/${"x".repeat(16 * 1024)}`,
      origin.replace("https:", "http:"),
    ]
  ) {
    await assertError(await fetch(url, { client }), BAD_REQUEST);
  }
  // Warnings mean a directive that does not fit, such as a small buffer.
  assert.doesNotMatch(nginx.stderr, /\[warn\]/);
});

behindNginx.test("nginx answers 503 with an Error and Retry-After while no instance runs", async () => {
  // Ports that nothing listens on.
  await using nginx = await Nginx.start([1, 2]);
  using client = nginx.client();
  const url = `${nginx.origin}/plants`;
  for (const method of ["POST", "GET"]) {
    const reply = await fetch(url, { method, client });
    await assertError(reply, API_ERRORS.storeFailed.error);
  }
});
