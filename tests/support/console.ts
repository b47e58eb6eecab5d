/** What a command in this process has printed, and its result. */
interface Printed<Result> {
  readonly result: Result;
  readonly stdout: string;
  /** Without the line break at its end. */
  readonly stderr: string;
}

/** Runs a command in this process, without printing anything. */
export async function capture<Result>(
  run: () => Result | Promise<Result>,
): Promise<Printed<Result>> {
  const { write } = Deno.stdout;
  const { error } = console;
  const decoder = new TextDecoder();
  const lines: string[] = [];
  let stdout = "";
  Deno.stdout.write = (bytes) => {
    stdout += decoder.decode(bytes, { stream: true });
    return Promise.resolve(bytes.length);
  };
  console.error = (line: string) => void lines.push(line);
  try {
    const result = await run();
    return { result, stdout, stderr: lines.join("\n") };
  } finally {
    Deno.stdout.write = write;
    console.error = error;
  }
}
