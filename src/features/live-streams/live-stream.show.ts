import { iso } from "../../kernel/time/clock.ts";
import { NEWEST, type PageRequest, page } from "../../kernel/http/serving/pages.ts";
import type { LiveStreamService } from "./live-stream.service.ts";
import type { StreamList } from "./live-stream.store.ts";
import type { LiveStreamRow } from "./live-stream.table.ts";
import type { ViewerCounts } from "./viewer-count.ts";

/** A stream as the API shows it. */
export function presentStream(row: LiveStreamRow, viewerCount: number | null) {
  return {
    id: row.publicId,
    title: row.title,
    description: row.description,
    thumbnailUrl: row.thumbnailUrl,
    category: row.category,
    tags: row.tags,
    language: row.language,
    visibility: row.visibility,
    metadata: row.metadata,
    status: row.status,
    hostIdentity: row.hostIdentity,
    roomId: row.roomId,
    conversationId: row.conversationPublicId,
    viewerCount,
    peakViewerCount: Math.max(row.peakViewerCount, viewerCount ?? 0),
    scheduledAt: iso(row.scheduledAt),
    startedAt: iso(row.startedAt),
    endedAt: iso(row.endedAt),
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  };
}

/** A page of streams, each with its viewers now. */
export async function streamPage(
  context: Parameters<typeof page>[0],
  asked: PageRequest,
  { streams, counts }: { streams: LiveStreamService; counts: ViewerCounts },
  list: StreamList,
) {
  const rows = page<LiveStreamRow, LiveStreamRow>(context, asked, {
    name: "live-streams",
    shape: ["string"],
    read: (after, limit) => streams.list(list, String(after?.[0] ?? NEWEST), limit),
    position: (row) => [row.id],
    show: (row) => row,
  });
  return Promise.all(rows.map(async (row) => presentStream(row, await counts.of(row))));
}
