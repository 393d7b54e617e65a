import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Attachments } from "../chat/attachments/attachments.ts";
import type { ChatService } from "../chat/chat.ts";
import type { LiveStreamService } from "../live-streams/live-stream.service.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { RtcTokenService } from "../rooms/rtc-token.service.ts";
import type { Calls } from "../sessions/calls/calls.ts";
import type { StorageQuota } from "../storage/quota.ts";
import { createActiveRecordings, type HandedOverRecordings } from "./active-recordings.ts";
import { createComposer } from "./composition/composer.ts";
import { hlsService } from "./hls/hls.service.ts";
import { createHls } from "./hls/hls.ts";
import { recordingService } from "./recording.service.ts";
import { recordingStore } from "./recording.store.ts";
import type { RecordingRow } from "./recording.table.ts";
import { recordingFolder } from "./recording-folder.ts";
import { replayService } from "./replay.service.ts";
import { createStorageLocations } from "./storage-locations/storage-locations.ts";

type Deps = {
  chat: Pick<ChatService, "roomMessages">;
  attachments: Pick<Attachments, "removals" | "storages"> & { quota: Pick<StorageQuota, "require"> };
  rooms: RoomService;
  nodes: MediaNodes;
  liveRooms: Pick<LiveRooms, "serversOf">;
  calls: Pick<Calls, "log" | "namesIn">;
  liveStreams: { streams: Pick<LiveStreamService, "find" | "ofRoom"> };
  rtcTokens: Pick<RtcTokenService, "verify">;
};

export type Recordings = ReturnType<typeof createRecordings>;

/** Recordings of rooms: started by a request, or automatically in rooms that record every call. */
export function createRecordings(runtime: Runtime, deps: Deps) {
  const { chat, attachments, rooms, nodes, liveRooms, calls, liveStreams, rtcTokens } = deps;
  const { bus, log, write } = runtime;
  const store = recordingStore(runtime.db);
  const folder = recordingFolder(runtime.config);
  const requireSpace = async (projectId: string): Promise<void> => {
    attachments.quota.require({ projectId, userId: null, bytes: 1 });
    if ((await folder.freeBytes()) >= runtime.config.RECORDING_MIN_FREE_BYTES) return;
    throw new ApiError("SVC_STORAGE_FULL", "There is too little space left on the disk to record.");
  };
  const { streams } = liveStreams;
  const hls = createHls(runtime, folder);
  const isLiveStream = (roomId: string) => streams.ofRoom(roomId) !== undefined;
  const locations = createStorageLocations(runtime, { store, folder, nodes, ...attachments });
  const active = createActiveRecordings(runtime, {
    store,
    folder,
    locations,
    rooms,
    nodes,
    requireSpace,
    hls,
    isLiveStream,
    mainServerOf: (roomId) => liveRooms.serversOf(roomId)[0],
  });
  const namesIn = (row: RecordingRow) => calls.namesIn(row, row.roomId, row.startedAt, row.endedAt ?? runtime.now());
  const composer = createComposer(runtime, { store, folder, locations, namesIn });
  const liveState = (roomId: string) => ({
    serverNames: liveRooms.serversOf(roomId),
    callId: calls.log.liveIn(roomId)?.publicId ?? null,
  });
  const recordings = recordingService(runtime, {
    store,
    folder,
    locations,
    active,
    hls,
    composer,
    liveState,
    requireSpace,
    roomMessages: chat.roomMessages,
  });
  const replays = replayService(runtime, { store, recordings, namesIn });
  /**
   * The call in which a room was recorded automatically: after a recording was stopped, it is not started again in the
   * same call.
   */
  const lastCalls = new Map<string, string>();

  bus.on("recordedRoomEntered", ({ roomId }) => recordAutomatically(roomId));
  bus.on("rtcConnection", ["left"], ({ roomId }) => {
    if (calls.log.liveIn(roomId)) return;
    lastCalls.delete(roomId);
    const running = active.inRoom(roomId);
    if (running?.automatic)
      void active.stop(running.id).catch((err) => log.error({ err }, "recordings: automatic recording not stopped"));
  });

  // The room is not recorded before its live stream starts.
  bus.on("streamChanged", ({ roomId, status }) => {
    if (status === "LIVE") recordAutomatically(roomId);
  });
  bus.on("roomClosed", ({ roomId }) => {
    const running = active.inRoom(roomId);
    if (running)
      void active
        .stop(running.id)
        .catch((err) => log.error({ err }, "recordings: recording of a closed room not stopped"));
  });

  function recordAutomatically(roomId: string): void {
    const callId = calls.log.liveIn(roomId)?.publicId;
    if (callId === undefined || lastCalls.get(roomId) === callId) return;
    const room = rooms.byId(roomId);
    if (!room?.record || room.recording || streams.ofRoom(roomId)?.status === "CREATED") return;
    lastCalls.set(roomId, callId);
    requireSpace(room.projectId)
      .then(() =>
        write((unit) => {
          const now = rooms.byId(roomId);
          if (now && !now.recording) recordings.begin(unit, now, {}, null);
        }),
      )
      .catch((err) => log.error({ err, roomId }, "recordings: automatic recording not started"));
  }

  return {
    ...recordings,
    requireSpace,
    replays,
    hls: hlsService(runtime, { hls, streams, verify: rtcTokens.verify }),
    async recover(hasOlder = false): Promise<void> {
      await active.recover(hasOlder);
      for (const { roomId } of store.running()) {
        const callId = calls.log.liveIn(roomId)?.publicId;
        if (callId !== undefined) lastCalls.set(roomId, callId);
      }
      await composer.recover();
      await locations.recover();
    },
    /** Called when the rooms of older processes have been found; `handedOver` are the recordings that those processes ran. */
    settle: (handedOver: readonly string[]): Promise<void> =>
      active.settle(handedOver, (roomId) => calls.log.liveIn(roomId) !== undefined),
    locations,
    settled: active.settled,
    async stopAll(): Promise<void> {
      await Promise.all([active.stopAll(), composer.cancelAll()]);
      await locations.stop();
    },
    /** Leaves running recordings to a newer process. `ownServer` is the name of this process's node. */
    async handOver(ownServer: string): Promise<HandedOverRecordings> {
      const [left] = await Promise.all([active.handOver(ownServer), composer.cancelAll()]);
      await locations.stop();
      return left;
    },
  };
}

/** The ids of a call's recordings; for calls, which are created before the recordings. */
export function recordingsOfCalls({ db }: Runtime): (roomId: string, callId: string) => string[] {
  const store = recordingStore(db);
  return (roomId, callId) => store.ofCall(roomId, callId).map(({ publicId }) => publicId);
}
