import type { ConnectionEventType, ConnectionState } from "../../src/protocol/observability.ts";

export type TimelineEvent = {
  type: ConnectionEventType;
  source: "server" | "client";
  timestamp: string;
  data: Record<string, unknown> | null;
};

export type ConnectionTimeline = {
  state: ConnectionState;
  startedAt: string;
  connectedAt: string | null;
  disconnectedAt: string | null;
  events: TimelineEvent[];
};

type Segment = { state: ConnectionState; from: number; until: number };
export type Lane = "Connection" | "Network" | "Tracks" | "Quality" | "Errors";

const LANES: Record<ConnectionEventType, Lane> = {
  connection_started: "Connection",
  connected: "Connection",
  reconnecting: "Connection",
  reconnected: "Connection",
  disconnected: "Connection",
  participant_joined: "Connection",
  participant_left: "Connection",
  participant_reconnected: "Connection",
  ice_state_changed: "Network",
  signaling_state_changed: "Network",
  track_published: "Tracks",
  track_unpublished: "Tracks",
  participant_connection_quality_changed: "Quality",
  connection_failed: "Errors",
  participant_connection_failed: "Errors",
  error: "Errors",
};

export const laneOf = (type: ConnectionEventType): Lane => LANES[type];

/** Events that are closer together than this fraction of the span are merged. */
const CLUSTER_FRACTION = 0.03;

type Cluster = { at: number; events: { event: TimelineEvent; index: number }[] };

/** The events of one lane, with nearly simultaneous ones merged. */
export function clustersOf(timeline: ConnectionTimeline, lane: Lane, now: number): Cluster[] {
  const { from, until } = spanOf(timeline, now);
  const clusters: Cluster[] = [];
  for (const [index, event] of timeline.events.entries()) {
    if (laneOf(event.type) !== lane) continue;
    const at = Date.parse(event.timestamp);
    const last = clusters.at(-1);
    if (last && Math.abs(at - last.at) < (until - from) * CLUSTER_FRACTION) last.events.push({ event, index });
    else clusters.push({ at, events: [{ event, index }] });
  }
  return clusters;
}

const STATE_CHANGES: Partial<Record<ConnectionEventType, ConnectionState>> = {
  connected: "CONNECTED",
  reconnecting: "RECONNECTING",
  reconnected: "CONNECTED",
  participant_reconnected: "CONNECTED",
};

/** The first and the last time to draw; an open connection is drawn until now. */
export function spanOf(
  { startedAt, disconnectedAt, events }: ConnectionTimeline,
  now: number,
): { from: number; until: number } {
  const times = events.map(({ timestamp }) => Date.parse(timestamp));
  const from = Math.min(Date.parse(startedAt), ...times);
  const end = disconnectedAt === null ? now : Date.parse(disconnectedAt);
  return { from, until: Math.max(end, from + 1, ...times) };
}

/**
 * The connection's states over time. Only the server's events count, because they have one clock and a client cannot
 * report while it is offline.
 */
export function segmentsOf(timeline: ConnectionTimeline, now: number): Segment[] {
  const { from, until } = spanOf(timeline, now);
  const end = timeline.disconnectedAt === null ? until : Date.parse(timeline.disconnectedAt);
  const segments: Segment[] = [{ state: "CONNECTING", from, until: end }];
  const changes = timeline.events
    .filter(({ source, type }) => source === "server" && STATE_CHANGES[type] !== undefined)
    .map(({ type, timestamp }) => ({ state: STATE_CHANGES[type] ?? timeline.state, at: Date.parse(timestamp) }));
  if (changes.length === 0 && timeline.connectedAt !== null)
    changes.push({ state: "CONNECTED", at: Date.parse(timeline.connectedAt) });
  for (const { state, at } of changes.sort((a, b) => a.at - b.at)) {
    const last = segments.at(-1);
    if (!last || last.state === state || at >= end) continue;
    last.until = at;
    segments.push({ state, from: at, until: end });
  }
  if (timeline.state === "FAILED") segments.push({ state: "FAILED", from: end, until });
  return segments.filter((segment) => segment.until > segment.from);
}
