/**
 * The tools that some tests need. As a program, this file names those that are
 * missing, and what is not tested without them.
 */
import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { canMount } from "./temporary.ts";

/** Whether a machine has a tool, and what is tested with it. */
type Tool = readonly [isThere: () => boolean, tests: string];

/** A variable with the path of a tool. */
type PathVariable =
  | "AXE_CORE"
  | "CHROMIUM"
  | "DENOKV"
  | "LITESTREAM"
  | "NGINX"
  | "PROMTOOL";

/** Returns the path of a tool, or an empty text without it. */
export function pathOf(tool: PathVariable): string {
  return Deno.env.get(tool) ?? "";
}

/** A tool whose path is in a variable. */
function atPath(tool: PathVariable): () => boolean {
  return () => pathOf(tool) !== "";
}

/** A tool with which a command of the shell succeeds within a minute. */
function byCommand(command: string): () => boolean {
  return () => {
    // Deno.Command has no time limit for a process that is awaited synchronously.
    const { status } = spawnSync("sh", ["-c", command], {
      stdio: "ignore",
      timeout: 60_000,
      killSignal: "SIGKILL",
    });
    return status === 0;
  };
}

/** Whether the machine has the address of IPv6 for itself; many containers have none. */
function hasIpv6(): boolean {
  try {
    Deno.listen({ hostname: "::1", port: 0 }).close();
    return true;
  } catch {
    return false;
  }
}

/** How to run something in a copy of Debian whose changes are in memory. */
export const NSPAWN: readonly string[] = [
  "--quiet",
  "--register=no",
  "--keep-unit",
  "--volatile=overlay",
  "--directory",
  Deno.env.get("MACHINE") ?? "/nonexistent",
];

/** The image from which the image of the service is built. */
const BASE_IMAGE = "gcr.io/distroless/cc-debian12:nonroot";

const TOOLS = {
  DENOKV: [atPath("DENOKV"), "a store on a KV Connect server"],
  LITESTREAM: [atPath("LITESTREAM"), "a store that Litestream copies"],
  NGINX: [atPath("NGINX"), "nginx in front of the service"],
  CHROMIUM: [atPath("CHROMIUM"), "the API reference in a browser"],
  AXE_CORE: [atPath("AXE_CORE"), "the accessibility of the API reference"],
  MACHINE: [
    byCommand(`systemd-nspawn ${NSPAWN.join(" ")} true`),
    "the commands of the handbook, on a Debian with systemd",
  ],
  PROMTOOL: [
    atPath("PROMTOOL"),
    "metrics and alerts as Prometheus reads them",
  ],
  GATE: [
    () => (Deno.env.get("GATE") ?? "") !== "",
    "memory under load, on an idle machine",
  ],
  IPv6: [hasIpv6, "an address of IPv6"],
  Linux: [
    () => Deno.build.os === "linux",
    "devices that are full, and what is in /proc",
  ],
  container: [
    byCommand(
      `test -x "$PLANT_STORE" && docker image inspect ${BASE_IMAGE} && docker compose version`,
    ),
    "the commands for a container, with a compiled program",
  ],
  curl: [byCommand("curl --version"), "the sample in curl, and HTTP/2"],
  mount: [canMount, "full disks"],
  node: [byCommand("node --version"), "the sample in TypeScript with Node"],
  openssl: [byCommand("openssl version"), "https"],
  python3: [byCommand("python3 --version"), "the sample in Python"],
  setpriv: [
    byCommand("setpriv --bounding-set=-dac_override true"),
    "a directory that cannot be written",
  ],
  script: [
    byCommand("script -qec 'test -t 2' /dev/null"),
    "progress and signals on a terminal",
  ],
  strace: [
    byCommand("strace -f -o /dev/null true"),
    "power cuts, failing disks, and what commands do to files",
  ],
} as const satisfies Readonly<Record<string, Tool>>;

/**
 * The name of a tool. One in capitals is also a variable: `GATE` is 1, the others
 * are the path of the tool.
 */
export type ToolName = keyof typeof TOOLS;

/** The number of tests that a missing tool would enable. */
const skipped = new Map<ToolName, number>();

/** The tools that were looked for, and whether they are there. */
const found = new Map<ToolName, boolean>();

/** Whether this machine has a tool. */
function hasTool(name: ToolName): boolean {
  return found.getOrInsertComputed(name, TOOLS[name][0]);
}

/**
 * Returns whether this machine lacks one of the tools that a test needs, which is
 * ignored then. The test is counted for each of the missing ones.
 */
export function isMissing(...names: readonly ToolName[]): boolean {
  const missing = names.filter((name) => !hasTool(name));
  for (const tool of missing) skipped.set(tool, (skipped.get(tool) ?? 0) + 1);
  return missing.length > 0;
}

async function main(): Promise<void> {
  // They count what they skip.
  for (const file of globSync("tests/**/*_test.ts")) {
    await import(new URL(`../../${file}`, import.meta.url).href);
  }
  // The gate runs these with its binary, if the machine has the image.
  if (hasTool("GATE")) skipped.delete("container");
  if (skipped.size === 0) return;
  console.log("\nTests that a missing tool would enable (tests/README.md):");
  for (const [name, count] of skipped) {
    console.log(`  ${name.padEnd(10)} ${count} of ${TOOLS[name][1]}`);
  }
}

if (import.meta.main) main();
