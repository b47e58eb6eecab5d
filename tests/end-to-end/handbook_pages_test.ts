/** https and the pages beside the handbook, on a Debian with systemd. */
import assert from "node:assert/strict";
import { KV_ENV } from "../support/kv_server.ts";
import {
  HANDBOOK,
  KV_CONNECT,
  LITESTREAM,
  PROMETHEUS,
} from "../support/handbook.ts";
import { IN_VERSION, Machine } from "../support/machine.ts";
import { isMissing, pathOf } from "../support/needs.ts";
import { TOKEN } from "../support/program.ts";
import { makeCertificate } from "../support/tools.ts";
import { eventually } from "../support/waiting.ts";

Deno.test({
  name:
    "clients reach the service through nginx, and are refused without https",
  ignore: isMissing("MACHINE", "openssl"),
  async fn() {
    await using machine = await Machine.deploy();
    await machine.succeed("echo 127.0.0.1 plants.example.com >> /etc/hosts");
    const getsCertificate = async () => {
      const proof = await machine.succeed(
        "certbot() { file=.well-known/acme-challenge/1",
        "  install -D /dev/stdin $4/$file <<< proof; curl -s http://$6/$file; }",
        HANDBOOK.GET_CERTIFICATE,
      );
      assert.equal(proof, "proof\n");
    };
    await getsCertificate();
    const { cert: path } = await makeCertificate(
      machine.media,
      "tls",
      "IP:127.0.0.1,DNS:plants.example.com",
    );
    const cert = Deno.readTextFileSync(path);
    const live = "/etc/letsencrypt/live/plants.example.com";
    const started = await machine.succeed(
      `mkdir -p ${live}; cp /media/tls.crt ${live}/fullchain.pem`,
      `cp /media/tls.key ${live}/privkey.pem`,
      "sed -i 's/^#BASE_URL/BASE_URL/' /etc/plant-store.env",
      IN_VERSION,
      HANDBOOK.COPY_NGINX,
      "echo '# edited' >> /etc/nginx/conf.d/plant-store.conf",
      HANDBOOK.COPY_NGINX,
      "grep edited /etc/nginx/conf.d/plant-store.conf",
      HANDBOOK.SERVE_WITH_NGINX,
    );
    assert.match(started, /^ready$/m);
    machine.service = await machine.connect(443, cert);
    await machine.ledger.acknowledges(100);
    const tried = await machine.succeed(
      "export CURL_CA_BUNDLE=/media/tls.crt",
      HANDBOOK.TRY_NGINX,
    );
    assert.match(tried, /^HTTP\/1.1 200 OK\r$/m);
    const insecure = await machine.succeed(
      "curl -si -H 'Host: plants.example.com' -d '{}' http://127.0.0.1/plants",
    );
    assert.match(insecure, /^HTTP\/1.1 400 [^]*"not an HTTPS request"/);
    await getsCertificate();
    const trace = await machine.succeed(
      "curl -sk -X TRACE https://[::1]/plants",
    );
    assert.match(trace, /^{"error":40501,/);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "the service serves https without nginx, also with a renewed certificate, and logs no warning",
  ignore: isMissing("MACHINE", "openssl"),
  async fn() {
    await using machine = await Machine.deploy();
    const live = "/etc/letsencrypt/live/plants.example.com";
    const renew = async () => {
      const { cert } = await makeCertificate(machine.media, "tls");
      await machine.succeed(
        `mkdir -p ${live}; cp /media/tls.crt ${live}/fullchain.pem`,
        `install -m 600 /media/tls.key ${live}/privkey.pem`,
      );
      const started = await machine.succeed(HANDBOOK.COPY_CERTIFICATE);
      assert.match(started, /^ready$/m);
      machine.service = await machine.connect(
        8000,
        Deno.readTextFileSync(cert),
      );
      await machine.ledger.acknowledges(100);
    };
    await machine.succeed(
      "sed -i 's/^#TLS/TLS/; s/^HOST=.*/HOST=0.0.0.0/' /etc/plant-store.env",
    );
    await renew();
    await renew();
    const warnings = await machine.succeed(
      "journalctl -u plant-store -p warning -o cat | grep -v 'is older than'",
      "true",
    );
    assert.equal(warnings, "");
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a new machine has the settings, the token and every plant of the last backup",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const backup = machine.ledger.now;
    const copies = "/var/backups/plant-store";
    // What the key is for, whatever is asked. Both machines are this one.
    const [, sent = ""] = /command="(.*)"/.exec(HANDBOOK.KEY_LINE) ?? [];
    await machine.succeed(
      HANDBOOK.BACK_UP,
      `printf '%s\n' '#!/bin/bash' '${sent}' > /usr/local/bin/ssh`,
      "chmod 755 /usr/local/bin/ssh",
      // There are 90 copies already.
      `mkdir -p ${copies} /etc/cron.d; cd ${copies}`,
      "touch plants-2020-01-01-0000{10..99}.jsonl.gz",
      `${IN_VERSION}/deploy`,
      HANDBOOK.COPY_BACKUPS,
      HANDBOOK.COPY_BACKUPS,
      "cat /etc/cron.d/plant-store; cd /root",
      "systemctl disable --now plant-store plant-store-backup.timer",
      "rm -r /var/lib/plant-store* /etc/plant-store* /etc/systemd/system/plant-store* /usr/local/bin/plant*",
      "userdel plant-store; useradd --system another; systemctl daemon-reload",
    );
    const kept = await machine.succeed(`ls ${copies}`);
    assert.match(kept, /^plants-2020-01-01-000011/);
    assert.equal(kept.match(/^plants-/gm)?.length, 90);
    const restored = await machine.succeed(
      HANDBOOK.GET,
      IN_VERSION,
      `cp ${copies}/plants-202[1-9]* .`,
      HANDBOOK.INSTALL_MACHINE,
      `echo ${TOKEN} > /etc/plant-store.token`,
      HANDBOOK.RESTORE_MACHINE,
      "systemctl is-active plant-store-backup.timer",
      HANDBOOK.BACK_UP,
    );
    assert.match(restored, /the service has the new store[^]*^active$/m);
    machine.ledger.forgetSince(backup);
    // Pasted again, it leaves out no plant.
    await machine.ledger.acknowledges(10);
    const again = await machine.run(
      IN_VERSION,
      HANDBOOK.INSTALL_MACHINE,
      HANDBOOK.RESTORE_MACHINE,
    );
    assert.match(again.stderr, /^plants-restore: the service is running, /m);
    await machine.assertHasAll();
  },
});

Deno.test({
  name: "Debian's Prometheus has the metrics and the alerts",
  ignore: isMissing("MACHINE"),
  async fn() {
    await using machine = await Machine.deploy();
    const query = "127.0.0.1:9090/api/v1/query?query=plant_store_up";
    const checked = await machine.succeed(
      IN_VERSION,
      PROMETHEUS.COPY_TOKEN_AND_ALERTS,
      "cd /etc/prometheus; sed -i '/^rule_files:/a\\  - plant-store.yml' prometheus.yml",
      "sed -i 's/scrape_interval: 15s/scrape_interval: 1s/' prometheus.yml",
      "sed 's/^/  /' /root/plant-store-2*/deploy/prometheus/scrape.yml >> prometheus.yml",
      PROMETHEUS.CHECK_AND_RESTART,
      `until curl -s '${query}' | grep '"1"'; do sleep 0.1; done`,
    );
    assert.match(checked, /SUCCESS: \d+ rules found/);
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "the copy of Litestream has every plant of a store that is gone, also of a restored one",
  ignore: isMissing("MACHINE", "LITESTREAM"),
  async fn() {
    await using machine = await Machine.deploy();
    Deno.copyFileSync(pathOf("LITESTREAM"), machine.media.file("litestream"));
    const place = "file:///var/lib/plant-store-litestream";
    const started = await machine.succeed(
      `${IN_VERSION}; cp /media/litestream .`,
      `sed -i 's|WHERE-THE-COPY-GOES|${place}|' deploy/litestream/litestream.yml`,
      LITESTREAM.INSTALL,
      LITESTREAM.START,
    );
    assert.match(started, /\/plants\.db +file$[^]*^active$/m);
    /** Loses the store, and restores the copy. */
    async function restoreCopy(): Promise<void> {
      await machine.ledger.acknowledges(100);
      const copied = machine.ledger.now;
      // The stop copies what is left.
      await machine.succeed(
        "systemctl stop plant-store; rm -r /var/lib/plant-store/current",
        LITESTREAM.RESTORE,
      );
      machine.ledger.forgetSince(copied);
      await machine.assertHasAll();
    }
    await machine.ledger.acknowledges(100);
    const isCopied = async () => {
      const tried = await machine.succeed(LITESTREAM.TRY);
      return Number(/^\d+$/m.exec(tried)) >= 100;
    };
    await eventually(isCopied);
    await machine.succeed(
      "systemctl kill -s KILL plant-store plant-store-litestream",
      "last() { ls /var/lib/plant-store-litestream/ltx/0 | tail -n 1; }",
      'before=$(last); while [ "$(last)" = "$before" ]; do sleep 0.2; done',
    );
    await restoreCopy();
    // The disk of the copy was replaced by an empty one.
    await machine.succeed(
      "rm -r /var/lib/plant-store-litestream/*",
      "systemctl stop plant-store-litestream; rm -rf /var/lib/plant-store-litestream/*",
      LITESTREAM.BEGIN_NEW_COPY,
      "until ls /var/lib/plant-store-litestream/ltx/0/*; do sleep 0.2; done",
    );
    await restoreCopy();
    // It has the store open, and a restore does not wait for it, whole or deleted.
    const isActive = "systemctl is-active plant-store-litestream";
    await machine.succeed(isActive, HANDBOOK.RESTORE);
    await machine.assertHasAll();
    await machine.succeed(
      isActive,
      "rm /var/lib/plant-store/current/*",
      HANDBOOK.RESTORE,
    );
    await machine.assertHasAll();
  },
});

Deno.test({
  name:
    "a service moves to a KV Connect server with every plant, and its backup has all of them",
  ignore: isMissing("MACHINE", "DENOKV"),
  async fn() {
    await using machine = await Machine.deploy();
    Deno.copyFileSync(pathOf("DENOKV"), machine.media.file("denokv"));
    const token = KV_ENV.DENO_KV_ACCESS_TOKEN;
    const name = KV_CONNECT.NAME_SERVER
      .replace(/read .*$/m, `DENO_KV_ACCESS_TOKEN=${token}`);
    const copy = name + KV_CONNECT.COPY;
    // In another shell, and without a server, nothing changes.
    for (const block of [KV_CONNECT.COPY, KV_CONNECT.USE_SERVER]) {
      const other = await machine.run(block);
      assert.match(other.stderr, /(KV|copied): parameter null or not set/);
      assert.doesNotMatch(other.stdout, /copied|ready/);
    }
    const { stdout, stderr } = await machine.run(copy);
    assert.doesNotMatch(stdout, /copied/);
    assert.match(stderr, /http:\/\/10\.0\.0\.1:4512/);
    const moved = await machine.succeed(
      "systemctl start plant-store; ip address add 10.0.0.1/32 dev lo; cd /media",
      `./denokv --sqlite-path kv.db serve --addr 10.0.0.1:4512 --access-token ${token} >&- 2>&- &`,
      "until curl -s 10.0.0.1:4512; do sleep 0.1; done",
      copy,
      KV_CONNECT.USE_SERVER,
      "rm -r /var/lib/plant-store/current",
    );
    assert.match(moved, /^copied$[^]*^ready$/m);
    const again = await machine.run(copy);
    assert.equal(again.stdout, "");
    await machine.ledger.acknowledges(100);
    const { size } = machine.ledger.acknowledged;
    const count = "zcat /var/lib/plant-store-backups/* | wc -l";
    const counted = await machine.succeed(HANDBOOK.BACK_UP, count);
    assert.ok(Number(/^\d+$/m.exec(counted)) >= size);
    await machine.assertHasAll();
  },
});
