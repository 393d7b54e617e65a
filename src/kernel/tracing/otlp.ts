/** Spans and the metrics of the registry in OpenTelemetry's JSON (OTLP over HTTP). */
import type { MetricObjectWithValues, MetricValue } from "prom-client";
import type { Span, SpanKind } from "./span.ts";

type Attributes = Record<string, string | number | boolean | undefined>;

const KINDS: Record<SpanKind, number> = { internal: 1, server: 2, client: 3, producer: 4 };
const CUMULATIVE = 2;
const nano = (ms: number): string => `${BigInt(Math.round(ms * 1_000)) * 1_000n}`;

function attributesOf(values: Attributes): object[] {
  return Object.entries(values).flatMap(([key, value]) => (value === undefined ? [] : [{ key, value: typed(value) }]));
}

function typed(value: string | number | boolean): object {
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "string") return { stringValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

export function tracesPayload(resource: Attributes, spans: readonly Span[]): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [{ scope: { name: "stoa" }, spans: spans.map(spanPayload) }],
      },
    ],
  };
}

function spanPayload({ traceId, spanId, parentSpanId, name, kind, startMs, endMs, attributes, error }: Span): object {
  return {
    traceId,
    spanId,
    ...(parentSpanId && { parentSpanId }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nano(startMs),
    endTimeUnixNano: nano(Math.max(startMs, endMs)),
    attributes: attributesOf(attributes),
    status: error === undefined ? {} : { code: 2, message: error },
  };
}

type Metric = MetricObjectWithValues<MetricValue<string>>;
type Sample = Metric["values"][number] & { metricName?: string };

export function metricsPayload(
  resource: Attributes,
  registered: readonly Metric[],
  sinceMs: number,
  nowMs: number,
): object {
  const times = { startTimeUnixNano: nano(sinceMs), timeUnixNano: nano(nowMs) };
  return {
    resourceMetrics: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeMetrics: [{ scope: { name: "stoa" }, metrics: registered.flatMap((one) => metricPayload(one, times)) }],
      },
    ],
  };
}

type Times = { startTimeUnixNano: string; timeUnixNano: string };

function metricPayload({ name, help, type, values }: Metric, times: Times): object[] {
  const finite = values.filter(({ value }) => Number.isFinite(value)) as Sample[];
  if (finite.length === 0) return [];
  // The registry's types declare numbers, but the values are strings.
  switch (String(type)) {
    case "histogram":
      return [
        {
          name,
          description: help,
          histogram: { aggregationTemporality: CUMULATIVE, dataPoints: buckets(finite, times) },
        },
      ];
    case "counter": {
      const sum = {
        aggregationTemporality: CUMULATIVE,
        isMonotonic: true,
        dataPoints: finite.map((one) => point(one, times)),
      };
      return [{ name, description: help, sum }];
    }
    default:
      return [{ name, description: help, gauge: { dataPoints: finite.map((one) => point(one, times)) } }];
  }
}

const point = ({ value, labels }: Sample, times: Times) => ({
  ...times,
  attributes: attributesOf(labels as Attributes),
  asDouble: value,
});

/** A data point for each set of labels. The registry's buckets are cumulative, OTLP's are not. */
function buckets(values: readonly Sample[], times: Times): object[] {
  const points = new Map<
    string,
    { labels: Attributes; bounds: number[]; upTo: number[]; sum: number; count: number }
  >();
  for (const { value, labels, metricName = "" } of values) {
    const { le, ...rest } = labels as Attributes;
    const key = JSON.stringify(rest);
    const of = points.get(key) ?? { labels: rest, bounds: [], upTo: [], sum: 0, count: 0 };
    points.set(key, of);
    if (metricName.endsWith("_sum")) of.sum = value;
    else if (metricName.endsWith("_count")) of.count = value;
    else if (le !== "+Inf") {
      of.bounds.push(Number(le));
      of.upTo.push(value);
    }
  }
  return [...points.values()].map(({ labels, bounds, upTo, sum, count }) => ({
    ...times,
    attributes: attributesOf(labels),
    count: String(count),
    sum,
    explicitBounds: bounds,
    bucketCounts: [...upTo, count].map((total, index) => String(total - (upTo[index - 1] ?? 0))),
  }));
}
