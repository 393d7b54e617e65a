import type { Runtime } from "../../kernel/runtime.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { LiveStreamStore } from "./live-stream.store.ts";
import type { LiveStreamRow } from "./live-stream.table.ts";

type ViewerCountDeps = { store: LiveStreamStore; liveRooms: Pick<LiveRooms, "connected"> };

/** The interval of counts per stream: when many viewers join together, the stream is not counted a thousand times. */
const COUNT_EVERY_MS = 250;
const CONNECTION_CHANGES = ["started", "connected", "reconnecting", "reconnected", "mediaFailed", "left"] as const;

/** Counts viewers, keeps the peak, and signals changes of count and status to the stream's chat. */
export function viewerCounts({ bus, log, timers, write }: Runtime, { store, liveRooms }: ViewerCountDeps) {
  /** Streams that were counted within COUNT_EVERY_MS; true when they must be counted again. */
  const recentlyCounted = new Map<string, boolean>();
  const lastSignals = new Map<string, string>();

  /** The viewers that are connected now; null when the media node cannot be reached. */
  function count(stream: LiveStreamRow): number | null {
    if (stream.status === "ENDED") return 0;
    const connected = liveRooms.connected(stream.roomId);
    if (connected === null) return null;
    const hosts = new Set(store.hosts(stream.id).map(({ identity }) => identity));
    return connected.filter((identity) => !hosts.has(identity)).length;
  }

  function signal(stream: LiveStreamRow, viewerCount: number | null): void {
    const { publicId: streamId, status, conversationId, conversationPublicId } = stream;
    bus.emit("chatSignal", {
      conversationId,
      signal: { type: "stream.updated", streamId, status, viewerCount, conversationId: conversationPublicId },
    });
  }

  async function countAndSignal(streamId: string): Promise<void> {
    const stream = store.find(streamId);
    if (!stream) return;
    const viewerCount = count(stream);
    if (viewerCount !== null && viewerCount > stream.peakViewerCount) {
      await write((unit) => store.raisePeak(unit, stream.id, viewerCount));
    }
    // A change of status during the count sends a signal of its own.
    if (store.find(streamId)?.status !== stream.status || stream.status === "ENDED") return;
    const content = `${stream.status} ${viewerCount}`;
    if (lastSignals.get(streamId) === content) return;
    lastSignals.set(streamId, content);
    signal(stream, viewerCount);
  }

  function countNow(streamId: string): void {
    countAndSignal(streamId).catch((err) => log.error({ err, streamId }, "live streams: viewers not counted"));
  }

  function countSoon(streamId: string): void {
    if (recentlyCounted.has(streamId)) {
      recentlyCounted.set(streamId, true);
      return;
    }
    recentlyCounted.set(streamId, false);
    countNow(streamId);
    timers.after(COUNT_EVERY_MS, () => {
      const again = recentlyCounted.get(streamId) === true;
      recentlyCounted.delete(streamId);
      if (again) countSoon(streamId);
    });
  }

  bus.on("streamChanged", ({ streamId, status }) => {
    if (status !== "ENDED") return countNow(streamId);
    lastSignals.delete(streamId);
    const stream = store.find(streamId);
    if (stream) signal(stream, 0);
  });
  bus.on("rtcConnection", CONNECTION_CHANGES, ({ roomId }) => {
    const stream = store.ofRoom(roomId);
    if (stream && stream.status !== "ENDED") countSoon(stream.publicId);
  });

  return { of: count };
}
