import type { Db } from "../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { User } from "../../kernel/personal-data.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { type ErasureRow, type ExportRow, type ExportStatus, personErasures, personExports } from "./privacy.table.ts";

export type PrivacyStore = ReturnType<typeof privacyStore>;

/** The rows of requested erasures and exports. */
export function privacyStore({ $client: client }: Db) {
  const ERASURE = columnsOf(personErasures);
  const EXPORT = columnsOf(personExports);
  const latest = reading<ErasureRow, [string, string, string]>(
    client,
    `SELECT ${ERASURE} FROM person_erasures WHERE project_id = ? AND environment = ? AND digest = ?
       ORDER BY requested_at DESC LIMIT 1`,
  );
  const open = reading<ErasureRow, []>(
    client,
    `SELECT ${ERASURE} FROM person_erasures WHERE finished_at IS NULL ORDER BY requested_at`,
  );
  const erased = changing(client, "UPDATE person_erasures SET user_id = NULL, erased_at = ?2 WHERE id = ?1");
  const finished = changing(client, "UPDATE person_erasures SET finished_at = ?2 WHERE id = ?1");
  const exportById = reading<ExportRow, [string, string, string, string]>(
    client,
    `SELECT ${EXPORT} FROM person_exports WHERE project_id = ? AND environment = ? AND user_id = ? AND id = ?`,
  );
  const anyExport = reading<ExportRow, [string]>(client, `SELECT ${EXPORT} FROM person_exports WHERE id = ?`);
  const exportsOf = reading<ExportRow, [string, string, string]>(
    client,
    `SELECT ${EXPORT} FROM person_exports WHERE project_id = ? AND environment = ? AND user_id = ?
       ORDER BY requested_at, id`,
  );
  const running = reading<ExportRow, []>(client, `SELECT ${EXPORT} FROM person_exports WHERE status = 'RUNNING'`);
  const runningOf = reading<{ count: number }, [string]>(
    client,
    "SELECT count(*) AS count FROM person_exports WHERE project_id = ? AND status = 'RUNNING'",
  );
  const old = reading<ExportRow, [number, number]>(
    client,
    `SELECT ${EXPORT} FROM person_exports WHERE requested_at < ? ORDER BY requested_at LIMIT ?`,
  );
  const settle = changing(
    client,
    "UPDATE person_exports SET status = ?2, bytes = ?3, sha256 = ?4, finished_at = ?5 WHERE id = ?1",
  );
  const removeExport = changing(client, "DELETE FROM person_exports WHERE id = ?");

  return {
    insertErasure: inserter<ErasureRow>(client, personErasures),
    latestErasure: ({ projectId, environment }: Tenant, digest: string): ErasureRow | null =>
      latest.get(projectId, environment, digest),
    /** Erasures that are not finished, oldest first. */
    openErasures: (): ErasureRow[] => open.all(),
    erased: (unit: Unit, id: string, at: number) => void erased.run(unit, id, at),
    finished: (unit: Unit, id: string, at: number) => void finished.run(unit, id, at),

    insertExport: inserter<ExportRow>(client, personExports),
    findExport: ({ projectId, environment, userId }: User, id: string): ExportRow | null =>
      exportById.get(projectId, environment, userId, id),
    getExport: (id: string): ExportRow | null => anyExport.get(id),
    exportsOf: ({ projectId, environment, userId }: User): ExportRow[] => exportsOf.all(projectId, environment, userId),
    runningExports: (): ExportRow[] => running.all(),
    countRunning: (projectId: string): number => runningOf.get(projectId)?.count ?? 0,
    exportsBefore: (at: number, limit: number): ExportRow[] => old.all(at, limit),
    settleExport: (
      unit: Unit,
      id: string,
      status: ExportStatus,
      file: { bytes: number; sha256: string } | null,
      at: number,
    ) => void settle.run(unit, id, status, file?.bytes ?? null, file?.sha256 ?? null, at),
    removeExport: (unit: Unit, id: string) => void removeExport.run(unit, id),
  };
}
