import { type Static, Type } from "@sinclair/typebox";
import { t } from "elysia";
import { anyNumber, NullableTimestamp, nullable, oneOf, Timestamp, wholeNumber } from "../../kernel/http/schema.ts";
import { LINK_STATES, RTC_SERVER_STATUSES } from "../../protocol/enums.ts";
import { MAX_REGION_LENGTH, SERVER_NAME_PATTERN } from "../../protocol/ids.ts";

const text = (minLength: number, maxLength: number, description: string) =>
  t.String({ minLength, maxLength, description });

export const RegisterServer = t.Object({
  name: t.String({
    pattern: SERVER_NAME_PATTERN,
    description: "Stable and unique across the fleet; a node that restarts reclaims its row",
    error: "must be 1-128 letters, digits, '-', '_' or '.', and neither 'metrics' nor 'register'",
  }),
  region: text(1, MAX_REGION_LENGTH, "Free-form; the allocator prefers it, no more"),
  publicHost: text(1, 255, "Host that clients reach for media"),
  internalUrl: text(1, 255, "Base URL for calls from server to server"),
  capacity: t.Optional(wholeNumber({ min: 1, max: 100_000, description: "Rooms it can hold: a ceiling" })),
  version: t.Optional(text(0, 64, "Build identifier")),
});
export type RegisterServer = Static<typeof RegisterServer>;

const percent = t.Optional(anyNumber({ min: 0, max: 100 }));
const bitsPerSecond = t.Optional(anyNumber({ min: 0 }));

export const Heartbeat = t.Object({
  activeRooms: wholeNumber({ min: 0 }),
  activeParticipants: wholeNumber({ min: 0 }),
  cpuPercent: percent,
  memoryPercent: percent,
  networkInBps: bitsPerSecond,
  networkOutBps: bitsPerSecond,
});
export type Heartbeat = Static<typeof Heartbeat>;

export const RtcServerStatus = oneOf(RTC_SERVER_STATUSES);
export const HeartbeatAnswer = t.Object({ status: RtcServerStatus, draining: t.Boolean() });

const figure = nullable(t.Number());

export const RtcServer = t.Object({
  name: t.String(),
  region: t.String(),
  publicHost: t.String(),
  internalUrl: t.String(),
  capacity: figure,
  version: nullable(t.String()),
  status: RtcServerStatus,
  activeRooms: figure,
  activeParticipants: figure,
  cpuPercent: figure,
  memoryPercent: figure,
  networkInBps: figure,
  networkOutBps: figure,
  registeredAt: Timestamp,
  lastHeartbeatAt: NullableTimestamp,
});

export const FleetMetrics = t.Object({
  servers: Type.Integer(),
  healthy: Type.Integer(),
  draining: Type.Integer(),
  unhealthy: Type.Integer(),
  capacity: figure,
  activeRooms: figure,
  activeParticipants: figure,
  networkInBps: figure,
  networkOutBps: figure,
});
export type FleetMetrics = Static<typeof FleetMetrics>;

const link = {
  servers: t.Array(t.String(), { minItems: 2, maxItems: 2, examples: [["eu1", "us1"]] }),
  state: nullable(oneOf(LINK_STATES)),
  rttMs: figure,
  lossPercent: nullable(
    t.Number({
      description: "Packets lost between the two in the last 5 seconds, in the worse direction, before repair",
    }),
  ),
  limitBps: nullable(
    t.Number({ description: "What it carries, in bits per second; null while all layers that are wanted fit" }),
  ),
};

/** A link between two media servers, as it is shown for a room that uses it. */
export const RoomLink = t.Object(link);

export const ServerLinks = t.Object({
  links: t.Array(
    t.Object({
      id: t.String(),
      ...link,
      tracks: Type.Integer({ description: "Tracks that can cross it" }),
      rooms: Type.Integer({ description: "Rooms that use it" }),
    }),
  ),
  rooms: t.Array(
    t.Object({
      id: t.String(),
      projectId: t.String(),
      name: t.String(),
      sites: t.Array(t.Object({ serverName: t.String(), region: t.String(), participants: Type.Integer() })),
      links: t.Array(t.String(), { description: "Ids of the links between its servers" }),
    }),
    { description: "The 100 largest rooms on several servers" },
  ),
});
