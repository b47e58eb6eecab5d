/** The diagrams in the documents, drawn by Mermaid in Chromium. */
import assert from "node:assert/strict";
import { Browser } from "./support/browser.ts";
import { needs } from "./support/needs.ts";
import { DOCUMENTS, read } from "./support/readme.ts";

const MERMAID = Deno.env.get("MERMAID") ?? "";

/** A block of Markdown with a diagram. */
const DIAGRAM = /^```mermaid\n(.*?)^```$/gms;

needs("CHROMIUM", "MERMAID").test(
  "Mermaid draws every diagram in the documents",
  async () => {
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
);
