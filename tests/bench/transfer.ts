/**
 * Measures export and import of many plants, with rising and with random ids,
 * and prints one table in Markdown: plants a second, and the most memory that
 * the program held. Every import begins with a new store.
 */
import { parseArgs } from "node:util";

const USAGE = `usage: deno run -A tests/bench/transfer.ts [options]

  --plants N    plants in each store (1000000)
  --rounds N    rounds; the table shows the best of them (3)
  --dir DIR     where the stores go (the system's temporary directory)`;

/** How often the memory of a running program is looked at. */
const SAMPLE_MS = 50;

const PROJECT = new URL("../../", import.meta.url).pathname;

/** A compiled binary, or else the program from source. */
const BINARY = Deno.env.get("PLANT_STORE");

const FROM_SOURCE = ["run", "--no-prompt", "--allow-net", "--allow-read"]
  .concat("--allow-write", "--allow-env", `${PROJECT}main.ts`);

interface Run {
  readonly seconds: number;
  readonly peakBytes: number;
}

/** Writes a file of plants as an import reads them. */
function makeLines(path: string, kind: "rising" | "random", plants: number) {
  const random = new BigInt64Array(1);
  using file = Deno.openSync(path, { write: true, create: true });
  const encoder = new TextEncoder();
  let text = "";
  for (let i = 0; i < plants; i++) {
    crypto.getRandomValues(random);
    const id = kind === "rising" ? i : random[0];
    text += `{"id":${id},"name":"Plant number ${i}","tag":"tropical"}\n`;
    if (text.length < 1 << 20 && i < plants - 1) continue;
    const bytes = encoder.encode(text);
    let written = 0;
    while (written < bytes.length) {
      written += file.writeSync(bytes.subarray(written));
    }
    text = "";
  }
}

/** Runs the program to its end, with stdout into a file. */
async function run(args: readonly string[], output: string): Promise<Run> {
  const program = BINARY === undefined
    ? [Deno.execPath(), ...FROM_SOURCE, ...args]
    : [BINARY, ...args];
  const startMs = performance.now();
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", 'output="$0"; exec "$@" > "$output"', output, ...program],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let peakBytes = 0;
  const sampling = setInterval(() => {
    peakBytes = Math.max(peakBytes, residentBytesMax(child.pid));
  }, SAMPLE_MS);
  const { success, stderr } = await child.output();
  clearInterval(sampling);
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return { seconds: (performance.now() - startMs) / 1000, peakBytes };
}

/** The most memory that a process ever held, as Linux tells it. */
function residentBytesMax(pid: number): number {
  try {
    const status = Deno.readTextFileSync(`/proc/${pid}/status`);
    return 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0);
  } catch {
    return 0;
  }
}

async function bench(plants: number, rounds: number, dir: string) {
  console.log("| command | ids | plants/s | seconds | peak memory |");
  console.log("| ------- | --- | -------- | ------- | ----------- |");
  for (const kind of ["rising", "random"] as const) {
    const lines = `${dir}/${kind}.ndjson`;
    makeLines(lines, kind, plants);
    const store = `${dir}/${kind}.db`;
    const runs: Record<string, Run[]> = {};
    for (let round = 0; round < rounds; round++) {
      await removeStore(store);
      const commands = {
        "import": ["import", lines],
        "import again": ["import", lines],
        "export": ["export"],
      };
      for (const [name, command] of Object.entries(commands)) {
        const result = await run(
          [...command, "--kv", store],
          `${dir}/exported.ndjson`,
        );
        (runs[name] ??= []).push(result);
      }
    }
    await removeStore(store);
    for (const [name, results] of Object.entries(runs)) {
      const seconds = Math.min(...results.map(({ seconds }) => seconds));
      const bytes = Math.max(...results.map(({ peakBytes }) => peakBytes));
      console.log(
        `| ${name} | ${kind} | ${Math.round(plants / seconds)} ` +
          `| ${seconds.toFixed(1)} | ${Math.round(bytes / 1e6)} MB |`,
      );
    }
  }
}

async function removeStore(store: string): Promise<void> {
  for (const ending of ["", "-wal", "-shm"]) {
    await Deno.remove(store + ending).catch(() => {});
  }
}

async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      plants: { type: "string", default: "1000000" },
      rounds: { type: "string", default: "3" },
      dir: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const [plants, rounds] = [Number(values.plants), Number(values.rounds)];
  if (values.help || !(plants > 0) || !(rounds > 0)) {
    console.log(USAGE);
    return values.help ? 0 : 2;
  }
  const dir = await Deno.makeTempDir({
    prefix: "plants-transfer-",
    ...(values.dir && { dir: values.dir }),
  });
  try {
    await bench(plants, rounds, dir);
    return 0;
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
