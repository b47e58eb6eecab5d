/** The blocks of the handbook, run as they are printed, on a Debian with systemd. */
import assert from "node:assert/strict";
import { Machine, onMachine } from "../support/machine.ts";
import { blockOf } from "../support/readme.ts";

onMachine.test("the commands that deploy the service start it, and change nothing the second time", async () => {
  await using machine = await Machine.boot();
  const deploy = blockOf("## Deploy");
  assert.match(await machine.succeed(deploy), /^HTTP\/1\.1 200 /m);
  const look = `stat -c '%a %U:%G' /etc/plant-store.* /usr/local/bin/plant-store
    cat /etc/plant-store.token; systemctl show -P MainPID plant-store`;
  const before = await machine.succeed(look);
  assert.match(
    before,
    /^600 root:root\n640 root:plant-store\n755 root:root\n[0-9a-f]{64}\n[1-9]\d*\n$/,
  );
  await machine.succeed(deploy);
  assert.equal(await machine.succeed(look), before);
});
