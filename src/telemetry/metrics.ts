import { API_ERRORS, statusOf } from "../api_errors.ts";
import type { Outcome } from "../store/committer.ts";
import { VERSION } from "../version.ts";

/** The content type of the Prometheus text format. */
export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Bounds of the durations of commits and of creates. */
// deno-fmt-ignore
const SECONDS = [
  0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
  0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** Values of the other parts of the service at a scrape. */
export interface Gauges {
  /** POST requests that the door has admitted, without a reply. */
  readonly postsRunning: number;
  readonly isStoreHealthy: boolean;
  /** Requests with each accepted token, by its fingerprint. */
  readonly tokenRequests: ReadonlyMap<string, number>;
  /** Size of the database file, of a store in a file. */
  readonly databaseBytes: number | undefined;
}

/** A Prometheus histogram of durations. */
class Histogram {
  /** For each bound, the number of values up to it. */
  readonly #buckets = [...SECONDS, Infinity].map((bound) => ({
    bound,
    count: 0,
  }));
  #sum = 0;

  observe(value: number): void {
    for (const bucket of this.#buckets) {
      if (value <= bucket.bound) bucket.count++;
    }
    this.#sum += value;
  }

  /** Returns the lines of the histogram. */
  text(name: string): string {
    const lines = this.#buckets.map(({ bound, count }) =>
      `${name}_bucket{le="${bound === Infinity ? "+Inf" : bound}"} ${count}`
    );
    return `${lines.join("\n")}
${name}_sum ${this.#sum}
${name}_count ${this.#buckets.at(-1)?.count}`;
  }
}

/** Numbers of requests by status. */
type StatusCounts = Map<number, number>;

/**
 * The counts of POST. The status of every error starts at 0, so it is shown before
 * it occurs.
 */
function countsOfPost(): StatusCounts {
  const errors = Object.values(API_ERRORS);
  const statuses = [200, ...errors.map(({ error }) => statusOf(error))];
  return new Map(statuses.map((status) => [status, 0]));
}

/** Returns a line for each combination of labels. */
function linesOf(
  name: string,
  counts: readonly (readonly [labels: string, count: number])[],
): string {
  return counts.map(([labels, count]) => `${name}{${labels}} ${count}`)
    .join("\n");
}

/** The metrics of the service, in the text format of Prometheus. */
export class Metrics {
  /** Requests of all other methods: a client can invent any number of methods. */
  readonly #unknown: StatusCounts = new Map();
  /** Requests by method. */
  readonly #requests: ReadonlyMap<string, StatusCounts> = new Map([
    ["POST", countsOfPost()],
    ["GET", new Map()],
    ["HEAD", new Map()],
    // The label that Prometheus' own servers use.
    ["unknown", this.#unknown],
  ]);
  readonly #postSeconds = new Histogram();
  readonly #commitSeconds = new Histogram();
  readonly #creates: Record<Outcome, number> = {
    stored: 0,
    replayed: 0,
    conflict: 0,
    failed: 0,
  };

  /** Counts an answered request. */
  countRequest(method: string, status: number): void {
    const counts = this.#requests.get(method) ?? this.#unknown;
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }

  /**
   * Observes the time of a POST that the door has admitted. Refusals of a busy
   * service and GET requests are left out: they are fast and would make the latency
   * of creates look better than it is.
   */
  observePost(seconds: number): void {
    this.#postSeconds.observe(seconds);
  }

  /** Counts a create by its outcome. */
  countCreate(outcome: Outcome): void {
    this.#creates[outcome]++;
  }

  /** Observes the time of a successful commit. */
  observeCommit(seconds: number): void {
    this.#commitSeconds.observe(seconds);
  }

  /** Returns all metrics in the Prometheus text format, version 0.0.4. */
  text(
    { postsRunning, isStoreHealthy, tokenRequests, databaseBytes }: Gauges,
  ): string {
    const requests = [...this.#requests].flatMap(([method, counts]) =>
      [...counts].sort(([a], [b]) => a - b).map(([status, count]) =>
        [`code="${status}",method="${method.toLowerCase()}"`, count] as const
      )
    );
    const creates = Object.entries(this.#creates).map(([outcome, count]) =>
      [`outcome="${outcome}"`, count] as const
    );
    const tokens = [...tokenRequests].map(([fingerprint, count]) =>
      [`token="${fingerprint}"`, count] as const
    );
    const database = databaseBytes === undefined ? "" : `\
# HELP plant_store_database_bytes Size of the database file; absent with a KV Connect server.
# TYPE plant_store_database_bytes gauge
plant_store_database_bytes ${databaseBytes}
`;
    return `\
# HELP plant_store_http_requests_total Requests by HTTP status and method.
# TYPE plant_store_http_requests_total counter
${linesOf("plant_store_http_requests_total", requests)}
# HELP plant_store_http_request_duration_seconds Time from the header of an admitted POST to its reply.
# TYPE plant_store_http_request_duration_seconds histogram
${this.#postSeconds.text("plant_store_http_request_duration_seconds")}
# HELP plant_store_token_requests_total Requests with an accepted token, by the first digits of its SHA-256.
# TYPE plant_store_token_requests_total counter
${linesOf("plant_store_token_requests_total", tokens)}
# HELP plant_store_creates_running Admitted POST requests without a reply.
# TYPE plant_store_creates_running gauge
plant_store_creates_running ${postsRunning}
# HELP plant_store_creates_total Creates by outcome: stored is new, replayed was stored before.
# TYPE plant_store_creates_total counter
${linesOf("plant_store_creates_total", creates)}
# HELP plant_store_commit_duration_seconds Time of one commit.
# TYPE plant_store_commit_duration_seconds histogram
${this.#commitSeconds.text("plant_store_commit_duration_seconds")}
# HELP plant_store_up Whether the store works: 1, or 0 while it fails and shortly after.
# TYPE plant_store_up gauge
plant_store_up ${isStoreHealthy ? 1 : 0}
# HELP plant_store_build_info The versions of the program and of its runtime.
# TYPE plant_store_build_info gauge
plant_store_build_info{version="${VERSION}",deno="${Deno.version.deno}"} 1
${database}`;
  }
}
