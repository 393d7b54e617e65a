import type { Tenant } from "../../kernel/tenant.ts";
import type { ConnectionEventType, ConnectionState } from "../../protocol/observability.ts";
import type { Mishap } from "./classify.ts";
import type { RtcConnectionEvent } from "./events.ts";
import type { ConnectionRow } from "./store/connection.table.ts";

/** Whose connection it is: the client's own name for it is not enough, another may use the same. */
export type Owner = { connectionId: string; roomId: string | null; identity: string };

/** The record of a connection of which nothing is known yet. */
export function newConnection(id: string, tenant: Tenant, owner: Owner, startedAt: number): ConnectionRow {
  return {
    id,
    projectId: tenant.projectId,
    environment: tenant.environment,
    connectionId: owner.connectionId,
    roomId: owner.roomId,
    roomName: null,
    participantIdentity: owner.identity,
    state: "CONNECTING",
    serverName: null,
    sdk: null,
    userAgent: null,
    ipAddress: null,
    reconnectCount: 0,
    rttMs: null,
    jitterMs: null,
    packetLossPercent: null,
    joinTimeMs: null,
    startedAt,
    connectedAt: null,
    reconnectedAt: null,
    lastSeenAt: startedAt,
    disconnectedAt: null,
    disconnectReason: null,
  };
}

type TimelineEntry = { type: ConnectionEventType; data?: Record<string, unknown> };

type Chapter = { change: Partial<ConnectionRow>; entries: TimelineEntry[]; mishap: Mishap | null };

/** Leaving for one of these is a failure; for any other reason it is the end that somebody wanted. */
const FAILURES = new Set(["timeout", "failed", "node_lost"]);

/** What a fact adds to a connection's record: value in, value out. `before` is the record so far. */
export function tellStory(before: ConnectionRow, fact: RtcConnectionEvent): Chapter {
  const { at } = fact;
  const seen = { lastSeenAt: at };
  switch (fact.type) {
    case "started":
      return chapter({ ...seen, state: before.connectedAt === null ? "CONNECTING" : "RECONNECTING", ...REOPENED }, [
        { type: "participant_joined", data: { mode: fact.mode } },
      ]);
    case "connected": {
      const again = before.connectedAt !== null;
      const { joinTimeMs, transport, remoteAddress } = fact;
      return chapter(
        {
          ...seen,
          state: "CONNECTED",
          ...(again ? returned(before, at) : { connectedAt: at, joinTimeMs }),
        },
        [{ type: again ? "reconnected" : "connected", data: { transport, remoteAddress, joinTimeMs } }],
      );
    }
    case "reconnecting":
      if (before.state === "RECONNECTING") return chapter({}, [{ type: "reconnecting", data: pathOf(fact) }]);
      return chapter({ state: "RECONNECTING" }, [{ type: "reconnecting", data: pathOf(fact) }]);
    case "reconnected": {
      const state: ConnectionState = before.connectedAt === null ? "CONNECTING" : "CONNECTED";
      return chapter({ ...seen, state, ...returned(before, at) }, [{ type: "reconnected", data: { path: fact.path } }]);
    }
    case "mediaFailed":
      return chapter(
        { state: "RECONNECTING" },
        [{ type: "participant_connection_failed", data: { reason: fact.reason } }],
        // Before the first packet it is a failure to connect; later it is one only if the client does not return.
        before.connectedAt === null ? { source: "transport", code: fact.reason } : null,
      );
    case "iceStateChanged":
      return chapter(seen, [{ type: "ice_state_changed", data: { state: fact.state } }]);
    case "dtlsStateChanged":
      return chapter(seen, [{ type: "ice_state_changed", data: { dtls: fact.state } }]);
    case "qualityChanged":
      return chapter(seen, [{ type: "participant_connection_quality_changed", data: { quality: fact.quality } }]);
    case "mediaStalled":
      return chapter(seen, [{ type: "ice_state_changed", data: { media: "stalled" } }], {
        source: "transport",
        code: "media_stalled",
      });
    case "mediaFlows":
      return chapter(seen, [{ type: "ice_state_changed", data: { media: "flowing" } }]);
    case "trackPublished": {
      const { id, kind, source, codec } = fact.track;
      return chapter(seen, [{ type: "track_published", data: { trackId: id, kind, source, codec } }]);
    }
    case "trackUnpublished":
      return chapter(seen, [{ type: "track_unpublished", data: { trackId: fact.trackId } }]);
    case "stats":
      return chapter(
        { ...seen, rttMs: fact.rttMs, jitterMs: fact.jitterMs, packetLossPercent: fact.packetLossPercent },
        [],
      );
    case "left": {
      const failed = FAILURES.has(fact.reason);
      return chapter(
        { state: failed ? "FAILED" : "DISCONNECTED", disconnectedAt: at, disconnectReason: fact.reason },
        [
          { type: "participant_left", data: { reason: fact.reason } },
          { type: failed ? "connection_failed" : "disconnected", data: { reason: fact.reason } },
        ],
        failed ? { source: "transport", code: fact.reason } : null,
      );
    }
  }
}

/** Socket and packets notice one outage at different times: what returns within this of the other is the same return. */
const SAME_OUTAGE_MS = 20_000;

function returned({ reconnectCount, reconnectedAt }: ConnectionRow, at: number): Partial<ConnectionRow> {
  if (reconnectedAt !== null && at - reconnectedAt < SAME_OUTAGE_MS) return { reconnectedAt: at };
  return { reconnectCount: reconnectCount + 1, reconnectedAt: at };
}

const REOPENED = { disconnectedAt: null, disconnectReason: null };

function chapter(change: Partial<ConnectionRow>, entries: TimelineEntry[], mishap: Mishap | null = null): Chapter {
  return { change, entries, mishap };
}

function pathOf({ path, reason }: { path: string; reason: string }): Record<string, unknown> {
  return { path, reason };
}
