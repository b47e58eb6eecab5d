import { setTimeout as sleep } from "node:timers/promises";

const ROOT = "/sys/fs/cgroup";

/** Short, since the process sleeps for the rest of each period. */
const PERIOD_US = 20_000;

/** The kernel removes ended processes from a group a moment later. */
const REMOVE_ATTEMPTS_MAX = 20;
const REMOVE_RETRY_MS = 50;

/** A limit of CPU time, until it is disposed of (Linux, root). */
export class CpuQuota implements AsyncDisposable {
  readonly #group: string;

  /** @param share of a core, at least 0.05: the kernel's minimum is 1 ms */
  constructor(share: number) {
    const quotaUs = share * PERIOD_US;
    try {
      const names = [...Deno.readDirSync(ROOT)].map(({ name }) => name);
      const isUnified = names.includes("cgroup.controllers");
      this.#group = Deno.makeTempDirSync({
        dir: isUnified ? ROOT : `${ROOT}/cpu`,
        prefix: "plant-store-bench-",
      });
      if (isUnified) {
        this.#write("cpu.max", `${quotaUs} ${PERIOD_US}`);
      } else {
        this.#write("cpu.cfs_period_us", `${PERIOD_US}`);
        this.#write("cpu.cfs_quota_us", `${quotaUs}`);
      }
    } catch (error) {
      throw new Error("cannot limit the CPU time: run as root on Linux", {
        cause: error,
      });
    }
  }

  /** Limits a process. */
  add(pid: number): void {
    this.#write("cgroup.procs", `${pid}`);
  }

  #write(name: string, text: string): void {
    Deno.writeTextFileSync(`${this.#group}/${name}`, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (let attempt = 1; attempt <= REMOVE_ATTEMPTS_MAX; attempt++) {
      try {
        return Deno.removeSync(this.#group);
      } catch {
        await sleep(REMOVE_RETRY_MS);
      }
    }
  }
}
