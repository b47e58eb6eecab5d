/** The pauses of a client, in virtual time: those of the sample in TypeScript. */
import assert from "node:assert/strict";
import { samples } from "../../src/reference/samples.ts";

/** What the sample takes from its environment. */
interface World {
  readonly process: { readonly env: Readonly<Record<string, string>> };
  readonly fetch: () => Promise<Response>;
  readonly sleep: (ms: number) => Promise<void>;
  readonly console: { readonly log: () => void };
  readonly AbortSignal: { readonly timeout: () => void };
  readonly Math: Pick<Math, "max" | "random">;
}

/** Returns the sample as a function of the world around it. */
async function loadSample(): Promise<(world: World) => Promise<void>> {
  const code = samples("http://127.0.0.1:8000").TypeScript ?? "";
  const names = "{ process, fetch, sleep, console, AbortSignal, Math }";
  const body = code.replaceAll(/^import .*$/gm, "");
  const source = `export async function run(${names}) {${body}}`;
  const { run }: { run: (world: World) => Promise<void> } = await import(
    `data:text/javascript,${encodeURIComponent(source)}`
  );
  return run;
}

const run = await loadSample();

/** Runs the sample while every create fails. */
async function fail(
  answer: () => Response,
  random = 0,
): Promise<{ triesS: number[]; error: string }> {
  let nowS = 0;
  const triesS: number[] = [];
  const error = await run({
    process: { env: { ACCESS_TOKEN: "a-token" } },
    fetch: () => {
      triesS.push(nowS);
      return Promise.try(answer);
    },
    sleep: (ms) => {
      nowS += ms / 1000;
      return Promise.resolve();
    },
    console: { log: assert.fail },
    AbortSignal: { timeout: () => {} },
    Math: { max: Math.max, random: () => random },
  }).then(() => "", String);
  return { triesS, error };
}

Deno.test("a client sends a create again for 15 s, and then keeps it, to send it later", async () => {
  const { triesS, error } = await fail(() => {
    throw new TypeError("fetch failed", { cause: "connection refused" });
  });
  assert.deepEqual(triesS, [0, 1, 3, 7, 15]);
  assert.match(error, /keep the create, send it later: connection refused/);
});

Deno.test("a client waits for Retry-After if it is longer, and a random time of at most as long", async () => {
  for (
    const [after, random, secondS] of [
      [undefined, 0, 1],
      [undefined, 0.5, 1.5],
      ["0", 0, 1],
      ["10", 0, 10],
      ["10", 0.5, 15],
      [new Date(0).toUTCString(), 0, 1],
    ] as const
  ) {
    const headers = after === undefined ? {} : { "Retry-After": after };
    const answer = () => new Response("{}", { status: 503, headers });
    const { triesS } = await fail(answer, random);
    assert.equal(triesS[1], secondS, `${after}, ${random}`);
  }
});
