import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaNodes } from "../../nodes/nodes.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Attachments } from "../chat/attachments/attachments.ts";
import type { ChatService } from "../chat/chat.ts";
import type { LiveStreamService } from "../live-streams/live-stream.service.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { RtcTokenService } from "../rooms/rtc-token.service.ts";
import type { Calls } from "../sessions/calls/calls.ts";
import type { StorageQuota } from "../storage/quota.ts";
import { createComposer } from "./composition/composer.ts";
import { hlsService } from "./hls/hls.service.ts";
import { createHls } from "./hls/hls.ts";
import { createStorageLocations } from "./storage-locations/storage-locations.ts";
import { recordingService } from "./recording.service.ts";
import { recordingStore } from "./recording.store.ts";
import { recordingFolder } from "./recording-folder.ts";
import { createActiveRecordings } from "./active-recordings.ts";
import { replayService } from "./replay.service.ts";

type Deps = {
  chat: Pick<ChatService, "roomMessages">;
  attachments: Pick<Attachments, "removals" | "storages"> & { quota: Pick<StorageQuota, "require"> };
  rooms: RoomService;
  nodes: MediaNodes;
  liveRooms: Pick<LiveRooms, "serverOf">;
  calls: Pick<Calls, "log">;
  liveStreams: { streams: Pick<LiveStreamService, "find" | "ofRoom"> };
  rtcTokens: Pick<RtcTokenService, "verify">;
};

export type Recordings = ReturnType<typeof createRecordings>;

/** Rooms written down: started by hand, or by themselves in rooms that record every call. */
export function createRecordings(runtime: Runtime, deps: Deps) {
  const { chat, attachments, rooms, nodes, liveRooms, calls, liveStreams, rtcTokens } = deps;
  const { bus, log, write } = runtime;
  const store = recordingStore(runtime.db);
  const folder = recordingFolder(runtime.config);
  const requireRoom = async (projectId: string): Promise<void> => {
    attachments.quota.require({ projectId, userId: null, bytes: 1 });
    if ((await folder.freeBytes()) >= runtime.config.RECORDING_MIN_FREE_BYTES) return;
    throw new ApiError("SVC_STORAGE_FULL", "There is too little space left on the disk to record.");
  };
  const { streams } = liveStreams;
  const hls = createHls(runtime, folder);
  const isLiveStream = (roomId: string) => streams.ofRoom(roomId) !== undefined;
  const places = createStorageLocations(runtime, { store, folder, nodes, ...attachments });
  const life = createActiveRecordings(runtime, { store, folder, places, rooms, nodes, requireRoom, hls, isLiveStream });
  const composer = createComposer(runtime, { store, folder, places });
  const whereabouts = (roomId: string) => ({
    serverName: liveRooms.serverOf(roomId),
    callId: calls.log.liveIn(roomId)?.publicId ?? null,
  });
  const { roomMessages: said } = chat;
  const made = { store, folder, places, life, hls, composer };
  const recordings = recordingService(runtime, { ...made, whereabouts, said, requireRoom });
  const replays = replayService(runtime, store, recordings);
  /** The call for which a room began to record by itself, or was stopped by hand: not again before the next. */
  const triedIn = new Map<string, string>();

  bus.on("recordedRoomEntered", ({ roomId }) => recordByItself(roomId));
  bus.on("rtcConnection", ["left"], ({ roomId }) => {
    if (calls.log.liveIn(roomId)) return;
    triedIn.delete(roomId);
    const running = life.runningIn(roomId);
    if (running?.automatic) void life.stop(running.id).catch((err) => log.error({ err }, "recording was not stopped"));
  });

  // Of what is said behind the scenes nothing is kept: a stream is recorded from its start on.
  bus.on("streamChanged", ({ roomId, status }) => {
    if (status === "LIVE") recordByItself(roomId);
  });
  bus.on("roomClosed", ({ roomId }) => {
    const running = life.runningIn(roomId);
    if (running) void life.stop(running.id).catch((err) => log.error({ err }, "recording was not stopped"));
  });

  function recordByItself(roomId: string): void {
    const callId = calls.log.liveIn(roomId)?.publicId;
    if (callId === undefined || triedIn.get(roomId) === callId) return;
    const room = rooms.byId(roomId);
    if (!room?.record || room.recording || streams.ofRoom(roomId)?.status === "CREATED") return;
    triedIn.set(roomId, callId);
    requireRoom(room.projectId)
      .then(() =>
        write((unit) => {
          const now = rooms.byId(roomId);
          if (now && !now.recording) recordings.begin(unit, now, {}, null);
        }),
      )
      .catch((err) => log.error({ err, roomId }, "recording of a room that records every call was not begun"));
  }

  return {
    ...recordings,
    requireRoom,
    replays,
    hls: hlsService(runtime, { hls, streams, verify: rtcTokens.verify }),
    async recover(): Promise<void> {
      await life.recover();
      await composer.recover();
      await places.recover();
    },
    /** Where the files are. */
    places,
    /** Resolves when nothing more of somebody who has left is being written. */
    settled: life.settled,
    async stopAll(): Promise<void> {
      await Promise.all([life.stopAll(), composer.cancelAll()]);
      await places.stop();
    },
  };
}
