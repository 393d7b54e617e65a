import type { Db } from "../../kernel/db/open.ts";
import { reading } from "../../kernel/db/statements.ts";

/** Only triggers of the database write to its table. */
export function storageUsageStore({ $client: client }: Db) {
  const used = reading<{ bytes: number }, [string, string]>(
    client,
    "SELECT bytes FROM storage_usage WHERE project_id = ? AND user_id = ?",
  );
  return {
    ofProject: (projectId: string): number => used.get(projectId, "")?.bytes ?? 0,
    ofUser: (projectId: string, userId: string): number => used.get(projectId, userId)?.bytes ?? 0,
  };
}
