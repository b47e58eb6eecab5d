import { API_ERRORS, statusOf } from "../api_errors.ts";
import type { Outcome } from "../store/committer.ts";
import { VERSION } from "../version.ts";

/** The content type of the Prometheus text format. */
export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** The status, as in nginx, of a request whose client disconnected. */
export const DISCONNECTED_STATUS = 499;

/** Bounds of durations: of commits, and of requests. */
const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25];
const LONG_SECONDS = [0.5, 1, 2.5, 5];
const COMMIT_SECONDS = [0.00025, ...SECONDS, ...LONG_SECONDS];
const REQUEST_SECONDS = [...SECONDS, ...LONG_SECONDS, 10];

/** Bounds up to the largest commit: 10 plants to a server, 100 to a file. */
const COMMIT_PLANTS = [1, 2, 5, 10, 20, 50, 100];

/** Values of the other parts of the service, measured at each scrape. */
export interface Gauges {
  /** Creates without an outcome. */
  readonly createsWaiting: number;
  readonly isStoreHealthy: boolean;
  /** Whether this process has created the store. */
  readonly isStoreNew: boolean;
  /** Size of the database file, of a store in a file. */
  readonly databaseBytes: number | undefined;
}

/** A Prometheus histogram. */
class Histogram {
  /** For each bound, the number of values up to it. */
  readonly #buckets: { readonly bound: number; count: number }[];
  #sum = 0;
  /** Number of observed values. */
  count = 0;

  constructor(bounds: readonly number[]) {
    this.#buckets = bounds.map((bound) => ({ bound, count: 0 }));
  }

  observe(value: number): void {
    for (const bucket of this.#buckets) {
      if (value <= bucket.bound) bucket.count++;
    }
    this.#sum += value;
    this.count++;
  }

  /** Returns the samples, as suffix and value. */
  samples(): [string, number][] {
    return [
      ...this.#buckets.map(({ bound, count }): [string, number] => [
        `_bucket{le="${bound}"}`,
        count,
      ]),
      ['_bucket{le="+Inf"}', this.count],
      ["_sum", this.#sum],
      ["_count", this.count],
    ];
  }
}

/** The metrics of the service, in the text format of Prometheus. */
export class Metrics {
  readonly #measure: () => Gauges;
  readonly #startSeconds = performance.timeOrigin / 1000;
  /** Requests by status; those of the API are shown before they occur. */
  readonly #requests = new Map([[200, 0], [DISCONNECTED_STATUS, 0]]);
  readonly #requestSeconds = new Histogram(REQUEST_SECONDS);
  readonly #commitPlants = new Histogram(COMMIT_PLANTS);
  readonly #commitSeconds = new Histogram(COMMIT_SECONDS);
  readonly #creates: Record<Outcome, number> = {
    stored: 0,
    replayed: 0,
    conflict: 0,
    failed: 0,
  };

  constructor(measure: () => Gauges) {
    this.#measure = measure;
    for (const { error } of Object.values(API_ERRORS)) {
      this.#requests.set(statusOf(error), 0);
    }
  }

  /**
   * Counts an answered request, and observes its time. A request that was refused
   * at once has none: under overload, the latency of the others would look better.
   */
  request(status: number, seconds?: number): void {
    this.#requests.set(status, (this.#requests.get(status) ?? 0) + 1);
    if (seconds !== undefined) this.#requestSeconds.observe(seconds);
  }

  /** Counts a create by its outcome. */
  create(outcome: Outcome): void {
    this.#creates[outcome]++;
  }

  /** Counts a successful commit. */
  commit(seconds: number, plants: number): void {
    this.#commitPlants.observe(plants);
    this.#commitSeconds.observe(seconds);
  }

  /**
   * Returns all metrics in the Prometheus text format, version 0.0.4.
   * @param requestsRunning requests without a reply, this one included
   */
  text(requestsRunning: number): string {
    const gauges = this.#measure();
    return [
      family(
        "plant_store_http_requests_total",
        "counter",
        "Requests by HTTP status; 499: the client disconnected before the end of its body.",
        [...this.#requests].sort(([a], [b]) => a - b)
          .map(([status, count]) => [`{code="${status}"}`, count]),
      ),
      family(
        "plant_store_http_request_duration_seconds",
        "histogram",
        "Time from the header of a request to its reply.",
        this.#requestSeconds.samples(),
      ),
      gauge(
        "plant_store_http_requests_running",
        "Requests without a reply, this one included.",
        requestsRunning,
      ),
      family(
        "plant_store_creates_total",
        "counter",
        "Creates by outcome: stored is new, replayed was stored before.",
        Object.entries(this.#creates)
          .map(([outcome, count]) => [`{outcome="${outcome}"}`, count]),
      ),
      gauge(
        "plant_store_creates_waiting",
        "Creates without an outcome, queued or in a commit.",
        gauges.createsWaiting,
      ),
      family(
        "plant_store_commits_total",
        "counter",
        "Successful commits.",
        [["", this.#commitSeconds.count]],
      ),
      family(
        "plant_store_commit_plants",
        "histogram",
        "Plants in one commit.",
        this.#commitPlants.samples(),
      ),
      family(
        "plant_store_commit_duration_seconds",
        "histogram",
        "Time of one commit.",
        this.#commitSeconds.samples(),
      ),
      gauge(
        "plant_store_up",
        "Whether the store works: 1, or 0 while it fails and for 2 s after; a lost store needs a restart.",
        gauges.isStoreHealthy ? 1 : 0,
      ),
      gauge(
        "plant_store_new_store",
        "Whether this process has created the store: 1, or 0 if it existed.",
        gauges.isStoreNew ? 1 : 0,
      ),
      gauge(
        "plant_store_database_bytes",
        "Size of the database file; absent with a KV Connect server.",
        gauges.databaseBytes,
      ),
      family(
        "plant_store_build_info",
        "gauge",
        "The versions of the program and of its runtime.",
        [[`{version="${VERSION}",deno="${Deno.version.deno}"}`, 1]],
      ),
      gauge(
        "process_start_time_seconds",
        "Start time of the process since the Unix epoch, in seconds.",
        this.#startSeconds,
      ),
      gauge(
        "process_resident_memory_bytes",
        "Resident memory of the process.",
        Deno.memoryUsage().rss,
      ),
    ].join("");
  }
}

/** Formats a metric family; a sample is a suffix of the name, and a value. */
function family(
  name: string,
  type: "counter" | "gauge" | "histogram",
  help: string,
  samples: readonly (readonly [string, number])[],
): string {
  const lines = samples.map(([suffix, value]) => `${name}${suffix} ${value}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

/** Formats a gauge; one without a value is absent. */
function gauge(name: string, help: string, value: number | undefined): string {
  return value === undefined ? "" : family(name, "gauge", help, [["", value]]);
}
