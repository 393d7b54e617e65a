import type { Runtime } from "../../kernel/runtime.ts";
import type { ChatService } from "../chat/chat.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { RtcTokenService } from "../rooms/rtc-token.service.ts";
import { admissionService } from "./admission.service.ts";
import { liveStreamService } from "./live-stream.service.ts";
import { liveStreamStore } from "./live-stream.store.ts";
import { viewerCounts } from "./viewer-count.ts";

type LiveStreamsDeps = {
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  chat: ChatService;
  liveRooms: LiveRooms;
};

export type LiveStreams = ReturnType<typeof createLiveStreams>;

export function createLiveStreams(runtime: Runtime, { rooms, rtcTokens, chat, liveRooms }: LiveStreamsDeps) {
  const store = liveStreamStore(runtime.db);
  const streams = liveStreamService(runtime, { store, rooms, chat });
  return {
    streams,
    admissions: admissionService(runtime, { store, streams, rtcTokens, chat }),
    counts: viewerCounts(runtime, { store, liveRooms }),
  };
}

/** Whether viewers of a room wait for its stream to start; for signaling, which is created before the live streams. */
export function waitingRooms({ db }: Runtime): (roomId: string) => boolean {
  const store = liveStreamStore(db);
  return (roomId) => store.ofRoom(roomId)?.status === "CREATED";
}

/** Whether a room belongs to a live stream; for chat, which is created before the live streams. */
export function liveStreamRooms({ db }: Runtime): (roomId: string) => boolean {
  const store = liveStreamStore(db);
  return (roomId) => store.ofRoom(roomId) !== undefined;
}
