import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { LiveStreamStore } from "./live-stream.store.ts";
import type { LiveStreamRow } from "./live-stream.table.ts";
import type { PeopleStore } from "./participant.store.ts";

type ViewerCountDeps = {
  store: LiveStreamStore;
  people: PeopleStore;
  liveRooms: Pick<LiveRooms, "participants">;
};

export type ViewerCounts = {
  /** Viewers connected now, as the media plane sees them; null when it cannot be asked. */
  of(stream: LiveStreamRow): Promise<number | null>;
};

/** When a thousand come at once, they are counted a few times, not a thousand times. */
const COUNT_EVERY_MS = 250;
const COMING_AND_GOING = ["started", "connected", "reconnecting", "reconnected", "mediaFailed", "left"] as const;

/** Counts viewers, keeps the highest count, and tells the stream's chat when the count or the status changes. */
export function viewerCounts(runtime: Runtime, { store, people, liveRooms }: ViewerCountDeps): ViewerCounts {
  const { bus, log, timers, write } = runtime;
  /** Streams that were counted a moment ago; true when they are to be counted again. */
  const counted = new Map<string, boolean>();
  const told = new Map<string, string>();

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

  function tell(
    { publicId: streamId, status, conversationId, conversationPublicId }: LiveStreamRow,
    viewerCount: number | null,
  ) {
    const signal = { type: "stream.updated" as const, streamId, status, viewerCount };
    bus.emit("chatSignal", { conversationId, signal: { ...signal, conversationId: conversationPublicId } });
  }

  async function countAndTell(streamId: string): Promise<void> {
    const stream = store.find(streamId);
    if (!stream) return;
    const viewerCount = await count(stream);
    if (viewerCount !== null && viewerCount > stream.peakViewerCount) {
      await write((unit) => store.raisePeak(unit, stream.id, viewerCount));
    }
    // Asking took its time: a change of status in the meantime has told, or will tell, for itself.
    if (store.find(streamId)?.status !== stream.status || stream.status === "ENDED") return;
    const news = `${stream.status} ${viewerCount}`;
    if (told.get(streamId) === news) return;
    told.set(streamId, news);
    tell(stream, viewerCount);
  }

  function countNow(streamId: string): void {
    countAndTell(streamId).catch((err) => log.error({ err, streamId }, "viewers of a stream not counted"));
  }

  function countSoon(streamId: string): void {
    if (counted.has(streamId)) {
      counted.set(streamId, true);
      return;
    }
    counted.set(streamId, false);
    countNow(streamId);
    timers.after(COUNT_EVERY_MS, () => {
      const again = counted.get(streamId) === true;
      counted.delete(streamId);
      if (again) countSoon(streamId);
    });
  }

  bus.on("streamChanged", ({ streamId, status }) => {
    if (status !== "ENDED") return countNow(streamId);
    told.delete(streamId);
    const stream = store.find(streamId);
    if (stream) tell(stream, 0);
  });
  bus.on("rtcConnection", COMING_AND_GOING, ({ roomId }) => {
    const stream = store.ofRoom(roomId);
    if (stream && stream.status !== "ENDED") countSoon(stream.publicId);
  });

  return { of: count };
}
