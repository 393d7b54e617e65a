/** Tells a compositor who is in its room, which of their tracks belong to the composition, and who speaks. */
import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import type { LiveParticipant } from "../../protocol/room-records.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { SceneTrack } from "./compositor/scene.ts";

/** What is composed: the whole room, one participant, or single tracks. */
export type EgressSource =
  | { type: "room" }
  | { type: "participant"; identity: string; screenShare: boolean }
  | { type: "tracks"; trackIds: string[] };

export type RoomContent = { serverName: string | null; tracks: SceneTrack[]; participants: string[] };

type Watched = { roomId: string; source: EgressSource };

/** Changes within this time are read together. */
const SETTLE_MS = 100;
/** Names can change without an event, so they are read again at this interval. */
const REFRESH_MS = 3_000;
const MOMENTS = ["started", "connected", "trackPublished", "trackUnpublished", "left"] as const;

export function tracksOf(participants: readonly LiveParticipant[], source: EgressSource): SceneTrack[] {
  return participants.flatMap(({ identity, name, tracks }) =>
    tracks.flatMap(({ id: trackId, kind, source: from, muted, encryption }) => {
      const isScreen = from === "screenShare" || from === "screenShareAudio";
      const belongs =
        source.type === "room" ||
        (source.type === "participant" && source.identity === identity && source.screenShare === isScreen) ||
        (source.type === "tracks" && source.trackIds.includes(trackId));
      // End-to-end encrypted tracks cannot be decoded here.
      if (!belongs || encryption) return [];
      return [{ trackId, identity, name: name ?? identity, kind, source: from, muted }];
    }),
  );
}

type RoomWatchDeps = { nodes: Pick<MediaNodes, "onEvent">; liveRooms: Pick<LiveRooms, "participants" | "serversOf"> };

/**
 * Watches rooms for all egresses. `watch` calls back with the tracks and speakers, now and on every change, until the returned
 * function is called.
 */
export function createRoomWatch({ bus, log, timers }: Runtime, { nodes, liveRooms }: RoomWatchDeps) {
  type Watcher = Watched & {
    changed(state: RoomContent): void;
    spoke(speakers: string[]): void;
    lost(): void;
    cancel: () => void;
  };
  const watchers = new Set<Watcher>();

  const inRoom = (roomId: string) => [...watchers].filter((one) => one.roomId === roomId);

  async function refresh(watcher: Watcher): Promise<void> {
    watcher.cancel();
    watcher.cancel = timers.after(REFRESH_MS, () => void refresh(watcher));
    try {
      const participants = await liveRooms.participants(watcher.roomId);
      if (!watchers.has(watcher)) return;
      watcher.changed({
        serverName: liveRooms.serversOf(watcher.roomId)[0] ?? null,
        tracks: tracksOf(participants, watcher.source),
        participants: participants.map(({ identity }) => identity),
      });
    } catch (err) {
      log.warn({ err, roomId: watcher.roomId }, "egress: room state not refreshed, retrying");
    }
  }

  function soon(roomId: string): void {
    for (const watcher of inRoom(roomId)) {
      watcher.cancel();
      watcher.cancel = timers.after(SETTLE_MS, () => void refresh(watcher));
    }
  }

  bus.on("rtcConnection", [...MOMENTS], ({ roomId }) => soon(roomId));
  nodes.onEvent((_serverName, event) => {
    if (event.type === "speakersChanged") {
      const speakers = event.speakers.map(({ identity }) => identity);
      for (const { spoke } of inRoom(event.roomId)) spoke(speakers);
    } else if (event.type === "workerCrashed") {
      for (const { roomId } of event.rooms) for (const { lost } of inRoom(roomId)) lost();
    } else if (event.type === "trackMuted" || event.type === "trackUnmuted") soon(event.roomId);
  });

  return (watched: Watched, on: Pick<Watcher, "changed" | "spoke" | "lost">): (() => void) => {
    const watcher: Watcher = { ...watched, ...on, cancel: () => {} };
    watchers.add(watcher);
    void refresh(watcher);
    return () => {
      watcher.cancel();
      watchers.delete(watcher);
    };
  };
}

export type RoomWatch = ReturnType<typeof createRoomWatch>;
