/** https, several machines and the pages beside the handbook, on a Debian with systemd. */
import assert from "node:assert/strict";
import { DENOKV, KV_ENV } from "../support/kv_server.ts";
import { newPlants, range } from "../support/plants.ts";
import { block, cronJobs, Machine, onMachine } from "../support/machine.ts";
import { needs } from "../support/needs.ts";
import { blocksIn, read } from "../support/readme.ts";

const RESTORE = block("Restore");

onMachine.test("the service answers behind nginx, which hides the metrics", async () => {
  await using machine = await Machine.start();
  const cert = await machine.certify();
  await machine.succeed(block("https"));
  machine.service = await machine.connect(443, cert);
  await machine.load();
  await machine.assertHasAll();
  for (const path of ["/metrics", "/base/metrics"]) {
    const reply = await machine.run(
      `curl -sk https://127.0.0.1${path} -w '%{http_code}'`,
    );
    assert.match(reply.stdout, /^{"error":40401,"message":".*"}404$/);
  }
});

onMachine.test("the service answers over https without a proxy, and a missing certificate is named", async () => {
  await using machine = await Machine.start();
  const missing = await machine.run(block("https", 1));
  assert.notEqual(missing.status, 0);
  const journal = await machine.succeed("journalctl -b -u plant-store");
  assert.match(journal, /status=243\/CREDENTIALS/);
  const cert = await machine.certify();
  await machine.succeed("chmod 600 /etc/ssl/plants.example.com.key");
  await machine.succeed(block("https", 1), "plants check; plants healthcheck");
  // The credentials are gone then.
  await machine.succeed("plants stop", block("Settings"));
  machine.service = await machine.connect(8000, cert);
  await machine.underLoad(() => machine.succeed("plants restart"));
  await machine.assertHasAll();
});

onMachine.test("two instances lose no request in a rolling restart, are restored, and become one again", async () => {
  await using machine = await Machine.start();
  const cert = await machine.certify();
  await machine.underLoad(() =>
    machine.succeed(block("Two instances", 0, "instances/"))
  );
  machine.service = await machine.connect(443, cert);
  machine.failures = 0;
  await machine.underLoad(() =>
    machine.succeed(block("Two instances", 1, "instances/"))
  );
  assert.equal(machine.failures, 0);
  const tokens = await machine.succeed("EDITOR=true", block("Tokens"));
  assert.equal(tokens.match(/: reloaded 1 token from /g)?.length, 2);
  await machine.assertHasAll();

  const copied = await machine.succeed(block("`rescuing its plants`", 1));
  assert.match(copied, /-copied\.db\n.*-copied\.db-wal\n/);
  await machine.succeed(block("Back up"));
  await machine.underLoad(() => machine.succeed(RESTORE));
  await machine.assertHasAll();
  const count = "systemctl list-units 'plant-store@*' | grep -c running";
  assert.equal(await machine.succeed(count), "2\n");
  await machine.succeed("plants stop", `! ${count}`, "plants start");

  await machine.underLoad(() =>
    machine.succeed(block("Two instances", 2, "instances/"))
  );
  await machine.succeed(`plants healthcheck; ! ${count}`);
  await machine.assertHasAll();
});

onMachine.test("a new machine has the settings, the certificate and every plant of the last backup", async () => {
  await using machine = await Machine.start();
  const cert = await machine.certify();
  await machine.succeed(
    "echo BASE_URL=https://plants.example.com >> /etc/plant-store.env",
    block("https", 1),
  );
  machine.service = await machine.connect(8000, cert);
  await machine.load();
  await machine.succeed(block("Back up"));
  const { stdout } = await machine.run(cronJobs(block("Back up", 3)));
  assert.equal(stdout, "");
  await machine.succeed(
    // Each of both machines is this one.
    `install -m 755 /dev/stdin /usr/local/bin/ssh <<< '#!/bin/sh
shift 3; exec sh -c "$*"'`,
    cronJobs(block("Back up", 2)),
    "plants stop; systemctl disable plant-store plant-store.target",
    "rm -r /var/lib/plant-store* /etc/plant-store* /etc/systemd/system/plant-store*",
    "rm /usr/local/bin/plant* /etc/ssl/plants*; userdel plant-store",
    "systemctl daemon-reload",
  );
  await machine.succeed(block("A new machine"), block("Deploy"));
  await machine.succeed(block("A new machine", 1), RESTORE);
  await machine.assertHasAll();
});

