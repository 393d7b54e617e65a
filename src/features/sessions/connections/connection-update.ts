import type { Tenant } from "../../../kernel/tenant.ts";
import type { ConnectionEventType, ConnectionState } from "../../../protocol/observability.ts";
import type { RtcConnectionEvent } from "../events.ts";
import type { ConnectionRow } from "./connection.store.ts";
import type { Failure } from "./error-rules.ts";

/** Identifies a connection. The client's connection id is not enough, because another client may use the same. */
export type ConnectionKey = { connectionId: string; roomId: string | null; identity: string };

export function newConnection(id: string, tenant: Tenant, key: ConnectionKey, startedAt: number): ConnectionRow {
  return {
    id,
    projectId: tenant.projectId,
    environment: tenant.environment,
    connectionId: key.connectionId,
    roomId: key.roomId,
    roomName: null,
    participantIdentity: key.identity,
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

/**
 * The changes of a connection's record by an event, the new entries of its timeline, and the failure that the event
 * reveals.
 */
type ConnectionUpdate = { change: Partial<ConnectionRow>; timeline: TimelineEntry[]; failure: Failure | null };

/** Leaving for one of these reasons is a failure; for any other reason it is intended. */
const FAILURE_REASONS = new Set(["timeout", "failed", "node_lost"]);

/** Computes the changes by an event. `before` is the record so far. */
export function updateOf(before: ConnectionRow, event: RtcConnectionEvent): ConnectionUpdate {
  const { at } = event;
  const seen = { lastSeenAt: at };
  switch (event.type) {
    case "started":
      return update({ ...seen, state: before.connectedAt === null ? "CONNECTING" : "RECONNECTING", ...REOPENED }, [
        { type: "participant_joined", data: { mode: event.mode } },
      ]);
    case "connected": {
      const again = before.connectedAt !== null;
      const { joinTimeMs, transport, remoteAddress } = event;
      return update(
        {
          ...seen,
          state: "CONNECTED",
          ...(again ? returned(before, at) : { connectedAt: at, joinTimeMs }),
        },
        [{ type: again ? "reconnected" : "connected", data: { transport, remoteAddress, joinTimeMs } }],
      );
    }
    case "reconnecting":
      return update({ state: "RECONNECTING" }, [
        { type: "reconnecting", data: { path: event.path, reason: event.reason } },
      ]);
    case "reconnected": {
      const state: ConnectionState = before.connectedAt === null ? "CONNECTING" : "CONNECTED";
      return update({ ...seen, state, ...returned(before, at) }, [{ type: "reconnected", data: { path: event.path } }]);
    }
    case "mediaFailed":
      return update(
        { state: "RECONNECTING" },
        [{ type: "participant_connection_failed", data: { reason: event.reason } }],
        // A stop before the first packet is a failure to connect, unless the client has closed its socket; later it is
        // a failure only if the client does not return.
        before.connectedAt === null && !isAway(before) ? { source: "transport", code: event.reason } : null,
      );
    case "iceStateChanged":
      return update(seen, [{ type: "ice_state_changed", data: { state: event.state } }]);
    case "dtlsStateChanged":
      return update(seen, [{ type: "ice_state_changed", data: { dtls: event.state } }]);
    case "qualityChanged":
      return update(seen, [{ type: "participant_connection_quality_changed", data: { quality: event.quality } }]);
    case "mediaStalled":
      return update(
        seen,
        [{ type: "ice_state_changed", data: { media: "stalled" } }],
        isAway(before) ? null : { source: "transport", code: "media_stalled" },
      );
    case "mediaFlows":
      return update(seen, [{ type: "ice_state_changed", data: { media: "flowing" } }]);
    case "trackPublished": {
      const { id, kind, source, codec } = event.track;
      return update(seen, [{ type: "track_published", data: { trackId: id, kind, source, codec } }]);
    }
    case "trackUnpublished":
      return update(seen, [{ type: "track_unpublished", data: { trackId: event.trackId } }]);
    case "stats":
      return update(
        { ...seen, rttMs: event.rttMs, jitterMs: event.jitterMs, packetLossPercent: event.packetLossPercent },
        [],
      );
    case "left": {
      const failed = FAILURE_REASONS.has(event.reason);
      return update(
        { state: failed ? "FAILED" : "DISCONNECTED", disconnectedAt: at, disconnectReason: event.reason },
        [
          { type: "participant_left", data: { reason: event.reason } },
          { type: failed ? "connection_failed" : "disconnected", data: { reason: event.reason } },
        ],
        failed ? { source: "transport", code: event.reason } : null,
      );
    }
  }
}

/** Whether the client's socket or its media is gone; consequences of that are not another failure. */
const isAway = ({ state }: ConnectionRow): boolean => state === "RECONNECTING";

/** The socket and the packets notice one outage at different times: two reconnects within this time count as one. */
export const SAME_OUTAGE_MS = 20_000;

function returned({ reconnectCount, reconnectedAt }: ConnectionRow, at: number): Partial<ConnectionRow> {
  if (reconnectedAt !== null && at - reconnectedAt < SAME_OUTAGE_MS) return { reconnectedAt: at };
  return { reconnectCount: reconnectCount + 1, reconnectedAt: at };
}

const REOPENED = { disconnectedAt: null, disconnectReason: null };

function update(
  change: Partial<ConnectionRow>,
  timeline: TimelineEntry[],
  failure: Failure | null = null,
): ConnectionUpdate {
  return { change, timeline, failure };
}
