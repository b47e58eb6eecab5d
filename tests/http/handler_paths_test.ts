import assert from "node:assert/strict";
import { QUOTE_CHARS_MAX } from "../../src/limits.ts";
import { descriptionText } from "../../src/reference/openapi.ts";
import { renderPage } from "../../src/reference/page.ts";
import { METRICS_CONTENT_TYPE } from "../../src/telemetry/metrics.ts";
import { assertRefusal } from "../support/refusals.ts";
import { ROUTES, TestService, TOKENS, VALID } from "../support/service.ts";
import { toBytes, TOKEN } from "../support/wire.ts";

const BASE_URL = "http://plants.test";
const OK = '{"status":"ok"}';

/** Targets with a path that does not exist; the path ends before a query. */
const UNKNOWN = [
  "/plants/",
  "//",
  "/plant",
  "/Plants",
  "/plants/1",
  "/v1/plants",
  "//plants",
  "/plants//",
  "/x/../plants",
  "/planted",
  "/eggplants",
  "/plants%20",
  "/%70lants",
  "/livez/?x",
  "/constructor",
  "/__proto__",
  "/ferns?/plants",
  "/ferns?/plants?x",
];

/** The end of the message for another path or method. */
function adviceFor(baseUrl: string): string {
  return `create plants with POST ${baseUrl}/plants; only the operator can read them`;
}

const ADVICE = adviceFor(BASE_URL);

/** The paths that GET reads. */
const READABLE = ROUTES.filter(({ methods }) => methods.includes("GET"))
  .map(({ path }) => path);

const PAGE = renderPage(BASE_URL);
const JSON_TYPE = { "content-type": "application/json" };
const METRICS_TYPE = { "content-type": METRICS_CONTENT_TYPE };
const NO_STORE = { "cache-control": "no-store" };

