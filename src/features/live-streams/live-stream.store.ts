import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, rowsOf, updater } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { LiveStreamStatus, LiveStreamVisibility } from "../../protocol/enums.ts";
import {
  type HostRow,
  liveStreamHosts as hosts,
  type LiveStreamRow,
  liveStreams as streams,
  type ViewerRow,
  liveStreamViewers as viewers,
} from "./live-stream.table.ts";

type StreamList = Tenant & { visibility?: LiveStreamVisibility; status?: LiveStreamStatus };
export type StreamChange = Partial<
  Omit<LiveStreamRow, "id" | "publicId" | "projectId" | "environment" | "roomId" | "conversationId" | "createdAt">
>;

export type LiveStreamStore = ReturnType<typeof liveStreamStore>;

export function liveStreamStore({ $client: client }: Db) {
  const selectStreams = rowsOf(client, streams);
  const byPublicId = selectStreams<[string]>("WHERE public_id = ?");
  const byRoom = selectStreams<[string]>("WHERE room_id = ?");
  // A null filter matches every row, so that one statement serves all combinations.
  const newest = selectStreams<(string | number | null)[]>(
    `WHERE project_id = ?1 AND environment = ?2 AND id < ?3 AND (?4 IS NULL OR visibility = ?4)
     AND (?5 IS NULL OR status = ?5) ORDER BY id DESC LIMIT ?6`,
  );
  const raisePeak = changing(
    client,
    "UPDATE live_streams SET peak_viewer_count = max(peak_viewer_count, ?2) WHERE id = ?1",
  );
  const selectHosts = rowsOf(client, hosts);
  const host = selectHosts<[string, string]>("WHERE stream_id = ? AND identity = ? AND removed_at IS NULL");
  const activeHosts = selectHosts<[string]>("WHERE stream_id = ? AND removed_at IS NULL ORDER BY added_at, identity");
  const viewer = rowsOf(client, viewers)<[string, string]>("WHERE stream_id = ? AND identity = ?");

  return {
    find: (publicId: string): LiveStreamRow | undefined => byPublicId.get(publicId),
    ofRoom: (roomId: string): LiveStreamRow | undefined => byRoom.get(roomId),
    /** Newest first; `before` is the last id of the previous page. */
    list: (
      { projectId, environment, visibility, status }: StreamList,
      before: string,
      limit: number,
    ): LiveStreamRow[] => newest.all(projectId, environment, before, visibility ?? null, status ?? null, limit),
    insert: inserter<LiveStreamRow>(client, streams),
    update: updater(client, streams),
    raisePeak: (unit: Unit, id: string, count: number) => void raisePeak.run(unit, id, count),

    findHost: (streamId: string, identity: string): HostRow | undefined => host.get(streamId, identity),
    /** Sorted by registration. */
    hosts: (streamId: string): HostRow[] => activeHosts.all(streamId),
    /** Saves a host, including one who was removed before. */
    saveHost: inserter<HostRow>(
      client,
      hosts,
      `ON CONFLICT (stream_id, identity) DO UPDATE SET role = excluded.role, chat_tokens = excluded.chat_tokens,
       added_at = excluded.added_at, removed_at = excluded.removed_at`,
    ),
    findViewer: (streamId: string, identity: string): ViewerRow | undefined => viewer.get(streamId, identity),
    saveViewer: inserter<ViewerRow>(
      client,
      viewers,
      "ON CONFLICT (stream_id, identity) DO UPDATE SET joined_at = excluded.joined_at, left_at = excluded.left_at",
    ),
  };
}
