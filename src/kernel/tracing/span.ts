/** Where a span stands: in which trace, and as whose child. Ids are hexadecimal, as OpenTelemetry writes them. */
export type SpanContext = { traceId: string; spanId: string; parentSpanId?: string };

export type SpanKind = "internal" | "server" | "client" | "producer";

export type Span = SpanContext & {
  name: string;
  kind: SpanKind;
  startMs: number;
  endMs: number;
  attributes: Record<string, string | number | boolean>;
  error?: string;
};

const hex = (bytes: number): string => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex");

/** Below its parent, or the root of a trace of its own. */
export function newContext(parent: Pick<SpanContext, "traceId" | "spanId"> | null | undefined): SpanContext {
  if (!parent) return { traceId: hex(16), spanId: hex(8) };
  return { traceId: parent.traceId, spanId: hex(8), parentSpanId: parent.spanId };
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/** W3C: what a caller that traces itself sends along. */
export function readTraceparent(header: string | null): Pick<SpanContext, "traceId" | "spanId"> | null {
  const [, traceId = "", spanId = ""] = TRACEPARENT.exec(header ?? "") ?? [];
  return traceId === "" || /^0+$/.test(traceId) || /^0+$/.test(spanId) ? null : { traceId, spanId };
}

export const writeTraceparent = ({ traceId, spanId }: SpanContext): string => `00-${traceId}-${spanId}-01`;
