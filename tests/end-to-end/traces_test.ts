/** What Deno itself sends to a collector of OpenTelemetry. */
import assert from "node:assert/strict";
import {
  BINARY,
  post,
  Program,
  replyStatus,
  stopCleanly,
  TOKEN,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** A body of OTLP at /v1/traces, as JSON; only what the test reads. */
interface Traces {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly Span[] }[];
  }[];
}

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly parentSpanId: string;
  readonly attributes: readonly {
    readonly key: string;
    readonly value: { readonly stringValue?: string };
  }[];
}

/** A collector that keeps what it receives. */
class Collector implements AsyncDisposable {
  /** Every body, and its path. */
  readonly received: { readonly path: string; readonly body: string }[] = [];
  readonly #server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const path = new URL(request.url).pathname;
      this.received.push({ path, body: await request.text() });
      return Response.json({});
    },
  );

  /** The environment of a program that sends to this collector. */
  get env(): Readonly<Record<string, string>> {
    return {
      OTEL_DENO: "true",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${this.#server.addr.port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    };
  }

  /** Returns the spans, without what differs in each run. */
  spans() {
    return this.#bodies("/v1/traces").flatMap((body) => {
      const { resourceSpans }: Traces = JSON.parse(body);
      return resourceSpans.flatMap(({ scopeSpans }) =>
        scopeSpans.flatMap(({ spans }) => spans)
      );
    }).map(({ name, traceId, parentSpanId, attributes }) => {
      const values = new Map(
        attributes.map(({ key, value }) => [key, value.stringValue]),
      );
      const path = values.get("url.path");
      const status = values.get("http.response.status_code");
      return { name, path, status, traceId, parentSpanId };
    });
  }

  /** Returns the bodies with the lines of stderr. */
  logs(): string {
    return this.#bodies("/v1/logs").join();
  }

  /** Returns the bodies with metrics. */
  metrics(): string {
    return this.#bodies("/v1/metrics").join();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  #bodies(path: string): string[] {
    return this.received.filter((it) => it.path === path)
      .map(({ body }) => body);
  }
}

Deno.test({
  name:
    "with OTEL_DENO=true, a create is a span in the trace of its client, and no token is sent",
  // A compiled program ignores the variable.
  ignore: BINARY !== undefined,
  async fn() {
    await using collector = new Collector();
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await using program = await Program.start(store, { env: collector.env });
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    const parentSpanId = "b7ad6b7169203331";
    const traceparent = `00-${traceId}-${parentSpanId}-01`;
    const reply = post(program, '{"id":1,"name":"Fern"}', { traceparent });
    assert.equal(await replyStatus(reply), 200);
    // At its end, Deno sends what it has not sent yet, and waits for the replies.
    await stopCleanly(program);

    assert.deepEqual(collector.spans(), [
      { name: "POST", path: "/plants", status: "200", traceId, parentSpanId },
    ]);
    assert.match(collector.logs(), /Plant Store \S+ listens on /);
    assert.match(collector.metrics(), /"http\.server\.request\.duration"/);
    for (const { body } of collector.received) {
      assert.ok(!body.includes(TOKEN), body);
    }
  },
});
