import { AsyncLocalStorage } from "node:async_hooks";
import type { Config } from "../config/index.ts";
import type { Unit, Writer } from "../db/writer.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Now } from "../time/clock.ts";
import { every, type Timers } from "../time/timers.ts";
import { VERSION } from "../version.ts";
import { metricsPayload, tracesPayload } from "./otlp.ts";
import { newContext, readTraceparent, type Span, type SpanContext } from "./span.ts";

const FLUSH_MS = 2_000;
/** The maximum number of spans that are kept while the collector is down; beyond it the oldest are dropped. */
const MAX_SPANS = 4_096;
/** The maximum number of events whose deliveries can still be linked to their trace. */
const MAX_REMEMBERED = 10_000;
const TIMEOUT_MS = 5_000;

type Deps = { config: Config; log: Log; metrics: Metrics; now: Now; timers: Timers; fetch: typeof fetch };

type Ended = Pick<Span, "name" | "startMs"> & Partial<Pick<Span, "kind" | "endMs" | "attributes" | "error">>;

export type Tracing = ReturnType<typeof createTracing>;

export function createTracing(endpoint: string, { config, log, metrics, now, timers, fetch }: Deps) {
  const current = new AsyncLocalStorage<SpanContext>();
  const resource = { "service.name": config.OTEL_SERVICE_NAME, "service.version": VERSION };
  const headers = { ...headersOf(config.OTEL_EXPORTER_OTLP_HEADERS ?? ""), "content-type": "application/json" };
  const startedAt = now();
  const remembered = new Map<string, SpanContext>();
  let spans: Span[] = [];
  let hasWarned = false;

  async function send(path: string, payload: object): Promise<void> {
    try {
      const response = await fetch(`${endpoint.replace(/\/$/, "")}${path}`, {
        method: "POST",
        headers,
        body: JSON.stringify(payload),
        redirect: "manual",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      await response.body?.cancel();
      if (response.status >= 300) throw new Error(`the collector responded with ${response.status}`);
      hasWarned = false;
    } catch (error) {
      // The error is logged once until an export succeeds: a collector that is down for a night must not fill the log.
      if (!hasWarned) log.warn({ reason: (error as Error).message, path }, "tracing: export failed");
      hasWarned = true;
    }
  }

  async function flush(): Promise<void> {
    const ready = spans;
    spans = [];
    if (ready.length > 0) await send("/v1/traces", tracesPayload(resource, ready));
  }

  async function exportMetrics(): Promise<void> {
    await send("/v1/metrics", metricsPayload(resource, await metrics.registry.getMetricsAsJSON(), startedAt, now()));
  }

  const stops = [
    every({ timers, log }, FLUSH_MS, flush),
    every({ timers, log }, config.OTEL_METRIC_EXPORT_INTERVAL, exportMetrics),
  ];

  function end(context: SpanContext, { kind = "internal", endMs = now(), attributes = {}, ...span }: Ended): void {
    if (spans.length >= MAX_SPANS) spans.shift();
    spans.push({ ...context, ...span, kind, endMs, attributes });
  }

  /** Records each unit of work as a span of its caller; events that it publishes are children of that span. */
  function traced(inner: Writer["write"]): Writer["write"] {
    return (work) => {
      const parent = current.getStore();
      if (!parent) return inner(work);
      const context = newContext(parent);
      const startMs = now();
      // The unit of work is submitted outside of the request's context: work that a commit starts, such as deliveries,
      // outlives the request.
      const written = current.exit(() =>
        inner(((unit: Unit) => current.run(context, () => work(unit))) as typeof work),
      );
      const done = (error?: string) => end(context, { name: "write", startMs, ...(error !== undefined && { error }) });
      written.then(
        () => done(),
        (error) => done((error as Error).name),
      );
      return written;
    };
  }

  return {
    end,
    newContext,
    current: (): SpanContext | undefined => current.getStore(),

    /** Starts the span of a request; all further work for it belongs to the span. */
    enter(request: Request): SpanContext {
      const context = newContext(readTraceparent(request.headers.get("traceparent")));
      current.enterWith(context);
      return context;
    },

    traceWriter: (writer: Writer): Writer => ({
      ...writer,
      write: traced(writer.write),
      checkThenWrite: traced(writer.checkThenWrite),
    }),

    /** Links the later deliveries of an event to the current trace, until a restart. */
    remember(eventId: string): void {
      const parent = current.getStore();
      if (!parent) return;
      const context = newContext(parent);
      end(context, { name: "outbox", kind: "producer", startMs: now(), attributes: { "stoa.event.id": eventId } });
      remembered.set(eventId, context);
      for (const [oldest] of remembered) {
        if (remembered.size <= MAX_REMEMBERED) break;
        remembered.delete(oldest);
      }
    },
    recall: (eventId: string): SpanContext | undefined => remembered.get(eventId),

    async stop(): Promise<void> {
      for (const stop of stops) stop();
      await flush();
      await exportMetrics();
    },
  };
}

function headersOf(list: string): Record<string, string> {
  return Object.fromEntries(
    list.split(",").flatMap((entry) => {
      const at = entry.indexOf("=");
      return at < 1 ? [] : [[entry.slice(0, at).trim(), decodeURIComponent(entry.slice(at + 1).trim())]];
    }),
  );
}
