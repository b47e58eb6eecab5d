import assert from "node:assert/strict";
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

/** Every GET path, with the type and the text of its reply. */
function readablePaths(
  baseUrl: string,
): readonly (readonly [path: string, type: string, text: string | RegExp])[] {
  const page = ["text/html; charset=utf-8", renderPage(baseUrl).html] as const;
  return [
    ["", ...page],
    ["/", ...page],
    ["/openapi.json", "application/json", descriptionText(baseUrl)],
    ["/livez", "application/json", OK],
    ["/readyz", "application/json", OK],
    ["/metrics", METRICS_CONTENT_TYPE, /^# HELP plant_store_/],
  ];
}

for (const method of ["GET", "HEAD"]) {
  Deno.test(`handle() replies to ${method} on every path, with and without a query`, async () => {
    using service = await TestService.start(BASE_URL);
    for (const [path, type, text] of readablePaths(BASE_URL)) {
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
  using service = await TestService.start(BASE_URL);
  const { headers } = await service.get("/");
  for (const [name, value] of Object.entries(renderPage(BASE_URL).headers)) {
    assert.equal(headers.get(name), value, name);
  }
});

Deno.test("handle() needs a token for /metrics and for no other GET path", async () => {
  using service = await TestService.start(BASE_URL);
  const rows = [[[], 40101], ["Bearer guess", 40102]] as const;
  for (const method of ["GET", "HEAD"]) {
    for (const [authorization, error] of rows) {
      for (const [path] of readablePaths(BASE_URL)) {
        const reply = await service.get(path, {
          method,
          headers: { authorization },
        });
        if (path === "/metrics") assertRefusal(reply, { error });
        else assert.equal(reply.status, 200, path);
      }
    }
  }
});

Deno.test("handle() refuses every method but POST on /plants with 40501, before it checks the token", async () => {
  using service = await TestService.start(BASE_URL);
  for (
    const method of ["GET", "HEAD", "PUT", "OPTIONS", "FOO", "post", "POSTS"]
  ) {
    for (const authorization of ["Bearer test-token", "Bearer guess"]) {
      const reply = await service.create(VALID, {
        method,
        target: "/plants?x=1",
        headers: { authorization },
      });
      assertRefusal(reply, {
        error: 40501,
        message: `method not allowed: ${method}: use POST`,
      });
    }
  }
  assert.deepEqual(await service.stored(), []);
});

Deno.test("handle() refuses every method but GET and HEAD on every GET path with 40501, before it checks the token", async () => {
  using service = await TestService.start(BASE_URL);
  for (const method of ["POST", "OPTIONS", "get"]) {
    for (const [path] of readablePaths(BASE_URL)) {
      const reply = await service.create(VALID, {
        method,
        target: `${path}?/plants`,
        headers: { authorization: "Bearer guess" },
      });
      assertRefusal(reply, {
        error: 40501,
        message: `method not allowed: ${method}: use GET or HEAD`,
        allow: "GET, HEAD",
      });
    }
  }
});

Deno.test("handle() replies with 40401 to an unknown path, whatever the method and the token", async () => {
  using service = await TestService.start(BASE_URL);
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
  assert.deepEqual(await service.stored(), []);
});

Deno.test("handle() quotes the start of a long path and of a long method", async () => {
  using service = await TestService.start(BASE_URL);
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
  using service = await TestService.start(BASE_URL);
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
  assert.equal((await service.stored()).length, hosts.length);
});

Deno.test("handle() routes by the path of an absolute URL, whatever the Host header is", async () => {
  using service = await TestService.start(BASE_URL);
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
      const before = await service.stored();
      const reply = await service.create(VALID, { url, headers: { host } });
      assert.equal(reply.status, status, url);
      if (status === 200) continue;
      assert.deepEqual(await service.stored(), before);
    }
  }
});

Deno.test("handle() routes a request without a Host header, as HTTP/2 and HTTP/1.0 allow it", async () => {
  using service = await TestService.start(BASE_URL);
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
    using service = await TestService.start(baseUrl);
    for (const [path] of readablePaths(baseUrl)) {
      assert.equal((await service.get(`${prefix}${path}`)).status, 200, path);
      if (prefix === "" || path === "") continue;
      for (const outside of [path, `${prefix}${prefix}${path}`]) {
        const message = `path not found: ${outside}`;
        assertRefusal(await service.get(outside), { error: 40401, message });
      }
    }
    const target = `${prefix}/plants`;
    assert.equal((await service.create(VALID, { target })).status, 200);
    const before = await service.stored();
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
    assert.deepEqual(await service.stored(), before);
  }
});