/** The headers and the text of the reply on each path that GET reads. */
const CONTENTS = [
  ["/", PAGE.headers, PAGE.html],
  ["/openapi.json", JSON_TYPE, descriptionText(BASE_URL)],
  ["/livez", JSON_TYPE, OK],
  ["/readyz", JSON_TYPE, OK],
  ["/metrics", METRICS_TYPE, /^# HELP plant_store_/],
] as const;

/** Host headers that are a host, perhaps with a port, or empty or absent. */
const HOSTS = [
  "plants.test",
  "PLANTS.test:8000",
  "plants.test:",
  "127.0.0.1:80",
  "[::1]",
  "[::1]:80",
  "a_b-c",
  "%41",
  "~!$&'()*+,;=.-",
  "",
  [],
  "[fe80::1%eth0.1]",
  "[fe80::1%br-lan]",
  "[fe80::1%25e_t~h-0]:80",
];

/** Host headers that are none; most would change the path of the URL. */
const NO_HOSTS = [
  "a/plants?",
  "a/livez?",
  "a/plants#",
  "a/",
  "/",
  "a?",
  "a#",
  "u@a",
  "a b",
  "a, b",
  "[::",
  "::1]",
  "::1",
  "[::1]x",
  "[]",
  "a:b",
  "a:1:2",
  "a\\",
  "<a>",
  "é",
  "[fe80::1%a/plants?]",
  "[fe80::1%a]/plants?",
  "[fe80::1%a?]",
  "[fe80::1%a#]",
  "[fe80::1%a@b]",
  "[fe80::1%a\\b]",
];

Deno.test("handle() replies to GET on every path, with and without a query, and lets no cache store it", async () => {
  assert.deepEqual(["", ...CONTENTS.map(([path]) => path)], READABLE);
  const service = new TestService(BASE_URL);
  for (const [path, expected, content] of CONTENTS) {
    for (const query of ["", "?", "?x=/plants", "?/ferns#"]) {
      const target = `${path}${query}`;
      const { status, headers, text } = await service.get(target);
      assert.equal(status, 200);
      const all = { ...expected, ...NO_STORE };
      assert.deepEqual(Object.fromEntries(headers), all);
      if (typeof content === "string") assert.equal(text, content);
      else assert.match(text, content);
    }
  }
});

Deno.test("handle() replies to HEAD as to GET, with the length of the body instead of the body", async () => {
  const paths = [...ROUTES.map(({ path }) => path), "/ferns"];
  for (const path of paths) {
    for (const authorization of [`Bearer ${TOKENS[0]}`, []]) {
      const headers = { authorization };
      const [get, head] = await Promise.all(["GET", "HEAD"].map((method) =>
        // Another service each, since the metrics count their requests.
        new TestService(BASE_URL).get(path, { method, headers })
      ));
      assert.ok(get !== undefined && head !== undefined);
      assert.equal(head.status, get.status, path);
      assert.equal(head.text, "", path);
      const length = head.headers.get("content-length");
      head.headers.delete("content-length");
      assert.deepEqual([...head.headers], [...get.headers], path);
      // The metrics differ from one moment to the next.
      if (path === "/metrics") assert.ok(Number(length));
      else assert.equal(Number(length), toBytes(get.text).length, path);
    }
  }
});

Deno.test("handle() needs a token for creates and metrics only", async () => {
  const service = new TestService(BASE_URL);
  for (const { path: target, methods: [method = ""], needsToken } of ROUTES) {
    for (
      const [error, authorization] of [
        [40101, []],
        [40102, "Bearer guess"],
      ] as const
    ) {
      const headers = { authorization };
      const reply = await service.create(VALID, { method, target, headers });
      if (needsToken) assertRefusal(reply, { error });
      else assert.equal(reply.status, 200, target);
    }
  }
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() refuses every other method on every path with 40501, before it checks the token", async () => {
  const service = new TestService(BASE_URL);
  const headers = { authorization: "Bearer guess" };
  const METHODS = ["GET", "POST", "PUT", "OPTIONS", "FOO"];
  const SPELLINGS = ["get", "post", "POSTS"];
  for (const { path, methods } of ROUTES) {
    const target = `${path || "/"}?/plants`;
    for (const method of [...METHODS, ...SPELLINGS]) {
      if (methods.includes(method)) continue;
      const reply = await service.create(VALID, { method, target, headers });
      assertRefusal(reply, {
        error: 40501,
        message: `method not allowed: ${method}: ${ADVICE}`,
        allow: methods.join(", "),
      });
      // A cache could keep every reply but that to a POST (RFC 9110, section 9.3.3).
      assert.equal(
        reply.headers.get("cache-control"),
        method === "POST" ? null : "no-store",
        method,
      );
    }
  }
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() replies with 40401 to an unknown path, whatever the method and the token", async () => {
  const service = new TestService(BASE_URL);
  for (const target of UNKNOWN) {
    const [path] = target.split("?");
    for (const method of ["POST", "GET", "OPTIONS"]) {
      for (const authorization of [`Bearer ${TOKEN}`, []]) {
        const headers = { authorization };
        const reply = await service.create(VALID, { target, method, headers });
        const message = `path not found: ${path}: ${ADVICE}`;
        assertRefusal(reply, { error: 40401, message });
      }
    }
  }
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() quotes the start of a long Host, path, method and header", async () => {
  const service = new TestService(BASE_URL);
  const long = "A".repeat(300);
  const start = `${"A".repeat(QUOTE_CHARS_MAX)}…`;
  for (
    const [error, options, quoted = start] of [
      [40004, { headers: { host: `${long}/` } }],
      [40401, { target: `/${long}` }, `/${start.slice(1)}: ${ADVICE}`],
      [40501, { method: long }, `${start}: ${ADVICE}`],
      [41501, { headers: { "content-type": long } }],
      [41502, { headers: { "content-encoding": long } }],
    ] as const
  ) {
    const reply = await service.create(VALID, options);
    assertRefusal(reply, { error, message: new RegExp(` ${quoted}$`) });
  }
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() routes by the path in the URL, whatever host precedes it", async () => {
  for (const host of HOSTS) {
    const service = new TestService(BASE_URL);
    const send = (target: string) =>
      service.create(VALID, { target, headers: { host } });
    const message = `path not found: /ferns: ${ADVICE}`;
    assertRefusal(await send("/ferns?/plants"), { error: 40401, message });
    // The runtime adds no slash to a query without a path.
    const page = { error: 40501, allow: "GET, HEAD" };
    assertRefusal(await send("?x=/plants"), page);
    assert.deepEqual(service.stored(), []);
    assert.equal((await send("/plants?x=/ferns")).status, 200, `${host}`);
  }
});

Deno.test("handle() refuses a Host that is no host with 40004 on every path, and stores nothing", async () => {
  const service = new TestService(BASE_URL);
  const expected = { error: 40004, message: /^Host: expected a host, got / };
  for (const host of [...NO_HOSTS, ["a", "b"]]) {
    const headers = { host };
    for (const target of ["/plants", "/nope"]) {
      const create = await service.create(VALID, { target, headers });
      assertRefusal(create, expected);
    }
    assertRefusal(await service.get("/x", { headers }), expected);
  }
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() accepts percent-encodings of either case in a path", async () => {
  for (const given of ["/ü", "/%C3%BC", "/%c3%bC"]) {
    const { href } = new URL(given, BASE_URL);
    const service = new TestService(href);
    for (const prefix of ["/%C3%BC", "/%c3%bc", "/%C3%bc"]) {
      const live = await service.get(`${prefix}/livez`);
      assert.equal(live.text, OK, `${given} ${prefix}`);
      const target = `${prefix}/plants`;
      assert.equal((await service.create(VALID, { target })).status, 200);
    }
  }
});

Deno.test("handle() quotes an unknown path as it is", async () => {
  const { href } = new URL("/ü", BASE_URL);
  const service = new TestService(href);
  for (const path of ["/%C3%BC/%c3", "/%c3%bc/%c3", "/%C3%bc/%C3"]) {
    const message = `path not found: ${path}: ${adviceFor(href)}`;
    assertRefusal(await service.get(path), { error: 40401, message });
  }
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
    const advice = adviceFor(baseUrl);
    for (const path of READABLE) {
      assert.equal((await service.get(`${prefix}${path}`)).status, 200, path);
      if (prefix === "" || path === "") continue;
      for (const outside of [path, `${prefix}${prefix}${path}`]) {
        const message = `path not found: ${outside}: ${advice}`;
        assertRefusal(await service.get(outside), { error: 40401, message });
      }
    }
    const target = `${prefix}/plants`;
    for (const outside of [`/x${target}`, `${target}/`]) {
      const reply = await service.create(VALID, { target: outside });
      const message = `path not found: ${outside}: ${advice}`;
      assertRefusal(reply, { error: 40401, message });
    }
    assert.deepEqual(service.stored(), []);
    assert.equal((await service.create(VALID, { target })).status, 200);
  }
});
