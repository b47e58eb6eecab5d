/** The blocks of the page about containers, run as they are printed, with Podman. */
import assert from "node:assert/strict";
import { BackgroundProcess } from "../support/background.ts";
import { createDuring } from "../support/instances.ts";
import { block } from "../support/machine.ts";
import { needs } from "../support/needs.ts";
import { TOKEN } from "../support/program.ts";
import { ROOT } from "../support/readme.ts";
import { freePort } from "../support/tools.ts";
import { eventually } from "../support/waiting.ts";

/**
 * Makes a place for root whose changes to /etc and to the backups, and whose
 * containers, are its own. It has a clone and the images of this machine.
 */
const PLACE = `set -e; cd $0; mkdir bin clone etc storage run
  mount -t tmpfs tmpfs etc; mkdir etc/upper etc/work
  mount -t overlay -o lowerdir=/etc,upperdir=$PWD/etc/upper,workdir=$PWD/etc/work overlay /etc
  mount -t tmpfs tmpfs /var/backups; mount --bind storage storage
  cp -r $1/src clone
  printf '%s\\n' '#!/bin/sh' "exec $(command -v docker) --root $PWD/storage --runroot $PWD/run \\
    --storage-opt additionalimagestore=/var/lib/containers/storage \\"\\$@\\"" > bin/docker
  printf '%s\\n' '#!/bin/sh' "cp $2 plant-store" > bin/deno
  chmod 755 bin/*; echo made >&2; exec sleep infinity`;

needs("docker").test(
  "a container is deployed, backed up, restored and upgraded, and loses nothing",
  async ({ directory, ledger }) => {
    const { path } = directory;
    const program = Deno.env.get("PLANT_STORE") ?? "";
    const port = freePort();
    const args = [path, ROOT.pathname, program, `${port}`];
    await using place = new BackgroundProcess("unshare", {
      args: ["--mount", "bash", "-c", PLACE, ...args],
    });
    await place.printed(/^made$/m);

    /** Runs blocks in the clone; the service has a port of its own. */
    async function run(...commands: readonly string[]): Promise<string> {
      const script = commands.join("\n")
        .replaceAll("127.0.0.1:8000", `127.0.0.1:${port}`)
        .replaceAll("/var/lib/plant-store", `${path}/lib`);
      const { pid } = place.process;
      const { status, stdout, stderr } = await new BackgroundProcess(
        "nsenter",
        {
          args: [
            `--wdns=${path}/clone`,
            "-m",
            "-t",
            `${pid}`,
            "bash",
            "-c",
            script,
          ],
          env: { PATH: `${path}/bin:${Deno.env.get("PATH")}` },
        },
      ).ended();
      assert.equal(status, 0, `${script}\n${stdout}${stderr}`);
      return stdout + stderr;
    }
    await using stack = new AsyncDisposableStack();
    stack.defer(async () => {
      await run("docker rm -f plant-store || true");
    });

    const image = block("1. Build", 0, "container/");
    const create = block("3. Create the store", 0, "container/");
    const start = block("4. Start it", 0, "container/");
    const backUp = block("Back up", 0, "container/");
    const copy = block("Files that", 0, "container/");
    const restore = block("Restore", 0, "container/");
    const swap = block("Restore", 1, "container/");
    const saved = block("Upgrade", 0, "container/");
    const target = { origin: `http://127.0.0.1:${port}` };
    const { acknowledged } = ledger;
    const grows = async (): Promise<void> => {
      const { size } = acknowledged;
      await eventually((it) => it > size + 200, () => acknowledged.size);
    };

    await run(image);
    await run(
      "mkdir -p /etc/plant-store",
      `echo ${TOKEN} > /etc/plant-store/token`,
      // Replaces no token.
      block("2. Make", 0, "container/"),
      "chown 65532 /etc/plant-store/token; mkdir /var/lib/plant-store",
    );
    // There is no store to start with.
    const refused = await run(`! { ${start.trim()}\n }`);
    assert.match(refused, /plants\.db: no such file: /);
    await run(create);
    assert.match(await run(start), /^ready$/m);
    await createDuring([target], ledger, async () => {
      await grows();
      assert.match(await run(backUp), /plants-[\d-]+\.jsonl\.gz$/m);
      await grows();
      const { size } = acknowledged;
      // A backup that is cut is not added.
      await run(
        "cd /var/backups/plant-store; good=$(ls); sleep 1",
        "head -c -4 $good > plants-2999-01-01-053000.jsonl.gz",
      );
      const cut = await run(restore, "true");
      assert.match(cut, /unexpected end of file/);
      await run("rm /var/backups/plant-store/plants-2999*");
      const restored = await run(restore, swap);
      const [, old, added] = /^([1-9]\d*) created, [^]*^(\d+) created, /m
        .exec(restored) ?? [];
      assert.ok(Number(old) >= size, restored);
      assert.equal(added, "0");
      assert.match(restored, /^restored; later: rm -r /m);
      await grows();
      // The second day: every block again uses the restored store.
      const listed = await run(block("2. Make", 0, "container/"), create);
      assert.match(listed, /^\/var\/backups\/plant-store\/plants-/m);
      assert.match(await run(start), /^ready$/m);
      await grows();
      await run(image);
      assert.match(await run(saved), /^saved$/m);
      assert.match(await run(start), /^ready$/m);
      await grows();
      await run("rm -r /var/lib/plant-store/*");
      await run(
        "until docker logs plant-store 2>&1 | grep 'the store fails'; do sleep 0.2; done",
        copy,
      );
      await grows();
    });
    assert.match(
      await run("ls /var/backups/plant-store"),
      /^(plants-.*\n){2}$/,
    );
    const stored = await run("docker exec -i plant-store /plant-store export");
    ledger.assertLines(stored);
  },
);
