import { eq } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { agentDispatches, type DispatchRow } from "./dispatch.table.ts";

export function dispatchStore(db: Db) {
  const { id, createdAt } = agentDispatches;
  return {
    all: (): DispatchRow[] => db.select().from(agentDispatches).orderBy(createdAt, id).all(),
    save: (unit: Unit, row: DispatchRow) =>
      run(unit, db.insert(agentDispatches).values(row).onConflictDoUpdate({ target: id, set: row })),
    remove: (unit: Unit, dispatchId: string) => run(unit, db.delete(agentDispatches).where(eq(id, dispatchId))),
  };
}
