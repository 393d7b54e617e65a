import type { Runtime } from "../../kernel/runtime.ts";
import { createIceServers } from "./ice-servers.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { moderationService } from "./moderation.service.ts";
import { roomService } from "./room.service.ts";
import { type RtcTokenDeps, rtcTokenService } from "./rtc-token.service.ts";

export type Rooms = ReturnType<typeof createRooms>;

/** The feature as a whole, on record: rooms, and the tokens with which one joins them. */
export function createRooms(runtime: Runtime, deps: Omit<RtcTokenDeps, "rooms" | "iceServers">) {
  const rooms = roomService(runtime);
  const iceServers = createIceServers(runtime);
  return { rooms, rtcTokens: rtcTokenService(runtime, { ...deps, rooms, iceServers }), iceServers };
}

/** What is done to those who are in a room now; for this the rooms must be running. */
export function createModeration(runtime: Runtime, deps: Rooms & { liveRooms: LiveRooms }) {
  return moderationService(runtime, deps);
}
