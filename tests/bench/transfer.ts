/**
 * Measures import, repeated import and export of many plants, with rising and
 * with random ids: plants per second, and the peak memory of the program.
 */
import type { Options } from "./main.ts";
import { service } from "./servers.ts";
import { median, printTable } from "./tables.ts";

const PLANTS = 1_000_000;

/** Interval between two reads of the memory of a program. */
const SAMPLE_MS = 50;

/** One run of a command. */
interface Run {
  readonly seconds: number;
  readonly peakBytes: number;
}

const COMMANDS: Readonly<Record<string, (lines: string) => string[]>> = {
  "import": (lines) => ["import", lines],
  "import again": (lines) => ["import", lines],
  "export": () => ["export"],
};

/** Prints the table. */
export async function benchTransfer(options: Options): Promise<boolean> {
  const { directory, rounds } = options;
  const plants = options.plants || PLANTS;
  const rows = [["command", "ids", "plants/s", "seconds", "peak memory"]];
  for (const ids of ["rising", "random"] as const) {
    const lines = `${directory}/${ids}.ndjson`;
    writeLines(lines, ids, plants);
    const runs = new Map<string, Run[]>();
    for (let round = 0; round < rounds; round++) {
      const own = await Deno.makeTempDir({ dir: directory });
      for (const [name, command] of Object.entries(COMMANDS)) {
        const result = await run(command(lines), `${own}/plants.db`, own);
        runs.set(name, [...runs.get(name) ?? [], result]);
      }
      await Deno.remove(own, { recursive: true });
    }
    for (const [name, results] of runs) {
      const seconds = median(results.map(({ seconds }) => seconds));
      const bytes = Math.max(...results.map(({ peakBytes }) => peakBytes));
      rows.push([
        name,
        ids,
        String(Math.round(plants / seconds)),
        seconds.toFixed(1),
        `${Math.round(bytes / 1e6)} MB`,
      ]);
    }
  }
  printTable(rows);
  return true;
}

/** Writes a file of plants for an import. */
function writeLines(
  path: string,
  ids: "rising" | "random",
  plants: number,
): void {
  const random = new BigInt64Array(1);
  const encoder = new TextEncoder();
  using file = Deno.openSync(path, { write: true, create: true });
  let text = "";
  for (let i = 0; i < plants; i++) {
    crypto.getRandomValues(random);
    const id = ids === "rising" ? i : random[0];
    text += `{"id":${id},"name":"Plant number ${i}","tag":"tropical"}\n`;
    if (text.length < 1 << 20 && i < plants - 1) continue;
    for (let bytes = encoder.encode(text); bytes.length > 0;) {
      bytes = bytes.subarray(file.writeSync(bytes));
    }
    text = "";
  }
}

/** Runs a command of the program until it ends, with stdout into a file. */
async function run(
  command: readonly string[],
  store: string,
  directory: string,
): Promise<Run> {
  const serve = service().command(store);
  const program = serve.slice(0, serve.indexOf("--port"));
  const startMs = performance.now();
  const child = new Deno.Command("/bin/sh", {
    args: [
      ...["-c", 'output="$0"; exec "$@" >"$output"', `${directory}/stdout`],
      ...[...program, ...command, "--kv", store],
    ],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let peakBytes = 0;
  const sampling = setInterval(() => {
    peakBytes = Math.max(peakBytes, peakMemory(child.pid));
  }, SAMPLE_MS);
  const { success, stderr } = await child.output();
  clearInterval(sampling);
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return { seconds: (performance.now() - startMs) / 1000, peakBytes };
}

/** Returns the peak memory of a process in bytes, 0 without /proc. */
function peakMemory(pid: number): number {
  try {
    const status = Deno.readTextFileSync(`/proc/${pid}/status`);
    return 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0);
  } catch {
    return 0;
  }
}
