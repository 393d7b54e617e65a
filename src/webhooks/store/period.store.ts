import { and, asc, eq, isNull, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { type PeriodRow, webhookPeriods as periods } from "./webhook.table.ts";

/** Which stretches of the log an endpoint is to get, and how far it has come in each. */
export function periodStore(db: Db) {
  const ofEndpoint = db
    .select()
    .from(periods)
    .where(eq(periods.endpointId, sql.placeholder("endpointId")))
    .orderBy(asc(periods.startSeq))
    .prepare();
  const move = db
    .update(periods)
    .set({ position: sql`${sql.placeholder("position")}` })
    .where(
      and(eq(periods.endpointId, sql.placeholder("endpointId")), eq(periods.startSeq, sql.placeholder("startSeq"))),
    )
    .prepare();

  return {
    /** Oldest first. */
    of: (endpointId: string): PeriodRow[] => ofEndpoint.all({ endpointId }),
    /** From here on. */
    begin: (_unit: Unit, endpointId: string, seq: number) =>
      void db
        .insert(periods)
        .values({ endpointId, startSeq: seq, position: seq })
        .onConflictDoUpdate({
          target: [periods.endpointId, periods.startSeq],
          set: { endSeq: null },
        })
        .run(),
    /** Up to here. */
    end: (_unit: Unit, endpointId: string, seq: number) =>
      void db
        .update(periods)
        .set({ endSeq: seq })
        .where(and(eq(periods.endpointId, endpointId), isNull(periods.endSeq)))
        .run(),
    move: (_unit: Unit, { endpointId, startSeq }: PeriodRow, position: number) =>
      void move.run({ endpointId, startSeq, position }),
    remove: (_unit: Unit, { endpointId, startSeq }: PeriodRow) =>
      void db
        .delete(periods)
        .where(and(eq(periods.endpointId, endpointId), eq(periods.startSeq, startSeq)))
        .run(),
  };
}

export type PeriodStore = ReturnType<typeof periodStore>;
