import { and, asc, eq, isNull, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type PeriodRow, webhookPeriods as periods } from "./webhook.table.ts";

/** Which stretches of the log an endpoint is to get, and how far it has come in each. */
export function periodStore(db: Db) {
  const ofEndpoint = reading(() =>
    db
      .select()
      .from(periods)
      .where(eq(periods.endpointId, sql.placeholder("endpointId")))
      .orderBy(asc(periods.startSeq))
      .prepare(),
  );
  const move = changing(() =>
    db
      .update(periods)
      .set({ position: sql`${sql.placeholder("position")}` })
      .where(
        and(eq(periods.endpointId, sql.placeholder("endpointId")), eq(periods.startSeq, sql.placeholder("startSeq"))),
      )
      .prepare(),
  );

  return {
    /** Oldest first. */
    of: (endpointId: string): PeriodRow[] => ofEndpoint.all({ endpointId }),
    /** From here on. */
    begin: (unit: Unit, endpointId: string, seq: number) =>
      void run(
        unit,
        db
          .insert(periods)
          .values({ endpointId, startSeq: seq, position: seq })
          .onConflictDoUpdate({
            target: [periods.endpointId, periods.startSeq],
            set: { endSeq: null },
          }),
      ),
    /** Up to here. */
    end: (unit: Unit, endpointId: string, seq: number) =>
      void run(
        unit,
        db
          .update(periods)
          .set({ endSeq: seq })
          .where(and(eq(periods.endpointId, endpointId), isNull(periods.endSeq))),
      ),
    move: (unit: Unit, { endpointId, startSeq }: PeriodRow, position: number) =>
      void move.run(unit, { endpointId, startSeq, position }),
    remove: (unit: Unit, { endpointId, startSeq }: PeriodRow) =>
      void run(unit, db.delete(periods).where(and(eq(periods.endpointId, endpointId), eq(periods.startSeq, startSeq)))),
  };
}

export type PeriodStore = ReturnType<typeof periodStore>;
