import { replaced } from "./replaced.ts";

/** What a command in this process has printed, and its result. */
interface Printed<Result> {
  readonly result: Result;
  readonly stdout: string;
  /** Without the line break at its end. */
  readonly stderr: string;
}

/** Bytes that stdout accepts at once, as a pipe that is nearly full does. */
const WRITE_BYTES_MAX = 1_000;

/** Runs a command in this process, without printing anything. */
export async function capture<Result>(
  run: () => Result | Promise<Result>,
): Promise<Printed<Result>> {
  const decoder = new TextDecoder();
  const lines: string[] = [];
  let stdout = "";
  // A command writes to the streams of its process, and to no others.
  using _stdout = replaced(Deno.stdout, "write", (bytes) => {
    const accepted = bytes.subarray(0, WRITE_BYTES_MAX);
    stdout += decoder.decode(accepted, { stream: true });
    return Promise.resolve(accepted.length);
  });
  using _stderr = replaced(console, "error", (line) => void lines.push(line));
  const result = await run();
  return { result, stdout, stderr: lines.join("\n") };
}
