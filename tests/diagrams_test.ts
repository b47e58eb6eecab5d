/**
 * The diagrams in the documents, drawn by Mermaid in Chromium. The environment
 * names the tools: CHROMIUM is the path of Chromium, MERMAID that of the script
 * of Mermaid (mermaid.min.js).
 */
import assert from "node:assert/strict";
import { Browser, CHROMIUM } from "./support/browser.ts";

const MERMAID = Deno.env.get("MERMAID") ?? "";

const ROOT = new URL("../", import.meta.url);

/** A block of Markdown with a diagram. */
const DIAGRAM = /^```mermaid\n(.*?)^```$/gms;

/** Returns the paths of the documents in a folder. */
function documentsIn(folder: string): string[] {
  return Array.from(Deno.readDirSync(new URL(folder, ROOT))).flatMap(
    ({ name, isDirectory }) => {
      if (isDirectory) return documentsIn(`${folder}${name}/`);
      return name.endsWith(".md") ? [folder + name] : [];
    },
  );
}

Deno.test({
  name: "Mermaid draws every diagram in the documents",
  ignore: CHROMIUM === "" || MERMAID === "",
  fn: async () => {
    await using browser = new Browser();
    await using tab = await browser.openTab();
    await tab.evaluate(Deno.readTextFileSync(MERMAID));
    const problems: string[] = [];
    let diagrams = 0;
    const documents = ["README.md", ...["src/", "tests/"].flatMap(documentsIn)];
    for (const path of documents) {
      const document = Deno.readTextFileSync(new URL(path, ROOT));
      for (const [, text = ""] of document.matchAll(DIAGRAM)) {
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
