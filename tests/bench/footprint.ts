/**
 * Measures the compiled binary, and prints one table in Markdown: its size, the
 * time from its start to its first answer, and its resident memory when idle
 * and after a million creates. Needs wrk.
 *
 *     PLANT_STORE=./plant-store deno run -A tests/bench/footprint.ts
 */
import { resolve } from "node:path";
import { load, start, stop, TOKEN } from "./load.ts";

const STARTS = 20;
const CREATES = 1_000_000;
const LOAD = { connections: 64, seconds: 10 };

const BINARY = resolve(Deno.env.get("PLANT_STORE") ?? "plant-store");

/** Starts the binary on a new store, and waits for its first answer. */
async function answering(store: string) {
  const startMs = performance.now();
  const args = ["--port", "0", "--kv", store];
  const { child, url } = await start("the binary", BINARY, args);
  await (await fetch(`${url}/livez`)).body?.cancel();
  const startedMs = performance.now() - startMs;
  return { url, startedMs, [Symbol.asyncDispose]: () => stop(child) };
}

/** The value of one of the service's metrics. */
async function metric(url: string, name: string): Promise<number> {
  const headers = { "authorization": `Bearer ${TOKEN}` };
  const text = await (await fetch(`${url}/metrics`, { headers })).text();
  const line = text.split("\n").find((line) => line.startsWith(`${name} `));
  return Number(line?.slice(name.length));
}

const residentMb = async (url: string) =>
  (await metric(url, "process_resident_memory_bytes") / 1e6).toFixed(0);

const dir = await Deno.makeTempDir({ prefix: "plants-bench-" });
try {
  const startsMs: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    await using service = await answering(`${dir}/start-${i}.db`);
    startsMs.push(service.startedMs);
  }
  startsMs.sort((a, b) => a - b);

  await using service = await answering(`${dir}/creates.db`);
  const { url } = service;
  const idle = await residentMb(url);
  const name = 'plant_store_creates_total{outcome="stored"}';
  while (await metric(url, name) < CREATES) await load(url, "rising", LOAD);
  const loaded = await residentMb(url);

  const size = (await Deno.stat(BINARY)).size / 1e6;
  console.log(`| | |
| --- | --- |
| size of the binary | ${size.toFixed(1)} MB |
| start to first answer, median of ${STARTS} | ${
    startsMs[STARTS / 2]?.toFixed(0)
  } ms |
| resident memory, idle | ${idle} MB |
| resident memory after ${
    CREATES.toLocaleString("en")
  } creates | ${loaded} MB |`);
} finally {
  await Deno.remove(dir, { recursive: true });
}
