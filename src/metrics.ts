import type { Outcome } from "./committer.ts";
import { ERROR } from "./errors.ts";
import { VERSION } from "./version.ts";

/** The content type of the Prometheus text format. */
export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Statuses are counted in places of their own; HTTP has none beyond. */
const STATUS_MAX = 599;

/** Seconds: a create takes milliseconds, and at most a body and a commit. */
const REQUEST_SECONDS = [
  ...[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
  ...[5, 10],
];

/** Seconds: a commit of a healthy disk takes about one millisecond. */
const COMMIT_SECONDS = [
  ...[0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25],
  ...[0.5, 1, 2.5, 5],
];

/** A KV Connect server takes 10 plants a commit, a file 100. */
const COMMIT_PLANTS = [1, 2, 5, 10, 20, 50, 100];

/** What is measured only when somebody looks. */
export interface Gauges {
  /** Creates that wait for their outcome. */
  readonly creates: number;
  readonly isStoreWell: boolean;
}

/** How often values up to each bound came. */
class Histogram {
  readonly #bounds: readonly number[];
  /** One count for each bound, and one for what is above them all. */
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let i = 0;
    while (i < bounds.length && value > (bounds[i] ?? 0)) i++;
    this.#counts[i] = (this.#counts[i] ?? 0) + 1;
    this.#sum += value;
  }

  /** How many values came. */
  get count(): number {
    return this.#counts.reduce((sum, count) => sum + count, 0);
  }

  lines(name: string): string[] {
    let sum = 0;
    const buckets = [...this.#bounds, "+Inf"].map((bound, i) => {
      sum += this.#counts[i] ?? 0;
      return `${name}_bucket{le="${bound}"} ${sum}`;
    });
    return [...buckets, `${name}_sum ${this.#sum}`, `${name}_count ${sum}`];
  }
}

/**
 * What the service counts, and its text for Prometheus. To count is to add to
 * a number that has its place already: a request allocates nothing here.
 */
export class Metrics {
  readonly #startSeconds = (performance.timeOrigin / 1000).toFixed(3);
  readonly #requests = new Float64Array(STATUS_MAX + 1);
  readonly #requestSeconds = new Histogram(REQUEST_SECONDS);
  readonly #commitPlants = new Histogram(COMMIT_PLANTS);
  readonly #commitSeconds = new Histogram(COMMIT_SECONDS);
  #stored = 0;
  #replayed = 0;
  #conflicts = 0;
  #queueFull = 0;
  #failed = 0;

  /** A request was answered. */
  request(status: number, seconds: number): void {
    this.#requests[status] = (this.#requests[status] ?? 0) + 1;
    this.#requestSeconds.observe(seconds);
  }

  /** A create has its outcome. */
  create(outcome: Outcome): void {
    switch (outcome) {
      case "stored":
        this.#stored++;
        break;
      case "replayed":
        this.#replayed++;
        break;
      case "conflict":
        this.#conflicts++;
        break;
      case "queue full":
        this.#queueFull++;
        break;
      case "failed":
        this.#failed++;
    }
  }

  /** The store took a commit. */
  commit(plants: number, seconds: number): void {
    this.#commitPlants.observe(plants);
    this.#commitSeconds.observe(seconds);
  }

  /** Everything in the text format of Prometheus, version 0.0.4. */
  text({ creates, isStoreWell }: Gauges): string {
    const text = [
      ...family(
        "plant_store_http_requests_total",
        "counter",
        "Requests answered, by HTTP status.",
        (name) =>
          this.#statuses().map((status) =>
            `${name}{code="${status}"} ${this.#requests[status]}`
          ),
      ),
      ...family(
        "plant_store_http_request_duration_seconds",
        "histogram",
        "Time from the head of a request to its reply.",
        (name) => this.#requestSeconds.lines(name),
      ),
      ...family(
        "plant_store_creates_total",
        "counter",
        "Creates with an outcome: stored is new, replayed was there already.",
        (name) => [
          `${name}{outcome="stored"} ${this.#stored}`,
          `${name}{outcome="replayed"} ${this.#replayed}`,
          `${name}{outcome="conflict"} ${this.#conflicts}`,
          `${name}{outcome="queue_full"} ${this.#queueFull}`,
          `${name}{outcome="failed"} ${this.#failed}`,
        ],
      ),
      ...family(
        "plant_store_creates_waiting",
        "gauge",
        "Creates that wait for their outcome, queued or in a commit.",
        (name) => [`${name} ${creates}`],
      ),
      ...family(
        "plant_store_commits_total",
        "counter",
        "Commits that the store took.",
        (name) => [`${name} ${this.#commitSeconds.count}`],
      ),
      ...family(
        "plant_store_commit_plants",
        "histogram",
        "Plants in one commit.",
        (name) => this.#commitPlants.lines(name),
      ),
      ...family(
        "plant_store_commit_duration_seconds",
        "histogram",
        "Time that the store took for one commit.",
        (name) => this.#commitSeconds.lines(name),
      ),
      ...family(
        "plant_store_up",
        "gauge",
        "Whether the store works, as far as is known: 1, or else 0.",
        (name) => [`${name} ${isStoreWell ? 1 : 0}`],
      ),
      ...family(
        "plant_store_build_info",
        "gauge",
        "The versions of the program and of its runtime.",
        (name) => [
          `${name}{version="${VERSION}",deno="${Deno.version.deno}"} 1`,
        ],
      ),
      ...family(
        "process_start_time_seconds",
        "gauge",
        "Start of the process, in seconds since 1970.",
        (name) => [`${name} ${this.#startSeconds}`],
      ),
      ...family(
        "process_resident_memory_bytes",
        "gauge",
        "Memory of the process.",
        (name) => [`${name} ${Deno.memoryUsage().rss}`],
      ),
    ];
    return `${text.join("\n")}\n`;
  }

  /** Those that the service answers with, and any that came besides. */
  #statuses(): number[] {
    const known = new Set([200]);
    for (const error of Object.values(ERROR)) {
      known.add(Math.floor(error / 100));
    }
    this.#requests.forEach((count, status) => {
      if (count > 0) known.add(status);
    });
    return [...known].sort((a, b) => a - b);
  }
}

/** A metric with its two lines of explanation. */
function family(
  name: string,
  type: "counter" | "gauge" | "histogram",
  help: string,
  lines: (name: string) => readonly string[],
): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines(name)];
}
