import type { Runtime } from "../../../kernel/runtime.ts";
import type { SpanContext } from "../../../kernel/tracing/span.ts";
import type { RtcConnectionEvent } from "../events.ts";

type Join = { context: SpanContext; startedAt: number; joinedAt: number; connectedAt: number | null };

/** Traces each join from the opened socket to the first packet of the participant's tracks. */
export function traceJoins({ bus, tracing }: Runtime): void {
  if (!tracing) return;
  const joins = new Map<string, Join>();

  bus.on("rtcConnection", (event) => {
    const join = joins.get(event.sessionId);
    if (event.type === "started") {
      const context = tracing.newContext(null);
      joins.set(event.sessionId, { context, startedAt: event.startedAt, joinedAt: event.at, connectedAt: null });
      addSpan(context, "signaling", event.startedAt, event.at);
    } else if (!join) return;
    else if (event.type === "connected") {
      join.connectedAt = event.at;
      addSpan(join.context, "connect media", join.joinedAt, event.at);
      endJoin(join, event);
    } else if (event.type === "trackPublished" && join.connectedAt !== null) {
      addSpan(join.context, `first packet of ${event.track.source}`, join.connectedAt, event.at);
      if (event.track.kind === "video") joins.delete(event.sessionId);
    } else if (event.type === "left") {
      joins.delete(event.sessionId);
      if (join.connectedAt === null) endJoin(join, event, event.reason);
    }
  });

  function endJoin({ context, startedAt }: Join, event: RtcConnectionEvent, error?: string): void {
    const span = { name: "join", kind: "server", startMs: startedAt, endMs: event.at } as const;
    tracing?.end(context, { ...span, attributes: attributesOf(event), ...(error === undefined ? {} : { error }) });
  }

  function addSpan(parent: SpanContext, name: string, startMs: number, endMs: number): void {
    tracing?.end(tracing.newContext(parent), { name, startMs, endMs });
  }
}

/** The attributes contain rooms and servers, but no identity, because the collector is outside of the installation. */
function attributesOf({ projectId, environment, roomId, connectionId, serverName }: RtcConnectionEvent) {
  return {
    "stoa.project.id": projectId,
    "stoa.environment": environment,
    "stoa.room.id": roomId,
    "stoa.connection.id": connectionId,
    "stoa.server": serverName ?? "",
  };
}