onMachine.test("Debian's Prometheus reads the metrics, each of which says what it means", async () => {
  await using machine = await Machine.start();
  const add = block("Plant Store with", 0, "prometheus/");
  const added = await machine.succeed(
    "sed -i 's/scrape_interval: 15s/scrape_interval: 1s/' /etc/prometheus/prometheus.yml",
    add,
    add,
    "grep -c 'job_name: plant-store' /etc/prometheus/prometheus.yml",
    "until curl -s '127.0.0.1:9090/api/v1/query?query=plant_store_up' | grep '\"1\"'; do sleep 0.1; done",
  );
  assert.match(added, /SUCCESS: \d+ rules found[^]*^1\n/m);
  const help = await machine.succeed(
    block("Plant Store with", 1, "prometheus/"),
  );
  assert.match(help, /^# HELP plant_store_up /m);
});

needs("MACHINE", "LITESTREAM").test(
  "if the store is damaged and a kill ends everything, the copy of Litestream has every plant that it had then",
  async () => {
    await using machine = await Machine.start();
    const { ledger, service } = machine;
    const check = [
      "until [ -S /run/plant-store-litestream/socket ]; do sleep 0.1; done",
      block("Check", 0, "litestream/"),
    ];
    const binary = Deno.env.get("LITESTREAM") ?? "";
    Deno.copyFileSync(binary, machine.file("litestream"));
    await machine.succeed(
      "cp /mnt/litestream .",
      block("Install", 0, "litestream/"),
      block("Install", 1, "litestream/"),
      "systemd-analyze verify /etc/systemd/system/plant-store-litestream.service",
      "grep -c 'plant-store@8001.service plant-store@8002' /etc/systemd/system/plant-store-litestream.service | grep -x 2",
      block("Install", 0, "litestream/"),
    );
    await machine.succeed(block("Install", 2, "litestream/"));
    await machine.underLoad(() =>
      machine.succeed(
        ...["sleep 1", "systemctl kill -s KILL plant-store-litestream"],
        ...[block("Back up"), "systemctl kill -s KILL plant-store; sleep 1"],
      )
    );
    const start = "systemctl start plant-store{,-litestream}";
    await machine.succeed(start, ...check);
    const { events } = ledger;
    await machine.underLoad(() =>
      machine.succeed(
        "sleep 1; systemctl kill -s KILL plant-store plant-store-litestream",
        "systemctl stop plant-store; rm /var/lib/plant-store/*",
      )
    );
    ledger.forgetSince(events);
    await machine.underLoad(() =>
      machine.succeed(block("Restore", 0, "litestream/"), RESTORE)
    );
    await machine.assertHasAll();
    // The new store is copied, also after a stop, and after a loss.
    await machine.succeed("plants restart", ...check);
    await ledger.store(service, newPlants(range(200n, 100)));
    await machine.succeed("rm /var/lib/plant-store/plants.db{,-wal,-shm}");
    await machine.printed(/^rescued all plants /m);
    await machine.succeed("plants restart", ...check);
    await machine.succeed(block("Restore", 0, "litestream/"), RESTORE);
    await machine.assertHasAll();
  },
);

needs("MACHINE", "DENOKV").test(
  "a service moves to a KV Connect server with every plant, also those that are created meanwhile",
  async () => {
    await using machine = await Machine.start();
    Deno.copyFileSync(DENOKV, machine.file("denokv"));
    const serve = block("Plant Store with", 0, "kv-connect/")
      .replace(/cargo install .*/, "cp /mnt/denokv /usr/local/bin")
      .replace("TOKEN=TOKEN", `TOKEN=${KV_ENV.DENO_KV_ACCESS_TOKEN}`)
      .replace(" &", " > /dev/null 2>&1 &");
    await machine.underLoad(() =>
      machine.succeed(
        serve,
        "curl -s --retry 9 --retry-connrefused 127.0.0.1:4512",
        block("Plant Store with", 1, "kv-connect/"),
        '[ "$(ls /var/lib/plant-store)" = plants.db.old ]',
      )
    );
    await machine.assertHasAll();
  },
);

Deno.test("a walk names every block of the handbook and of its pages, except that of the container", () => {
  const walks = ["", "_accidents", "_pages"]
    .map((name) => read(`tests/end-to-end/handbook${name}_test.ts`)).join("");
  const calls = walks.matchAll(
    /\bblock\(\s*"([^"]+)"(?:,\s*(\d+))?(?:,\s*"([^"]+)")?,?\s*\)/g,
  ).toArray();
  const pages = ["", "instances/", "kv-connect/", "litestream/", "prometheus/"];
  for (const page of pages) {
    for (const { heading, index } of blocksIn(`src/deploy/${page}README.md`)) {
      const isRun = calls.some(([, start = "", number = "0", of = ""]) =>
        of === page && heading.startsWith(start) && Number(number) === index
      );
      assert.ok(isRun, `block ${index} below ${page} ${heading}`);
    }
  }
});
