import type { Runtime } from "../../kernel/runtime.ts";
import type { ChatService } from "../chat/chat.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { RtcTokenService } from "../rooms/rtc-token.service.ts";
import { admissionService } from "./admission.service.ts";
import { liveStreamService } from "./live-stream.service.ts";
import { liveStreamStore } from "./live-stream.store.ts";
import { peopleStore } from "./people.store.ts";
import { viewerCounts } from "./viewer-count.ts";

type LiveStreamsDeps = {
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  chat: ChatService;
  liveRooms: LiveRooms;
};

export type LiveStreams = ReturnType<typeof createLiveStreams>;

/** The feature as a whole: the streams, who is admitted to them, and how many watch. */
export function createLiveStreams(runtime: Runtime, { rooms, rtcTokens, chat, liveRooms }: LiveStreamsDeps) {
  const store = liveStreamStore(runtime.db);
  const people = peopleStore(runtime.db);
  const streams = liveStreamService(runtime, { store, people, rooms, chat });
  return {
    streams,
    admissions: admissionService(runtime, { streams, people, rtcTokens, chat }),
    counts: viewerCounts(runtime, { store, people, liveRooms }),
  };
}

/** Whether viewers of a room still wait for its live stream to start. Signaling asks, before there are any streams. */
export function waitingRooms({ db }: Runtime): (roomId: string) => boolean {
  const store = liveStreamStore(db);
  return (roomId) => store.ofRoom(roomId)?.status === "CREATED";
}

/** Whether a room is that of a live stream. Chat asks, before there are any streams. */
export function streamRooms({ db }: Runtime): (roomId: string) => boolean {
  const store = liveStreamStore(db);
  return (roomId) => store.ofRoom(roomId) !== undefined;
}
