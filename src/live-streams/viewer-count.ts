import { ApiError } from "../protocol/errors.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { Runtime } from "../runtime.ts";
import type { LiveStreamStore } from "./live-stream.store.ts";
import type { LiveStreamRow } from "./live-stream.table.ts";
import type { PeopleStore } from "./people.store.ts";

export type ViewerCountDeps = {
  store: LiveStreamStore;
  people: PeopleStore;
  liveRooms: Pick<LiveRooms, "participants">;
};

export type ViewerCounts = {
  /** Viewers connected now, as the media plane sees them; null when it cannot be asked. */
  of(stream: LiveStreamRow): Promise<number | null>;
};

export function viewerCounts({ bus, log }: Runtime, { store, people, liveRooms }: ViewerCountDeps): ViewerCounts {
  async function count(stream: LiveStreamRow): Promise<number | null> {
    if (stream.status === "ENDED") return 0;
    try {
      const participants = await liveRooms.participants(stream.roomId);
      const hosts = new Set(people.hosts(stream.id).map(({ identity }) => identity));
      return participants.filter(({ identity, state }) => state === "CONNECTED" && !hosts.has(identity)).length;
    } catch (error) {
      if (error instanceof ApiError && error.code === "SVC_RTC_SERVER_UNREACHABLE") return null;
      throw error;
    }
  }

  /** Tells the stream's chat how it stands. */
  async function tell(streamId: string): Promise<void> {
    const stream = store.find(streamId);
    if (!stream) return;
    const viewerCount = await count(stream);
    const { conversationId, conversationPublicId, status } = stream;
    bus.announce("chatSignal", {
      conversationId,
      signal: { type: "stream.updated", conversationId: conversationPublicId, streamId, status, viewerCount },
    });
  }

  bus.on("streamChanged", ({ streamId }) => {
    tell(streamId).catch((err) => log.error({ err, streamId }, "viewers of a stream not counted"));
  });

  return { of: count };
}
