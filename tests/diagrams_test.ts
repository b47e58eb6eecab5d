/**
 * The diagrams in the documents, drawn by Mermaid in Chromium. The environment
 * names the tools: CHROMIUM is the path of Chromium, MERMAID that of the script
 * of Mermaid (mermaid.min.js).
 */
import assert from "node:assert/strict";
import { Browser, CHROMIUM } from "./support/browser.ts";
import { DOCUMENTS, read } from "./support/readme.ts";

const MERMAID = Deno.env.get("MERMAID") ?? "";

/** A block of Markdown with a diagram. */
const DIAGRAM = /^```mermaid\n(.*?)^```$/gms;

Deno.test({
  name: "Mermaid draws every diagram in the documents",
  ignore: CHROMIUM === "" || MERMAID === "",
  fn: async () => {
    await using browser = new Browser();
    await using tab = await browser.openTab();
    await tab.evaluate(Deno.readTextFileSync(MERMAID));
    const problems: string[] = [];
    let diagrams = 0;
    for (const path of DOCUMENTS) {
      for (const [, text = ""] of read(path).matchAll(DIAGRAM)) {
        const problem = await tab.evaluate(
          `mermaid.render("diagram", ${JSON.stringify(text)})
            .then(() => "", String)`,
        );
        if (problem !== "") problems.push(`${path}: ${problem}\n${text}`);
        diagrams++;
      }
    }
    assert.deepEqual(problems, []);
    assert.ok(diagrams > 0, "no diagrams");
  },
});
