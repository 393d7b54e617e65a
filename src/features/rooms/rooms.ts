import type { Runtime } from "../../kernel/runtime.ts";
import { createIceServers } from "./ice-servers.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { moderationService } from "./moderation.service.ts";
import { roomService } from "./room.service.ts";
import { type RtcTokenDeps, rtcTokenService } from "./rtc-token.service.ts";

export type Rooms = ReturnType<typeof createRooms>;

/** Rooms, and the tokens with which participants join them. */
export function createRooms(runtime: Runtime, deps: Omit<RtcTokenDeps, "rooms" | "iceServers">) {
  const rooms = roomService(runtime);
  const iceServers = createIceServers(runtime);
  return { rooms, rtcTokens: rtcTokenService(runtime, { ...deps, rooms, iceServers }), iceServers };
}

/** Created later than the rooms, because moderation needs their live state from signaling. */
export function createModeration(runtime: Runtime, deps: Rooms & { liveRooms: LiveRooms }) {
  return moderationService(runtime, deps);
}
