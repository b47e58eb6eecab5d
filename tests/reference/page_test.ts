import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import { renderPage } from "../../src/reference/page.ts";
import { PLANT_MEMBERS } from "../support/plants.ts";
import { read } from "../support/readme.ts";

const { html, headers } = renderPage("http://127.0.0.1:8000");
const policy = headers["content-security-policy"] ?? "";

/** The visible text of the page. */
const text = html
  .replace(/<(style|script)[^>]*>.*?<\/\1>/gs, "")
  .replace(/<[^>]*>/g, "")
  .replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code));

/** Returns the sources that the policy allows for a kind of resource. */
function directive(name: string): string | undefined {
  return policy.split("; ").find((part) => part.startsWith(`${name} `))
    ?.slice(name.length + 1);
}

/** Returns the inline code in elements of a name. */
function inlineCode(element: string): string[] {
  return Array.from(
    html.matchAll(new RegExp(`<${element}[^>]*>(.*?)</${element}>`, "gs")),
    ([, code = ""]) => code,
  );
}

Deno.test("renderPage() allows the inline code of the page by its hash, and nothing else", () => {
  for (const element of ["script", "style"]) {
    const [code = "", ...others] = inlineCode(element);
    assert.notEqual(code, "");
    assert.deepEqual(others, []);
    const hash = createHash("sha256").update(code).digest("base64");
    assert.equal(directive(`${element}-src`), `'sha256-${hash}'`);
  }
  assert.equal(directive("connect-src"), "'self'");
  for (
    const name of ["default-src", "form-action", "base-uri", "frame-ancestors"]
  ) assert.equal(directive(name), "'none'", name);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
});

Deno.test("renderPage() sends HTML that no browser sniffs, without a referrer", () => {
  assert.equal(headers["content-type"], "text/html; charset=utf-8");
  assert.equal(headers["x-content-type-options"], "nosniff");
  assert.equal(headers["referrer-policy"], "no-referrer");
});

Deno.test("renderPage() links to no resource outside the page but /openapi.json", () => {
  const addresses = Array.from(
    html.matchAll(/\s(?:src|srcset|href|action)="([^"]*)"/g),
    ([, address = ""]) => address,
  ).filter((address) => !/^(#|data:)/.test(address));
  assert.deepEqual(new Set(addresses), new Set(["/openapi.json"]));
  assert.doesNotMatch(inlineCode("style").join(), /@import|url\(/);
  assert.doesNotMatch(inlineCode("script").join(), /\bimport\b/);
});

Deno.test("renderPage() shows every member with its type and bounds, an input for each, and its version", () => {
  for (
    const part of [
      "integer, required",
      "Identification number of the plant",
      `An integer from ${ID_MIN} to ${ID_MAX}`,
      "Tag to specify the type",
      "string, optional",
      "API reference, version 1.0.0",
    ]
  ) assert.ok(text.includes(part), part);
  const inputs = html.matchAll(/<input\s+id="member-(\w+)"/g);
  const names = Array.from(inputs, ([, name]) => name);
  assert.deepEqual(names, ["id", ...PLANT_MEMBERS]);
});

Deno.test("renderPage() uses the base URL in addresses, escaped, and its path as the prefix of links", () => {
  const page = renderPage("https://plants.test/a'b&c$&");
  assert.ok(page.html.includes('href="/a&#39;b&#38;c$&#38;/openapi.json"'));
  assert.ok(page.html.includes(">curl -i &#39;https://plants.test/a"));
  assert.doesNotMatch(page.html, /127\.0\.0\.1/);
});

Deno.test("renderPage() leaves no place without its text, and gives every element its own id", () => {
  assert.doesNotMatch(html, /\{\{/);
  const ids = Array.from(html.matchAll(/ id="([^"]*)"/g), ([, id]) => id);
  assert.equal(new Set(ids).size, ids.length);
});

Deno.test("a clone has LF at the end of each line, of which the hashes of the page are made", () => {
  assert.match(read(".gitattributes"), /^\* text=auto eol=lf$/m);
});
