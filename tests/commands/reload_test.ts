import assert from "node:assert/strict";
import { AcceptedTokens } from "../../src/http/auth.ts";
import { reload } from "../../src/commands/reload.ts";
import { logOf } from "../support/console.ts";
import { test } from "../support/tests.ts";

test("reload() replaces the tokens with those in the file, unless one is invalid", ({ directory }) => {
  const path = directory.file("tokens");
  const file = { name: "--token-file", path };
  const tokens = new AcceptedTokens(["old"]);
  const { log, written } = logOf("journal");
  for (const text of ["a\nb\na\n", "c\nd e\n"]) {
    Deno.writeTextFileSync(path, text);
    reload(file, tokens, log);
    const accepted = ["a", "b", "c", "old"]
      .filter((token) => tokens.check(`Bearer ${token}`) === undefined);
    assert.deepEqual(accepted, ["a", "b"]);
  }
  const [reloaded, kept = "", ...others] = written;
  assert.equal(reloaded, `<6>reloaded 2 tokens from ${path}`);
  assert.match(kept, /^<3>the tokens did not change: --token-file: .*token 2 /);
  assert.deepEqual(others, []);
});

Deno.test("reload() says that there is no token file", () => {
  const { log, written } = logOf("journal");
  reload(undefined, new AcceptedTokens(["a"]), log);
  const message = "nothing to reload: no token file is configured";
  assert.deepEqual(written, [`<6>${message}`]);
});

test("reload() reads no pipe or device, which could block the service", ({ directory }) => {
  const path = directory.file("tokens");
  Deno.symlinkSync("/dev/null", path);
  const { log, written } = logOf("journal");
  reload({ name: "--token-file", path }, new AcceptedTokens(["a"]), log);
  assert.match(written.join(), /: cannot read \S+: it is not a regular file$/);
});
