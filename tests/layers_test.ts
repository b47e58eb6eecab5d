/** The imports of src, held against the list of its layers in src/README.md. */
import assert from "node:assert/strict";
import { posix } from "node:path";
import { filesIn, read } from "./support/readme.ts";

/** A file, by its path in src, and its text. */
type Source = readonly [path: string, text: string];

/** Returns the files and folders in the list, from the top to the bottom. */
function layersIn(readme: string): string[] {
  const [, layout = ""] = readme.split("## The layout\n");
  const [, list = ""] = /\n((?: {4}.*\n)+)/.exec(layout) ?? [];
  let folder = "";
  return list.split("\n").flatMap((line) => {
    // A name and what is there, or several files. What is in a folder is
    // indented below it; what continues a line is indented further.
    const [, indent, names = ""] =
      /^ {4}( {2})?((?:[\w/]+(?:\/|\.ts) *)+)/.exec(line) ?? [];
    const own = names.split(/ +/).filter((name) => name !== "");
    if (indent !== undefined) return own.map((name) => folder + name);
    folder = own[0] ?? folder;
    return own;
  });
}

/** Returns a sentence for each import that goes up, and each unlisted file. */
function problemsOf(
  sources: readonly Source[],
  layers: readonly string[],
): string[] {
  // A folder may be in another one: the last name that fits is its own.
  const layerOf = (path: string) =>
    layers.findLastIndex((it) =>
      it.endsWith("/") ? path.startsWith(it) : path === it
    );
  return sources.flatMap(([path, text]) => {
    const layer = layerOf(path);
    if (layer === -1) return [`${path} is not in the list`];
    const imports = text.matchAll(/\b(?:from|import)\s*\(?\s*"(\.[^"]*)"/g);
    return Array.from(imports, ([, it = ""]) => it)
      .map((it) => posix.join(posix.dirname(path), it))
      // The version of the program.
      .filter((imported) => imported !== "../deno.json")
      .filter((imported) => layerOf(imported) < layer)
      .map((imported) => `${path} imports ${imported}`);
  });
}

Deno.test("every file of src imports only from its own folder and from what is below it in the list of src/README.md", () => {
  const sources = filesIn("src/")
    .filter((path) => /\.[jt]s$/.test(path))
    .map((path): Source => [path.slice("src/".length), read(path)]);
  assert.ok(sources.length > 0);
  assert.deepEqual(problemsOf(sources, layersIn(read("src/README.md"))), []);
});

/** A list with a part of a folder below it, and with two files on one line. */
const LIST = `
## The layout

    cli.ts         commands
    http/          server, handler (see
                   text.ts)
      files/       what it reads
      error.ts     what goes wrong
    text.ts    version.ts

A file imports only from its own folder and from what is below it.

    Another block
`;

Deno.test("layersIn() returns the names in the list, from the top to the bottom", () => {
  assert.deepEqual(layersIn(LIST), [
    "cli.ts",
    "http/",
    "http/files/",
    "http/error.ts",
    "text.ts",
    "version.ts",
  ]);
});

Deno.test("problemsOf() returns imports from above, and files in no listed folder", () => {
  const layers = layersIn(LIST);
  for (
    const [path, imported, problem] of [
      ["http/handler.ts", "./server.ts"],
      ["http/handler.ts", "./files/read.ts"],
      ["http/handler.ts", "./error.ts"],
      ["http/files/read.ts", "../error.ts"],
      ["http/error.ts", "./files/read.ts", "imports http/files/read.ts"],
      ["http/error.ts", "./server.ts", "imports http/server.ts"],
      ["http/handler.ts", "../text.ts"],
      ["http/handler.ts", "../cli.ts", "imports cli.ts"],
      ["http/files/read.ts", "../server.ts", "imports http/server.ts"],
      ["http/other/read.ts", "../server.ts"],
      ["version.ts", "./text.ts", "imports text.ts"],
      ["version.ts", "../deno.json"],
      ["text.ts", "../tests/support/readme.ts", "imports ../tests/support/"],
      ["text.ts", "./store/open.ts", "imports store/open.ts"],
      ["store/open.ts", "./health.ts", "is not in the list"],
      ["other.ts", "./text.ts", "is not in the list"],
    ] as const
  ) {
    for (
      const text of [
        `import { a } from "${imported}";`,
        `import type {\n  A,\n} from "${imported}";`,
        `export * from "${imported}";`,
        `import "${imported}";`,
        `await import("${imported}");`,
      ]
    ) {
      const problems = problemsOf([[path, text]], layers);
      assert.equal(problems.length, problem === undefined ? 0 : 1, text);
      for (const found of problems) {
        assert.ok(found.startsWith(`${path} ${problem}`), found);
      }
    }
  }
});
