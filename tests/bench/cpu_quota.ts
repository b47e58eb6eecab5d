/** Short, since the process sleeps for the rest of each period. */
const PERIOD_US = 20_000;

/** A limit of CPU time for a process, until it is disposed of (Linux, root). */
export class CpuQuota implements Disposable {
  readonly #group: string;

  /** @param share of a core, at least 0.05: the kernel's minimum is 1 ms */
  constructor(pid: number, share: number) {
    const isUnified = exists("/sys/fs/cgroup/cgroup.controllers");
    const parent = isUnified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    this.#group = `${parent}/plant-store-bench-${pid}`;
    try {
      Deno.mkdirSync(this.#group);
      const quotaUs = share * PERIOD_US;
      if (isUnified) {
        this.#write("cpu.max", `${quotaUs} ${PERIOD_US}`);
      } else {
        this.#write("cpu.cfs_period_us", `${PERIOD_US}`);
        this.#write("cpu.cfs_quota_us", `${quotaUs}`);
      }
      this.#write("cgroup.procs", `${pid}`);
    } catch (error) {
      throw new Error("cannot limit the CPU time: run as root on Linux", {
        cause: error,
      });
    }
  }

  #write(name: string, text: string): void {
    Deno.writeTextFileSync(`${this.#group}/${name}`, text);
  }

  [Symbol.dispose](): void {
    try {
      Deno.removeSync(this.#group);
    } catch {
      // The kernel removes the process from it a moment later.
    }
  }
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
