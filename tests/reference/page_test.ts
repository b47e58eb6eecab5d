import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { ERROR } from "../../src/errors.ts";
import { LIMITS, REFUSALS } from "../../src/reference/openapi.ts";
import { renderPage, samples } from "../../src/reference/page.ts";

const BASE_URL = "http://127.0.0.1:8000";
const { html, contentSecurityPolicy } = renderPage(BASE_URL);

/** The text of the page as a reader sees it. */
const text = html
  .replace(/<(style|script)>.*?<\/\1>/gs, "")
  .replace(/<[^>]*>/g, "")
  .replaceAll("&lt;", "<").replaceAll("&gt;", ">")
  .replaceAll("&quot;", '"').replaceAll("&#39;", "'")
  .replaceAll("&amp;", "&");

function directive(name: string): string | undefined {
  return contentSecurityPolicy.split("; ")
    .find((part) => part.startsWith(`${name} `))?.slice(name.length + 1);
}

function inline(element: string): string[] {
  return Array.from(
    html.matchAll(new RegExp(`<${element}[^>]*>(.*?)</${element}>`, "gs")),
    ([, code = ""]) => code,
  );
}

Deno.test("the page's policy allows its own inline code by hash and nothing else", () => {
  for (const element of ["script", "style"]) {
    const [code = "", ...others] = inline(element);
    assert.deepEqual(others, []);
    const hash = createHash("sha256").update(code).digest("base64");
    assert.equal(directive(`${element}-src`), `'sha256-${hash}'`);
  }
  assert.equal(directive("default-src"), "'none'");
  assert.equal(directive("connect-src"), "'self'");
  assert.equal(directive("form-action"), "'none'");
  assert.equal(directive("base-uri"), "'none'");
  assert.equal(directive("frame-ancestors"), "'none'");
  assert.doesNotMatch(contentSecurityPolicy, /unsafe|\*|https?:/);
});

Deno.test("the page has no inline style or handler that its policy would refuse", () => {
  assert.ok(!/<[^>]+\s(style|on[a-z]+)=/.test(html));
});

Deno.test("the page asks for nothing from outside", () => {
  const assets = Array.from(
    html.matchAll(/\s(?:src|srcset|href)="([^"]*)"/g),
    ([, address = ""]) => address,
  ).filter((address) => !/^(#|data:)/.test(address));
  assert.deepEqual(new Set(assets), new Set(["/openapi.json"]));
  assert.ok(!/@import|url\(/.test(inline("style").join()));
});

Deno.test("the page is the same for the same base URL and has no part left open", () => {
  assert.deepEqual(renderPage(BASE_URL), { html, contentSecurityPolicy });
  assert.ok(!/\{\{ \w+ \}\}/.test(html));
});

Deno.test("the page shows every reply with its number, when it comes and what to do", () => {
  for (const { status, errors } of REFUSALS) {
    assert.match(html, new RegExp(`class="status">${status}</th>`));
    for (const { error, when, remedy, message } of errors) {
      assert.ok(html.includes(`id="error-${error}"`));
      for (const part of [when, remedy, message]) {
        assert.ok(text.includes(part.replaceAll("`", "")), part);
      }
    }
  }
  assert.equal(
    html.match(/id="error-\d+"/g)?.length,
    Object.values(ERROR).length,
  );
});

Deno.test("the page shows the members with their types and bounds, and every limit", () => {
  for (
    const part of [
      "integer (int64), required",
      "Identification number of the plant",
      "-9223372036854775808 to 9223372036854775807",
      "The name of the plant",
      "string, optional",
      "Tag to specify the type",
      "integer (int32), required",
      ...LIMITS.map(({ bound }) => bound.replaceAll("`", "")),
    ]
  ) assert.ok(text.includes(part), part);
});

Deno.test("the page and its calls hold the base URL, with its path as prefix", () => {
  const page = renderPage("https://plants.test/api/");
  assert.ok(page.html.includes('href="/api/openapi.json"'));
  assert.ok(page.html.includes('data-url="https://plants.test/api/plants"'));
  assert.ok(!/127\.0\.0\.1/.test(page.html));
  for (const call of Object.values(samples("https://plants.test/api/"))) {
    assert.ok(call.includes("https://plants.test/api/plants"), call);
  }
});

Deno.test("the page shows the calls whole", () => {
  for (const call of Object.values(samples(BASE_URL))) {
    assert.ok(text.includes(call), call);
  }
});

Deno.test("the page keeps a token out of storage, address and copied calls", () => {
  assert.ok(!/localStorage|sessionStorage|cookie|indexedDB/.test(html));
  assert.ok(!/<input[^>]*\sname=/.test(html));
  assert.match(html, /id="token"\s+type="password"\s+autocomplete="off"/);
  assert.ok(
    samples(BASE_URL).curl?.includes('"Authorization: Bearer $ACCESS_TOKEN"'),
  );
});

Deno.test("the page escapes what a base URL can hold", () => {
  const { html } = renderPage("https://plants.test/a'b&c$&");
  assert.ok(html.includes('href="/a&#39;b&amp;c$&amp;/openapi.json"'));
});

/** The program that runs the call of a language, and its arguments before the file. */
const RUNNERS: Readonly<Record<string, [string, ...string[]]>> = {
  curl: ["sh"],
  TypeScript: [
    Deno.execPath(),
    "run",
    "--check",
    "--no-config",
    "--allow-net",
    "--allow-env",
  ],
  Python: ["python3"],
};

function isInstalled(program: string): boolean {
  try {
    return new Deno.Command(program, { args: ["--version"] }).outputSync()
      .success;
  } catch {
    return false;
  }
}

for (const [language, [program, ...args]] of Object.entries(RUNNERS)) {
  Deno.test({
    name: `the ${language} call on the page works as it stands`,
    ignore: !isInstalled(language === "curl" ? "curl" : program),
    fn: async () => {
      const arrived: unknown[] = [];
      await using server = Deno.serve(
        { hostname: "127.0.0.1", port: 0, onListen: () => {} },
        async (request) => {
          arrived.push({
            method: request.method,
            path: new URL(request.url).pathname,
            token: request.headers.get("authorization"),
            type: request.headers.get("content-type"),
            body: await request.json(),
          });
          return Response.json({ name: "Monstera", tag: "climber" });
        },
      );
      const calls = samples(`http://127.0.0.1:${server.addr.port}`);
      const file = Deno.makeTempFileSync({ suffix: ".ts" });
      Deno.writeTextFileSync(file, calls[language] ?? "");
      const { stdout, stderr } = await new Deno.Command(program, {
        args: [...args, file],
        env: { ACCESS_TOKEN: "a-token", NO_COLOR: "1" },
      }).output();
      Deno.removeSync(file);
      const decoder = new TextDecoder();
      assert.match(
        decoder.decode(stdout),
        /Monstera.*climber/s,
        decoder.decode(stderr),
      );
      assert.deepEqual(arrived, [{
        method: "POST",
        path: "/plants",
        token: "Bearer a-token",
        type: "application/json",
        body: { id: 1, name: "Monstera", tag: "climber" },
      }]);
    },
  });
}
