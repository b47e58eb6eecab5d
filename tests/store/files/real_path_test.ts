import assert from "node:assert/strict";
import { realPathOf } from "../../../src/store/files/real_path.ts";
import { TemporaryDirectory } from "../../support/temporary.ts";

Deno.test("realPathOf() follows links to a file that exists or is missing", () => {
  using directory = new TemporaryDirectory();
  const real = directory.file("data/plants.db");
  Deno.mkdirSync(directory.file("data"));
  Deno.symlinkSync("data/second.db", directory.file("first.db"));
  Deno.symlinkSync("../data/plants.db", directory.file("data/second.db"));
  Deno.symlinkSync("data", directory.file("linked"));
  for (const isThere of [false, true]) {
    if (isThere) Deno.createSync(real).close();
    for (
      const name of [
        "data/plants.db",
        "first.db",
        "linked/plants.db",
        "linked/second.db",
        "linked/../data/./plants.db",
      ]
    ) assert.equal(realPathOf(directory.file(name)), real, name);
  }
});

Deno.test("realPathOf() keeps a path that cannot be examined, as an absolute one", () => {
  using directory = new TemporaryDirectory();
  Deno.symlinkSync("loop", directory.file("loop"));
  Deno.symlinkSync("missing/plants.db", directory.file("dangling"));
  for (const name of ["loop", "loop/plants.db", "missing/plants.db"]) {
    assert.equal(realPathOf(directory.file(name)), directory.file(name));
  }
  const missing = directory.file("missing/plants.db");
  assert.equal(realPathOf(directory.file("dangling")), missing);
  assert.equal(realPathOf("missing/../x"), `${Deno.realPathSync(".")}/x`);
});
