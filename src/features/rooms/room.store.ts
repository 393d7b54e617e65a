import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, rowsOf, updater } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Environment } from "../../protocol/enums.ts";
import { type RoomRow, rooms } from "./room.table.ts";

export type RoomFilter = { projectId: string; environment: Environment; status: RoomRow["status"] };

export function roomStore({ $client: client }: Db) {
  const select = rowsOf(client, rooms);
  const byId = select<[string]>("WHERE id = ?");
  const activeByName = select<[string, Environment, string]>(
    // The status is a literal, so that SQLite uses the partial index.
    "WHERE project_id = ? AND environment = ? AND name = ? AND status = 'ACTIVE'",
  );
  const latestByName = select<[string, Environment, string]>(
    "WHERE project_id = ? AND environment = ? AND name = ? ORDER BY id DESC LIMIT 1",
  );
  const newest = select<[string, Environment, string, string, number]>(
    "WHERE project_id = ? AND environment = ? AND status = ? AND id < ? ORDER BY id DESC LIMIT ?",
  );
  const close = changing<[number, string]>(
    client,
    "UPDATE rooms SET status = 'CLOSED', updated_at = ?1, closed_at = ?1 WHERE id = ?2",
  );
  const ending = select<[number]>(
    `WHERE status = 'ACTIVE' AND empty_timeout IS NOT NULL
     AND created_at + 1000 * min(empty_timeout, departure_timeout) <= ?`,
  );
  const markRecording = changing<[number, string]>(client, "UPDATE rooms SET recording = ? WHERE id = ?");

  return {
    find: (id: string) => byId.get(id),
    findActive: (projectId: string, environment: Environment, name: string) =>
      activeByName.get(projectId, environment, name),
    /** The active room of this name, or the room that had the name last. */
    findByName: (projectId: string, environment: Environment, name: string) =>
      activeByName.get(projectId, environment, name) ?? latestByName.get(projectId, environment, name),
    /** Newest first. `before` is the last id of the previous page; ids sort by time. */
    list: ({ projectId, environment, status }: RoomFilter, before: string, limit: number) =>
      newest.all(projectId, environment, status, before, limit),
    /** The active rooms that close after having been empty for a while, and are old enough for that. */
    ending: (at: number) => ending.all(at),
    update: updater(client, rooms),
    insert: inserter<RoomRow>(client, rooms),
    close: (unit: Unit, id: string, at: number) => void close.run(unit, at, id),
    markRecording: (unit: Unit, id: string, recording: boolean) => void markRecording.run(unit, recording ? 1 : 0, id),
  };
}
