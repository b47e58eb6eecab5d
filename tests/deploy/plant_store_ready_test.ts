/** The script that runs after each start under systemd. */
import assert from "node:assert/strict";
import { BackgroundProcess, type Ended } from "../support/background.ts";
import { ROOT } from "../support/readme.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

Deno.test("a start waits for a service that does not listen yet, and fails soon if it is not ready or has ended", async () => {
  using directory = new TemporaryDirectory();
  const program = directory.file("plant-store");
  const tries = directory.file("tries");
  // The pauses between the tries take no time here.
  Deno.writeTextFileSync(directory.file("sleep"), "#!/bin/sh\n", {
    mode: 0o755,
  });
  const PATH = `${directory.path}:/bin:/usr/bin`;
  const after = (script: string, MAINPID = `${Deno.pid}`): Promise<Ended> => {
    Deno.writeTextFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const path = new URL("src/deploy/plant-store-ready", ROOT).pathname;
    const env = { PATH, MAINPID };
    const options = { args: [path], env, clearEnv: true };
    return new BackgroundProcess("/bin/sh", options).ended();
  };
  const ready = await after(`echo >> ${tries}
    [ $(wc -l < ${tries}) -lt 40 ] || exit 0
    echo 'no answer from 127.0.0.1: connect ECONNREFUSED' >&2; exit 1`);
  assert.deepEqual([ready.status, ready.stderr], [0, ""]);
  const fails = await after(
    "echo '127.0.0.1 answers /readyz with 503' >&2; exit 1",
  );
  assert.equal(fails.status, 1);
  assert.match(fails.stderr, /^<3>the start has failed: .* with 503$/m);
  const ended = await after("echo ECONNREFUSED; exit 1", "999999999");
  assert.deepEqual([ended.status, ended.stderr], [1, ""]);
});
