import type { Db } from "../../../kernel/db/open.ts";
import { changing, rowsOf } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type PeriodRow, webhookPeriods } from "./webhook.table.ts";

/** The ranges of the event log that an endpoint gets, and its position in each. */
export function periodStore({ $client: client }: Db) {
  const ofEndpoint = rowsOf(client, webhookPeriods)<[string]>("WHERE endpoint_id = ? ORDER BY start_seq");
  const begin = changing<[string, number]>(
    client,
    `INSERT INTO webhook_periods (endpoint_id, start_seq, position) VALUES (?1, ?2, ?2)
       ON CONFLICT (endpoint_id, start_seq) DO UPDATE SET end_seq = NULL`,
  );
  const end = changing<[number, string]>(
    client,
    "UPDATE webhook_periods SET end_seq = ? WHERE endpoint_id = ? AND end_seq IS NULL",
  );
  const move = changing<[number, string, number]>(
    client,
    "UPDATE webhook_periods SET position = ? WHERE endpoint_id = ? AND start_seq = ?",
  );
  const remove = changing<[string, number]>(
    client,
    "DELETE FROM webhook_periods WHERE endpoint_id = ? AND start_seq = ?",
  );

  return {
    /** The endpoint's periods, oldest first. */
    of: (endpointId: string) => ofEndpoint.all(endpointId),
    /** Begins a period of the endpoint; its first event is the one after `seq`. */
    begin: (unit: Unit, endpointId: string, seq: number) => void begin.run(unit, endpointId, seq),
    /** Ends the endpoint's open period; its last event is `seq`. */
    end: (unit: Unit, endpointId: string, seq: number) => void end.run(unit, seq, endpointId),
    move: (unit: Unit, { endpointId, startSeq }: PeriodRow, position: number) =>
      void move.run(unit, position, endpointId, startSeq),
    remove: (unit: Unit, { endpointId, startSeq }: PeriodRow) => void remove.run(unit, endpointId, startSeq),
  };
}
