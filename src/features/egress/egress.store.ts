import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, rowsOf, updater } from "../../kernel/db/statements.ts";
import { sameTenant, type Tenant } from "../../kernel/tenant.ts";
import { egresses } from "./egress.table.ts";

export function egressStore({ $client: client }: Db) {
  const rows = rowsOf(client, egresses);
  const byId = rows<[string]>("WHERE id = ?");
  const unfinished = rows<[]>("WHERE ended_at IS NULL");
  const newest = rows<[string, string, number]>(
    "WHERE project_id = ? AND environment = ? ORDER BY started_at DESC LIMIT ?",
  );
  const insert = inserter(client, egresses);
  const update = updater(client, egresses);
  const removeEnded = changing<[number]>(client, "DELETE FROM egresses WHERE ended_at < ?");
  return {
    insert,
    update,
    removeEnded: removeEnded.run,
    unfinished: unfinished.all,
    get: byId.get,
    find(tenant: Tenant, id: string) {
      const row = byId.get(id);
      return row && sameTenant(row, tenant) ? row : null;
    },
    list: ({ projectId, environment }: Tenant, limit: number) => newest.all(projectId, environment, limit),
  };
}
