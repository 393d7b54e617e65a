import type { Db } from "../../kernel/db/open.ts";
import { reading } from "../../kernel/db/statements.ts";

export function storageUsageStore({ $client: client }: Db) {
  const used = reading(() =>
    client.prepare<{ bytes: number }, [string, string]>(
      "SELECT bytes FROM storage_usage WHERE project_id = ? AND user_id = ?",
    ),
  );
  return {
    ofProject: (projectId: string): number => used.get(projectId, "")?.bytes ?? 0,
    ofUser: (projectId: string, userId: string): number => used.get(projectId, userId)?.bytes ?? 0,
  };
}
