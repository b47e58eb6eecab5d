/**
 * The retries of a client, in virtual time: the sample in TypeScript, whose
 * pauses those of the other languages have, too (samples_test.ts).
 */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { BODY_MS_MAX, COMMIT_MS_MAX } from "../../src/limits.ts";
import { PAUSES_S, REPLY_S_MAX } from "../../src/reference/api.ts";
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

/** Returns the reply during an outage at a time in it, or throws. */
type Outage = (timeS: number) => Response;

function refuse(): Response {
  throw new TypeError("fetch failed", { cause: "connection refused" });
}

/** Returns the outage in which every reply has a Retry-After, or has none. */
function answer(status: number, after?: string): Outage {
  const headers = after === undefined ? {} : { "Retry-After": after };
  return () => new Response("{}", { status, headers });
}

const stop = answer(503, API_ERRORS.shuttingDown.headers?.["Retry-After"]);
const fail = answer(503, API_ERRORS.storeFailed.headers?.["Retry-After"]);

const OUTAGES: Readonly<Record<string, Outage>> = {
  "a refused connection": refuse,
  "a 503 without Retry-After": answer(503),
  "a 503 with Retry-After: 1": answer(503, "1"),
  "a 503 with a date in Retry-After": answer(503, new Date(0).toUTCString()),
  "a 503 of a service that stops": stop,
  "a 503 of a store that failed": fail,
  "a restart": (timeS) => timeS < 1 ? stop(timeS) : refuse(),
  "a restart, then a store that fails": (timeS) =>
    timeS < 5 ? refuse() : fail(timeS),
};

const run = await loadSample();

/** Runs the sample while the service is away; returns the times of its tries. */
async function triesS(
  outage: Outage,
  { firstS, endS, random, token = "a-token" }: {
    readonly firstS: number;
    readonly endS: number;
    readonly random: number;
    readonly token?: string;
  },
): Promise<{ tries: number[]; error: string }> {
  let nowS = firstS;
  const tries: number[] = [];
  const error = await run({
    process: { env: { ACCESS_TOKEN: token } },
    fetch: () => {
      tries.push(nowS);
      if (nowS >= endS) return Promise.resolve(Response.json({}));
      return Promise.try(outage, nowS);
    },
    sleep: (ms) => {
      nowS += ms / 1000;
      return Promise.resolve();
    },
    console: { log: () => {} },
    AbortSignal: { timeout: () => {} },
    Math: { max: Math.max, random: () => random },
  }).then(() => "", String);
  return { tries, error };
}

/** The longest outage that a client survives. */
const OUTAGE_S_MAX = PAUSES_S.reduce((sum, pauseS) => sum + pauseS);

for (const [name, outage] of Object.entries(OUTAGES)) {
  Deno.test(`a client survives ${name} for up to ${OUTAGE_S_MAX} s, whenever its first try is`, async () => {
    for (let endS = 1; endS <= OUTAGE_S_MAX; endS++) {
      for (let firstS = 0; firstS < endS; firstS += 0.125) {
        for (const random of [0, 0.5, 0.999]) {
          const when = { firstS, endS, random };
          const { tries, error } = await triesS(outage, when);
          assert.equal(error, "", `${endS} s, ${random}: tries at ${tries}`);
        }
      }
    }
  });
}

Deno.test("a client keeps a create after the last try, to send it later", async () => {
  const forever = { firstS: 0, endS: Infinity, random: 0 };
  const { tries, error } = await triesS(refuse, forever);
  assert.deepEqual(tries, [0, 1, 3, 7, 15]);
  assert.match(error, /keep the create, send it later: .*refused/);
});

Deno.test("a client sends nothing with a token that no header can contain, and says so", async () => {
  const token = "token€";
  const once = { firstS: 0, endS: 0, random: 0, token };
  const { tries, error } = await triesS(refuse, once);
  assert.deepEqual(tries, []);
  assert.match(error, /^TypeError: .*ByteString/);
});

Deno.test("clients that are refused together retry at different times", async () => {
  const times = await Promise.all([0, 0.25, 0.5].map(async (random) => {
    const { tries } = await triesS(stop, { firstS: 0, endS: 1, random });
    return tries[1];
  }));
  assert.deepEqual(times, [10, 12.5, 15]);
});

Deno.test("a client waits for a reply for longer than the body and the commit may take", () => {
  assert.ok(BODY_MS_MAX + COMMIT_MS_MAX < REPLY_S_MAX * 1000);
});
