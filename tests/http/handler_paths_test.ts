import assert from "node:assert/strict";
import { RequestHandler } from "../../src/http/handler.ts";
import { QUOTE_CHARS_MAX } from "../../src/limits.ts";
import { descriptionText } from "../../src/reference/openapi.ts";
import { renderPage } from "../../src/reference/page.ts";
import { METRICS_CONTENT_TYPE } from "../../src/telemetry/metrics.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";

const BASE_URL = "http://plants.test";
const VALID = '{"id":2,"name":"Fern"}';
const OK = '{"status":"ok"}';

/** Targets, and what the message names if it is not the target. */
const UNKNOWN: readonly (readonly [target: string, path?: string])[] = [
  ["/plant"],
  ["/plants/", "/plants/: use /plants"],
  ["/Plants"],
  ["//", "//: use /"],
  ["//plants"],
  ["/plants//"],
  ["/plants%20"],
  ["/%70lants"],
  ["/x/../plants"],
  ["/livez/?x", "/livez/: use /livez"],
  ["/constructor"],
  ["/__proto__"],
  ["/ferns?/plants", "/ferns"],
  ["/ferns#/plants", "/ferns"],
];

const { ROUTES } = RequestHandler;

/** The paths that GET reads. */
const READABLE = ROUTES.filter(({ methods }) => methods.includes("GET"));

