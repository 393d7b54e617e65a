import type { Runtime } from "../../kernel/runtime.ts";
import type { SpanContext } from "../../kernel/tracing/span.ts";
import type { RtcConnectionEvent } from "./events.ts";

type Join = { context: SpanContext; startedAt: number; joinedAt: number; connectedAt: number | null };

/** How somebody came in, as a trace: from the opened socket to the first packet of what they show. */
export function traceJoins({ bus, tracing }: Runtime): void {
  if (!tracing) return;
  const joins = new Map<string, Join>();

  bus.on("rtcConnection", (fact) => {
    const join = joins.get(fact.sessionId);
    if (fact.type === "started") {
      const context = tracing.newContext(null);
      joins.set(fact.sessionId, { context, startedAt: fact.startedAt, joinedAt: fact.at, connectedAt: null });
      part(context, "signaling", fact.startedAt, fact.at);
    } else if (!join) return;
    else if (fact.type === "connected") {
      join.connectedAt = fact.at;
      part(join.context, "connect media", join.joinedAt, fact.at);
      tracing.end(join.context, {
        name: "join",
        kind: "server",
        startMs: join.startedAt,
        endMs: fact.at,
        attributes: about(fact),
      });
    } else if (fact.type === "trackPublished" && join.connectedAt !== null) {
      const name = `first packet of ${fact.track.source}`;
      part(join.context, name, join.connectedAt, fact.at);
      if (fact.track.kind === "video") joins.delete(fact.sessionId);
    } else if (fact.type === "left") {
      joins.delete(fact.sessionId);
      if (join.connectedAt !== null) return;
      const attributes = about(fact);
      tracing.end(join.context, {
        name: "join",
        kind: "server",
        startMs: join.startedAt,
        endMs: fact.at,
        attributes,
        error: fact.reason,
      });
    }
  });

  function part(parent: SpanContext, name: string, startMs: number, endMs: number): void {
    tracing?.end(tracing.newContext(parent), { name, startMs, endMs });
  }
}

/** Rooms and servers, and nobody's name. */
function about({ projectId, environment, roomId, connectionId, serverName }: RtcConnectionEvent) {
  return {
    ...{ "stoa.project.id": projectId, "stoa.environment": environment, "stoa.room.id": roomId },
    ...{ "stoa.connection.id": connectionId, "stoa.server": serverName ?? "" },
  };
}
