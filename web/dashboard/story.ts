import type { ConnectionEventType, ConnectionState } from "../../src/protocol/observability.ts";

export type StoryEvent = {
  type: ConnectionEventType;
  source: "server" | "client";
  timestamp: string;
  data: Record<string, unknown> | null;
};

export type Told = {
  state: ConnectionState;
  startedAt: string;
  connectedAt: string | null;
  disconnectedAt: string | null;
  events: StoryEvent[];
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

/** Marks nearer to each other than this share of the span could not be told apart. */
const NEAR = 0.03;

type Cluster = { at: number; events: { event: StoryEvent; index: number }[] };

/** The events of one lane, those that happened at nearly the same time as one. */
export function clustersOf(told: Told, lane: Lane, now: number): Cluster[] {
  const { from, until } = spanOf(told, now);
  const clusters: Cluster[] = [];
  for (const [index, event] of told.events.entries()) {
    if (laneOf(event.type) !== lane) continue;
    const at = Date.parse(event.timestamp);
    const last = clusters.at(-1);
    if (last && Math.abs(at - last.at) < (until - from) * NEAR) last.events.push({ event, index });
    else clusters.push({ at, events: [{ event, index }] });
  }
  return clusters;
}

const TURNS: Partial<Record<ConnectionEventType, ConnectionState>> = {
  connected: "CONNECTED",
  reconnecting: "RECONNECTING",
  reconnected: "CONNECTED",
  participant_reconnected: "CONNECTED",
};

/** First and last moment to be drawn. A connection that goes on is drawn until now. */
export function spanOf({ startedAt, disconnectedAt, events }: Told, now: number): { from: number; until: number } {
  const times = events.map(({ timestamp }) => Date.parse(timestamp));
  const from = Math.min(Date.parse(startedAt), ...times);
  const end = disconnectedAt === null ? now : Date.parse(disconnectedAt);
  return { from, until: Math.max(end, from + 1, ...times) };
}

/**
 * Which state it was in from when to when. The server's word counts: it is told by one clock, and a client that is
 * offline cannot say so.
 */
export function segmentsOf(told: Told, now: number): Segment[] {
  const { from, until } = spanOf(told, now);
  const end = told.disconnectedAt === null ? until : Date.parse(told.disconnectedAt);
  const segments: Segment[] = [{ state: "CONNECTING", from, until: end }];
  const turns = told.events
    .filter(({ source, type }) => source === "server" && TURNS[type] !== undefined)
    .map(({ type, timestamp }) => ({ state: TURNS[type] ?? told.state, at: Date.parse(timestamp) }));
  if (turns.length === 0 && told.connectedAt !== null)
    turns.push({ state: "CONNECTED", at: Date.parse(told.connectedAt) });
  for (const { state, at } of turns.sort((a, b) => a.at - b.at)) {
    const last = segments.at(-1);
    if (!last || last.state === state || at >= end) continue;
    last.until = at;
    segments.push({ state, from: at, until: end });
  }
  if (told.state === "FAILED") segments.push({ state: "FAILED", from: end, until });
  return segments.filter((segment) => segment.until > segment.from);
}
