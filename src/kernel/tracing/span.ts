/** The position of a span in its trace. Ids are hexadecimal, as in OpenTelemetry. */
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

/** A child of its parent, or the root of a new trace. */
export function newContext(parent: Pick<SpanContext, "traceId" | "spanId"> | null | undefined): SpanContext {
  if (!parent) return { traceId: hex(16), spanId: hex(8) };
  return { traceId: parent.traceId, spanId: hex(8), parentSpanId: parent.spanId };
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

export function readTraceparent(header: string | null): Pick<SpanContext, "traceId" | "spanId"> | null {
  const [, traceId = "", spanId = ""] = TRACEPARENT.exec(header ?? "") ?? [];
  return traceId === "" || /^0+$/.test(traceId) || /^0+$/.test(spanId) ? null : { traceId, spanId };
}

export const writeTraceparent = ({ traceId, spanId }: SpanContext): string => `00-${traceId}-${spanId}-01`;