/** The type and the text of the reply on a path. */
function contentOf(
  path: string,
): readonly [type: string, text: string | RegExp] {
  switch (path) {
    case "":
    case "/":
      return ["text/html; charset=utf-8", renderPage(BASE_URL).html];
    case "/openapi.json":
      return ["application/json", descriptionText(BASE_URL)];
    case "/livez":
    case "/readyz":
      return ["application/json", OK];
    case "/metrics":
      return [METRICS_CONTENT_TYPE, /^# HELP plant_store_/];
    default:
      assert.fail(`no content for ${path}`);
  }
}

for (const method of ["GET", "HEAD"]) {
  Deno.test(`handle() replies to ${method} on every path, with and without a query`, async () => {
    const service = new TestService(BASE_URL);
    for (const { path } of READABLE) {
      const [type, text] = contentOf(path);
      for (const query of ["", "?", "?x=/plants", "?/ferns#"]) {
        const reply = await service.get(`${path}${query}`, { method });
        assert.equal(reply.status, 200);
        assert.equal(reply.headers.get("content-type"), type);
        if (typeof text === "string") assert.equal(reply.text, text);
        else assert.match(reply.text, text);
      }
    }
  });
}

Deno.test("handle() sends the page with its headers", async () => {
  const service = new TestService(BASE_URL);
  const { headers } = await service.get("/");
  for (const [name, value] of Object.entries(renderPage(BASE_URL).headers)) {
    assert.equal(headers.get(name), value, name);
  }
});

Deno.test("handle() needs a token for creates and metrics only", async () => {
  assert.deepEqual(
    ROUTES.filter(({ needsToken }) => needsToken).map(({ path }) => path),
    ["/plants", "/metrics"],
  );
  const service = new TestService(BASE_URL);
  const rows = [[[], 40101], ["Bearer guess", 40102]] as const;
  for (const { path, methods, needsToken } of ROUTES) {
    for (const method of methods) {
      for (const [authorization, error] of rows) {
        const reply = await service.create(VALID, {
          method,
          target: path,
          headers: { authorization },
        });
        if (needsToken) assertRefusal(reply, { error });
        else assert.equal(reply.status, 200, path);
      }
    }
  }
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() refuses every other method on every path with 40501, before it checks the token", async () => {
  const service = new TestService(BASE_URL);
  const METHODS = ["GET", "HEAD", "POST", "PUT", "OPTIONS", "FOO"];
  const SPELLINGS = ["get", "post", "POSTS"];
  for (const { path, methods } of ROUTES) {
    for (const method of [...METHODS, ...SPELLINGS]) {
      if (methods.includes(method)) continue;
      for (const authorization of ["Bearer test-token", "Bearer guess"]) {
        const reply = await service.create(VALID, {
          method,
          target: `${path}?/plants`,
          headers: { authorization },
        });
        assertRefusal(reply, {
          error: 40501,
          message: `method not allowed: ${method}: use ${methods.join(" or ")}`,
          allow: methods.join(", "),
        });
      }
    }
  }
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() replies with 40401 to an unknown path, whatever the method and the token", async () => {
  const service = new TestService(BASE_URL);
  for (const [target, path = target] of UNKNOWN) {
    for (const method of ["POST", "GET", "OPTIONS"]) {
      for (const authorization of ["Bearer test-token", []]) {
        const headers = { authorization };
        const reply = await service.create(VALID, { target, method, headers });
        const message = `path not found: ${path}`;
        assertRefusal(reply, { error: 40401, message });
      }
    }
  }
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() quotes the start of a long path and of a long method", async () => {
  const service = new TestService(BASE_URL);
  const target = `/${"a".repeat(300)}`;
  assertRefusal(await service.create(VALID, { target }), {
    error: 40401,
    message: `path not found: /${"a".repeat(QUOTE_CHARS_MAX - 1)}…`,
  });
  const method = "A".repeat(300);
  assertRefusal(await service.create(VALID, { method }), {
    error: 40501,
    message: `method not allowed: ${"A".repeat(QUOTE_CHARS_MAX)}…: use POST`,
  });
});

Deno.test("handle() routes by the path, whatever the Host header puts into the URL", async () => {
  const service = new TestService(BASE_URL);
  const hosts = [
    ...["", "plants.test:8000", "[::1]:8000", "a b", "a/b", "[::", "a:99999"],
    ...["a@b", "a#b", "é", "%", "/", "a/plants?", "plants.test/livez#"],
  ];
  for (const [i, host] of hosts.entries()) {
    const id = 100 + i;
    const headers = { host };
    const created = await service.create(`{"id":${id},"name":"Fern"}`, {
      url: `http://${host}/plants?x=/ferns`,
      headers,
    });
    assert.equal(created.status, 200, `${host}: ${created.text}`);
    const unknown = await service.create(VALID, {
      url: `http://${host}/ferns?/plants`,
      headers,
    });
    assertRefusal(unknown, { error: 40401, message: "path not found: /ferns" });
  }
  assert.equal(service.stored().length, hosts.length);
});

Deno.test("handle() routes by the path of an absolute URL, whatever the Host header is", async () => {
  const service = new TestService(BASE_URL);
  const rows = [
    ["http://other.test/plants?x", 200],
    ["http://other.test:81/ferns", 404],
    ["http://other.test", 405],
    ["http://other.test?x=/plants", 405],
    ["http://other.test#/plants", 405],
    ["https://other.test/?/plants", 405],
  ] as const;
  for (const [url, status] of rows) {
    for (const host of ["plants.test", "other", ""]) {
      const before = service.stored();
      const reply = await service.create(VALID, { url, headers: { host } });
      assert.equal(reply.status, status, url);
      if (status === 200) continue;
      assert.deepEqual(service.stored(), before);
    }
  }
});

Deno.test("handle() routes a request without a Host header, as HTTP/2 and HTTP/1.0 allow it", async () => {
  const service = new TestService(BASE_URL);
  const headers = { host: [] };
  assert.equal((await service.create(VALID, { headers })).status, 200);
  assert.equal((await service.get("/livez", { headers })).status, 200);
});

Deno.test("handle() serves every path below the base URL and none outside", async () => {
  for (
    const [baseUrl, prefix] of [
      ["https://plants.example", ""],
      ["https://plants.example:8443/api/v1", "/api/v1"],
      ["https://plants.example/a%20b", "/a%20b"],
    ] as const
  ) {
    const service = new TestService(baseUrl);
    for (const { path } of READABLE) {
      assert.equal((await service.get(`${prefix}${path}`)).status, 200, path);
      if (prefix === "" || path === "") continue;
      for (const outside of [path, `${prefix}${prefix}${path}`]) {
        const message = `path not found: ${outside}`;
        assertRefusal(await service.get(outside), { error: 40401, message });
      }
    }
    const target = `${prefix}/plants`;
    assert.equal((await service.create(VALID, { target })).status, 200);
    const before = service.stored();
    for (
      const [outside, found] of [
        [`/x${target}`, `/x${target}`],
        [`${target}/`, `${target}/: use ${target}`],
      ] as const
    ) {
      const reply = await service.create(VALID, { target: outside });
      const message = `path not found: ${found}`;
      assertRefusal(reply, { error: 40401, message });
    }
    assert.deepEqual(service.stored(), before);
  }
});
