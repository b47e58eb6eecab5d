import { CREATES_RUNNING_MAX } from "../../src/limits.ts";
import { StoreLock } from "../support/accidents.ts";
import { BackgroundProcess } from "../support/background.ts";
import { TOKEN } from "../support/program.ts";
import { eventually } from "../support/waiting.ts";
import { createBytes, Wire } from "../support/wire.ts";

/** What a service is loaded with. */
export interface Load {
  readonly title: string;
  readonly ids: "rising" | "random";
  /** Percentage of creates that repeat a recent one. */
  readonly repeats?: number;
  /** Why the service refuses every create, if it does. */
  readonly refusals?: "busy" | "not JSON";
}

/** The result of a load: numbers by the names of their columns. */
export type Result = Readonly<Record<string, number>>;

/** What load.lua prints. */
type Printed = Record<
  "requests" | "seconds" | "p99Ms" | "refused" | "broken",
  number
>;

/** A running service. */
export class Service extends BackgroundProcess {
  #url = "";
  #store = "";
  /** The last id of a create that waits; new ones, since reads do not wait. */
  #id = 0;

  /** Starts the service of a checkout. */
  static async start(checkout: string, store: string): Promise<Service> {
    const flags = ["--no-prompt", "--allow-all"];
    const service = new Service(Deno.execPath(), {
      args: ["run", ...flags, "main.ts", "--port", "0", "--kv", store],
      cwd: checkout,
      env: { ACCESS_TOKEN: TOKEN },
    });
    service.#store = store;
    [service.#url] = await service.printed(/http:\/\/127\.0\.0\.1:\d+(?=\s)/);
    return service;
  }

  /** Loads the service for two seconds. */
  async measure(load: Load): Promise<Result> {
    await this.#untilRunning(0);
    using running = new DisposableStack();
    if (load.refusals === "busy") {
      running.use(new StoreLock(this.#store));
      for (let i = 0; i < CREATES_RUNNING_MAX; i++) {
        const wire = await Wire.connect(Number(new URL(this.#url).port));
        const body = `{"id":${--this.#id},"name":"Fern"}`;
        await running.use(wire).send(createBytes(body));
      }
      await this.#untilRunning(CREATES_RUNNING_MAX);
    }
    const process = `/proc/${this.process.pid}`;
    // The first thread of the process runs JavaScript.
    const thread = `${process}/task/${this.process.pid}`;
    const processBefore = cpuMicroseconds(process);
    const threadBefore = cpuMicroseconds(thread);
    const { requests, seconds, p99Ms, refused, broken } = await runWrk(
      this.#url,
      load,
    );
    if (broken > 0 || refused !== (load.refusals ? requests : 0)) {
      throw new Error(`${requests} sent, ${refused} refused, ${broken} broken`);
    }
    return {
      "requests/s": requests / seconds,
      "p99 ms": p99Ms,
      "JS thread µs": (cpuMicroseconds(thread) - threadBefore) / requests,
      "process µs": (cpuMicroseconds(process) - processBefore) / requests,
    };
  }

  async #untilRunning(creates: number): Promise<void> {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const line = `\nplant_store_creates_running ${creates}\n`;
    await eventually(async () => {
      const response = await fetch(`${this.#url}/metrics`, { headers });
      return (await response.text()).includes(line);
    });
  }
}

/** Sends creates with wrk, and returns what load.lua prints. */
async function runWrk(
  url: string,
  { ids, repeats = 0, refusals }: Load,
): Promise<Printed> {
  const script = `${import.meta.dirname}/load.lua`;
  const bodies = refusals === "not JSON" ? "broken" : "whole";
  const { success, stderr } = await new Deno.Command("wrk", {
    args: [
      "-t1",
      "-c256",
      "-d2s",
      "-s",
      script,
      url,
      "--",
      TOKEN,
      ids,
      `${repeats}`,
      bodies,
    ],
    stdout: "null",
  }).output();
  const text = new TextDecoder().decode(stderr);
  if (!success) throw new Error(`wrk failed: ${text}`);
  return JSON.parse(text);
}

/** Returns the CPU time of a process or a thread of Linux, to 10 ms. */
function cpuMicroseconds(path: string): number {
  // proc_pid_stat(5): the times are the fields 14 and 15, the name is the second.
  const [, fields = ""] = Deno.readTextFileSync(`${path}/stat`).split(") ");
  const [user, system] = fields.split(" ").slice(11, 13);
  return (Number(user) + Number(system)) * 10_000;
}
