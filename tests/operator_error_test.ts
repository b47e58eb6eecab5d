import assert from "node:assert/strict";
import { fileFailure } from "../src/operator_error.ts";
import { TemporaryDirectory } from "./support/temporary.ts";

const { NotCapable } = Deno.errors;

Deno.test("fileFailure() recognizes by its class what an operator must change, whatever the path is", () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("malformed database is locked");
  Deno.writeTextFileSync(path, "");
  const denied = new NotCapable(
    `Requires read access to "${path}", run again with the --allow-read flag`,
  );
  for (
    const [read, message, exitStatus] of [
      [
        () => Deno.readTextFileSync(`${path}.txt`),
        /^x: No such file or directory \(os error 2\)$/,
        2,
      ],
      [
        () => Deno.readTextFileSync(`${path}/a`),
        /^x: Not a directory \(os error 20\)$/,
        2,
      ],
      [
        () => Deno.readTextFileSync(directory.path),
        /^x: Is a directory \(os error 21\)$/,
        2,
      ],
      [
        () => {
          throw denied;
        },
        /^x: Requires read access, run again with the --allow-read flag$/,
        2,
      ],
      [
        () => {
          throw new NotCapable(
            'Requires all access to "/dev/fd/63", run again with the --allow-all flag',
          );
        },
        /^x: Deno cannot open special files, or paths in \/dev, \/proc and \/sys$/,
        2,
      ],
      [
        () => {
          throw new Error(`Input/output error (os error 5): open '${path}'`);
        },
        /^x: Input\/output error \(os error 5\)$/,
        1,
      ],
    ] as const
  ) {
    assert.throws(read, (error) => {
      const failure = fileFailure("x", error);
      assert.match(failure.message, message);
      assert.equal(failure.exitStatus, exitStatus);
      return true;
    });
  }
});
