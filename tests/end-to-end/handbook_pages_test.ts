/** https and the pages beside the handbook, on a Debian with systemd. */
import assert from "node:assert/strict";
import { DENOKV, KV_ENV } from "../support/kv_server.ts";
import {
  BACK_UP,
  block,
  DEPLOY,
  INSTALL,
  type Machine,
  onMachine,
  onMachineWith,
  RESTORE,
  SWAP,
} from "../support/machine.ts";
import { blocksIn, read } from "../support/readme.ts";
import { makeCertificate } from "../support/tools.ts";

const withLitestream = onMachineWith("LITESTREAM");
const withDenokv = onMachineWith("DENOKV");

/** Makes a certificate and its key, `path.crt` and `path.key`. */
async function certify(machine: Machine, path: string): Promise<string> {
  const { cert } = await makeCertificate(machine.media, "tls");
  await machine.succeed(
    `for end in crt key; do cp /media/tls.$end ${path}.$end; done`,
  );
  return Deno.readTextFileSync(cert);
}

onMachine.test("clients reach the service through nginx", async (machine) => {
  const cert = await certify(machine, "/etc/ssl/plants.example.com");
  await machine.succeed(block("Deploy", 2));
  machine.service = await machine.connect(443, cert);
  await machine.acknowledges(100);
});

onMachine.test("the service serves https without nginx, and logs no warning", async (machine) => {
  const cert = await certify(machine, "/etc/plant-store");
  const last = (text: string) => text.trimEnd().split("\n").at(-1) ?? "";
  await machine.succeed(
    "sed -i 's/^#TLS/TLS/; s/^HOST=.*/HOST=0.0.0.0/' /etc/plant-store.env",
    last(block("Deploy")),
    last(INSTALL),
  );
  machine.service = await machine.connect(8000, cert);
  await machine.acknowledges(100);
  const warnings = await machine.succeed(
    "journalctl -u plant-store -p warning",
  );
  assert.match(warnings, /^.* Created a new store in .*\n$/);
});

onMachine.test("a new machine has the settings, the token and every plant of the last backup", async (machine) => {
  const { events } = machine.ledger;
  await machine.succeed(
    BACK_UP,
    // Both machines are this one.
    "printf '#!/bin/sh\\nshift; exec sh -c \"$*\"\\n' > /usr/local/bin/ssh",
    "chmod 755 /usr/local/bin/ssh",
    block("Back up").replaceAll(/^ *([\d*]+ ){5}root /gm, ""),
    "systemctl disable --now plant-store plant-store-backup.timer",
    "rm -r /var/lib/plant-store* /etc/plant-store* /etc/systemd/system/plant-store* /usr/local/bin/plant*",
    "userdel plant-store; useradd --system another; systemctl daemon-reload",
    "cp /var/backups/plant-store/plant-store.* /etc",
    "cp -r /var/backups/plant-store/plant-store-backups /var/lib",
  );
  await machine.succeed(DEPLOY, RESTORE, BACK_UP);
  machine.ledger.forgetSince(events);
});

onMachine.test("Debian's Prometheus has the metrics and the alerts", async (machine) => {
  const query = "127.0.0.1:9090/api/v1/query?query=plant_store_up";
  const checked = await machine.succeed(
    block("Plant Store with", 0, "prometheus/"),
    "cd /etc/prometheus; sed -i '/^rule_files:/a\\  - plant-store.yml' prometheus.yml",
    "sed -i 's/scrape_interval: 15s/scrape_interval: 1s/' prometheus.yml",
    "sed 's/^/  /' /root/deploy/prometheus/scrape.yml >> prometheus.yml",
    block("Plant Store with", 1, "prometheus/"),
    `until curl -s '${query}' | grep '"1"'; do sleep 0.1; done`,
  );
  assert.match(checked, /SUCCESS: \d+ rules found/);
});

withLitestream.test("the copy of Litestream has every plant of a store that is gone, also of a restored one", async (machine) => {
  const binary = Deno.env.get("LITESTREAM") ?? "";
  Deno.copyFileSync(binary, machine.media.file("litestream"));
  const install = block("Plant Store with", 0, "litestream/");
  await machine.succeed("cp /media/litestream .", install);
  for (let round = 1; round <= 2; round++) {
    await machine.succeed(
      "systemctl kill -s KILL plant-store plant-store-litestream",
      "last() { ls /var/lib/plant-store-litestream/ltx/0 | tail -n 1; }",
      'before=$(last); while [ "$(last)" = "$before" ]; do sleep 0.2; done',
    );
    await machine.acknowledges(100);
    const { events } = machine.ledger;
    // The stop copies what is left.
    await machine.succeed(
      "systemctl stop plant-store; rm -r /var/lib/plant-store/current",
      block("Plant Store with", 1, "litestream/"),
      block("Restore", 1),
      SWAP,
    );
    machine.ledger.forgetSince(events);
    await machine.assertHasAll();
  }
});

withDenokv.test("a service moves to a KV Connect server with every plant, and its backup has all of them", async (machine) => {
  Deno.copyFileSync(DENOKV, machine.media.file("denokv"));
  const token = KV_ENV.DENO_KV_ACCESS_TOKEN;
  const move = block("Plant Store on", 0, "kv-connect/")
    .replace("=TOKEN", `=${token}`);
  // Without a server, nothing changes.
  const { stderr } = await machine.run(move);
  assert.match(stderr, /http:\/\/10\.0\.0\.1:4512/);
  await machine.succeed(
    "ip address add 10.0.0.1/32 dev lo; cd /media",
    `./denokv --sqlite-path kv.db serve --addr 10.0.0.1:4512 --access-token ${token} >&- 2>&- &`,
    "until curl -s 10.0.0.1:4512; do sleep 0.1; done",
    move,
    "rm -r /var/lib/plant-store/current",
  );
  await machine.acknowledges(100);
  const { size } = machine.ledger.acknowledged;
  const count = "zcat /var/lib/plant-store-backups/* | wc -l";
  assert.ok(Number(await machine.succeed(BACK_UP, count)) >= size);
});

Deno.test("tests run every block of the handbook and of its pages, except that of the container", () => {
  const calls = [
    "support/machine.ts",
    "end-to-end/handbook_test.ts",
    "end-to-end/handbook_accidents_test.ts",
    "end-to-end/handbook_pages_test.ts",
    "end-to-end/nginx_test.ts",
  ].flatMap((file) => [
    ...read(`tests/${file}`)
      .matchAll(/\bblock\(\s*"([^"]+)"(?:, (\d))?(?:, "([^"]+)")?,?\s*\)/g),
  ]);
  for (const page of ["", "kv-connect/", "litestream/", "prometheus/"]) {
    for (const { heading, index } of blocksIn(`src/deploy/${page}README.md`)) {
      const isRun = calls.some(([, start = "", at = "0", of = ""]) =>
        of === page && heading.startsWith(start) && Number(at) === index
      );
      assert.ok(isRun, `block ${index} below ${page} ${heading}`);
    }
  }
});
