import { afterAll, beforeAll, expect, test } from "bun:test";
import { bars, join } from "../../../src/rtc-client/participant/participant.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { startReceiver } from "../webhooks/receiver.ts";

type Value = { stringValue?: string; intValue?: string };
type Span = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Value }[];
  status: { code?: number };
};
type Point = {
  asDouble?: number;
  count?: string;
  bucketCounts?: string[];
  explicitBounds?: number[];
  attributes: unknown[];
};
type Metric = {
  name: string;
  sum?: { isMonotonic: boolean; dataPoints: Point[] };
  gauge?: object;
  histogram?: { dataPoints: Point[] };
};

const spans: Span[] = [];
const metrics = new Map<string, Metric>();
const credentials = new Set<string | null>();
const collector = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    credentials.add(request.headers.get("x-team"));
    const body = (await request.json()) as {
      resourceSpans?: { scopeSpans: { spans: Span[] }[] }[];
      resourceMetrics?: { scopeMetrics: { metrics: Metric[] }[] }[];
    };
    for (const { scopeSpans } of body.resourceSpans ?? []) for (const one of scopeSpans) spans.push(...one.spans);
    for (const { scopeMetrics } of body.resourceMetrics ?? [])
      for (const one of scopeMetrics) for (const metric of one.metrics) metrics.set(metric.name, metric);
    return Response.json({});
  },
});
const receiver = startReceiver();
let server: RealServer;
beforeAll(async () => {
  server = await realServer({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.port}`,
    OTEL_EXPORTER_OTLP_HEADERS: "x-team=calls",
    OTEL_METRIC_EXPORT_INTERVAL: 1_000,
    WEBHOOK_ALLOW_PRIVATE: true,
  } as never);
});
afterAll(async () => {
  await server.close();
  await collector.stop(true);
});

async function until<T>(look: () => T | undefined): Promise<T> {
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    await Bun.sleep(50);
  }
}
const named = (name: string, traceId?: string) =>
  spans.find((span) => span.name === name && (traceId === undefined || span.traceId === traceId));

test("[observability] a request, its write, its event and its delivery are one trace, below the caller's", async () => {
  await server.runtime.write((unit) =>
    server.services.webhooks.create(
      unit,
      server.projectId,
      { url: receiver.url, environment: "DEVELOPMENT" },
      { actor: null, request: null, environment: "DEVELOPMENT" },
    ),
  );
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const response = await fetch(`${server.url}/v1/chat/conversations`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${server.key}`,
      "content-type": "application/json",
      traceparent: `00-${traceId}-b7ad6b7169203331-01`,
    },
    body: JSON.stringify({ name: "traced", members: [{ userId: "ada" }] }),
  });
  expect(response.status).toBe(201);
  const delivery = await until(() => named("deliver webhook", traceId));
  const request = await until(() => named("POST /v1/chat/conversations", traceId));
  const outbox = await until(() => named("outbox", traceId));
  const written = await until(() => spans.find(({ spanId }) => spanId === outbox.parentSpanId));
  expect(request).toMatchObject({ kind: 2, parentSpanId: "b7ad6b7169203331", status: {} });
  expect(written.parentSpanId).toBe(request.spanId);
  expect(written.name).toBe("write");
  const outboxes = spans.filter((span) => span.name === "outbox").map(({ spanId }) => spanId);
  expect(outboxes).toContain(delivery.parentSpanId ?? "");
  expect(delivery.kind).toBe(3);
  for (const { startTimeUnixNano, endTimeUnixNano } of [request, written, outbox, delivery])
    expect(BigInt(endTimeUnixNano) >= BigInt(startTimeUnixNano)).toBe(true);
  expect(credentials).toEqual(new Set(["calls"]));
  // A refused request is traced as such, and no trace contains text of users.
  await fetch(`${server.url}/v1/rooms/none`, { headers: { authorization: `Bearer ${server.key}` } });
  const refused = await until(() => named("GET /v1/rooms/:id"));
  expect(refused.attributes).toContainEqual({ key: "http.response.status_code", value: { intValue: "404" } });
  // Ids of spans are hexadecimal and may contain "ada".
  expect(JSON.stringify(spans)).not.toMatch(/\bada\b/);
}, 60_000);

test("[observability] a join is a trace from the socket to the first packet", async () => {
  const room = await server.call("POST", "/v1/rooms", { name: "traced" });
  const minted = await server.call("POST", `/v1/rooms/${room.body.id}/rtc-tokens`, {
    participantIdentity: "grace",
    permissions: { publish: true },
  });
  const participant = await join(`${server.url.replace("http", "ws")}/v1/rtc`, String(minted.body.token));
  try {
    await participant.publishVideo(bars());
    const joined = await until(() => named("join"));
    const first = await until(() => spans.find(({ name }) => name.startsWith("first packet of")));
    expect([first.traceId, first.parentSpanId]).toEqual([joined.traceId, joined.spanId]);
    expect(named("signaling", joined.traceId)?.parentSpanId).toBe(joined.spanId);
    expect(named("connect media", joined.traceId)?.parentSpanId).toBe(joined.spanId);
    expect(JSON.stringify(joined)).not.toContain("grace");
  } finally {
    await participant.close();
  }
}, 60_000);

test("[observability] the figures of /metrics reach the collector in the OTLP format", async () => {
  const requests = await until(() => metrics.get("stoa_http_requests_total"));
  expect(requests.sum).toMatchObject({ isMonotonic: true });
  expect(requests.sum?.dataPoints.length).toBeGreaterThan(0);
  expect(metrics.get("stoa_rtc_sessions")?.gauge).toBeDefined();
  const [point] = metrics.get("stoa_http_request_seconds")?.histogram?.dataPoints ?? [];
  expect(point?.bucketCounts).toHaveLength((point?.explicitBounds?.length ?? 0) + 1);
  const total = (point?.bucketCounts ?? []).reduce((sum, count) => sum + Number(count), 0);
  expect(String(total)).toBe(point?.count ?? "");
}, 60_000);

test("[observability] without a collector nothing is traced", async () => {
  const plain = await realServer();
  try {
    expect(plain.runtime.tracing).toBeNull();
  } finally {
    await plain.close();
  }
});
