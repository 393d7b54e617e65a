import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";

/** Addresses in the records of connections, and in their timelines. */
export function addressStore({ $client: client }: Db) {
  const old = reading(() =>
    client.prepare<{ id: string }, [number, number]>(
      "SELECT id FROM rtc_connections WHERE started_at < ? AND ip_address IS NOT NULL LIMIT ?",
    ),
  );
  const forgetRtc = changing(() => client.prepare("UPDATE rtc_connections SET ip_address = NULL WHERE id = ?"));
  const forgetTimeline = changing(() =>
    client.prepare(
      `UPDATE rtc_connection_events SET data = json_remove(data, '$.remoteAddress')
       WHERE connection = ? AND json_type(data, '$.remoteAddress') IS NOT NULL`,
    ),
  );
  const forgetChat = changing(() =>
    client.prepare(
      `UPDATE chat_connections SET ip_address = '' WHERE id IN
       (SELECT id FROM chat_connections WHERE connected_at < ? AND ip_address <> '' LIMIT ?)`,
    ),
  );
  return {
    /** How many were changed; 0 when none is left. */
    forget(unit: Unit, before: number, limit: number): number {
      const ids = old.all(before, limit);
      for (const { id } of ids) {
        forgetRtc.run(unit, id);
        forgetTimeline.run(unit, id);
      }
      return ids.length + forgetChat.run(unit, before, limit).changes;
    },
  };
}
