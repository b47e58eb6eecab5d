/**
 * Measures the compiled binary in PLANT_STORE: its size, the time from its
 * start to its first reply, and its resident memory when idle and after a
 * million creates.
 */
import type { Options } from "./main.ts";
import { metric, type Running, service, start } from "./servers.ts";
import { median, printTable } from "./tables.ts";
import { load } from "./wrk.ts";

const CREATES = 1_000_000;

/** Prints the table. */
export async function benchFootprint(options: Options): Promise<boolean> {
  const binary = Deno.env.get("PLANT_STORE");
  if (binary === undefined) throw new TypeError("PLANT_STORE names no binary");
  const startsMs: number[] = [];
  for (let round = 0; round < options.rounds; round++) {
    const startMs = performance.now();
    const running = await start(service(), `${options.directory}/${round}.db`);
    await (await fetch(`${running.url}/livez`)).body?.cancel();
    startsMs.push(performance.now() - startMs);
    await running.child.stop("SIGKILL");
  }

  const running = await start(service(), `${options.directory}/creates.db`);
  const idle = await residentMb(running);
  const name = 'plant_store_creates_total{outcome="stored"}';
  while (await metric(running.url, name) < CREATES) {
    const size = { connections: 64, seconds: 10 };
    await load(running, { ids: "rising" }, size);
  }
  const loaded = await residentMb(running);

  const megabytes = (await Deno.stat(binary)).size / 1e6;
  printTable([
    ["of the binary", ""],
    ["size", `${megabytes.toFixed(1)} MB`],
    ["start to first reply", `${median(startsMs).toFixed(0)} ms`],
    ["resident memory, idle", idle],
    [`the same after ${CREATES.toLocaleString("en")} creates`, loaded],
  ]);
  return true;
}

async function residentMb({ url }: Running): Promise<string> {
  const bytes = await metric(url, "process_resident_memory_bytes");
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
