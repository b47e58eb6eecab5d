import type { Result } from "./service.ts";

/** An import or an export of a million plants. */
export interface Transfer {
  readonly title: string;
  readonly command: "import" | "export";
  /** Whether the store is new. Otherwise it has all plants. */
  readonly isNew?: boolean;
}

const PLANTS = 1_000_000;

/** The output of `times` in sh: the CPU time of its children, user and system. */
const CHILD_TIMES = /\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s/;

/** Writes the plants that {@link measureTransfer} imports. */
export async function writePlants(path: string): Promise<void> {
  const lines = Array.from(
    { length: PLANTS },
    (_, i) => `{"id":${i + 1},"name":"Monstera deliciosa","tag":"climber"}\n`,
  );
  await Deno.writeTextFile(path, lines.join(""));
}

/** Runs a command of a checkout to its end. */
export async function measureTransfer(
  checkout: string,
  { command, isNew = false }: Transfer,
  { plants, store }: { readonly plants: string; readonly store: string },
): Promise<Result> {
  if (isNew) {
    await Deno.remove(store).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
  const args = ["run", "--no-prompt", "--allow-all", "main.ts", command];
  if (command === "import") args.push(plants);
  const startMs = performance.now();
  const { success, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", '"$0" "$@" > /dev/null && times', Deno.execPath(), ...args],
    cwd: checkout,
    env: { KV_PATH: store },
  }).output();
  const seconds = (performance.now() - startMs) / 1000;
  const decoder = new TextDecoder();
  if (!success) throw new Error(`${command} failed: ${decoder.decode(stderr)}`);
  const [, ...times] = CHILD_TIMES.exec(decoder.decode(stdout)) ?? [];
  const [userMinutes = 0, user = 0, systemMinutes = 0, system = 0] = times
    .map(Number);
  return {
    "seconds": seconds,
    "process s": 60 * (userMinutes + systemMinutes) + user + system,
  };
}
