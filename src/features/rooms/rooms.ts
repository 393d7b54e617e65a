import type { Runtime } from "../../kernel/runtime.ts";
import { createIceServers } from "./ice-servers.ts";
import { roomService } from "./room.service.ts";
import { type RtcTokenDeps, rtcTokenService } from "./rtc-token.service.ts";

/** Rooms, and the tokens with which participants join them. */
export function createRooms(runtime: Runtime, deps: Omit<RtcTokenDeps, "rooms" | "iceServers">) {
  const rooms = roomService(runtime);
  const iceServers = createIceServers(runtime);
  return { rooms, rtcTokens: rtcTokenService(runtime, { ...deps, rooms, iceServers }), iceServers };
}
