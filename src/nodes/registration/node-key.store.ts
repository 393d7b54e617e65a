import type { Db } from "../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { type NodeKeyRow, rtcNodeKeys } from "./node-key.table.ts";

export function nodeKeyStore({ $client: client }: Db) {
  const columns = columnsOf(rtcNodeKeys);
  const find = reading<NodeKeyRow, [string]>(client, `SELECT ${columns} FROM rtc_node_keys WHERE public_id = ?`);
  const all = reading<NodeKeyRow, []>(
    client,
    `SELECT ${columns} FROM rtc_node_keys ORDER BY created_at DESC, public_id`,
  );
  const used = reading<NodeKeyRow, [string]>(
    client,
    `SELECT ${columns} FROM rtc_node_keys WHERE name = ? AND last_used_at IS NOT NULL ORDER BY last_used_at DESC`,
  );
  const touch = changing(client, "UPDATE rtc_node_keys SET last_used_at = ?2 WHERE public_id = ?1");
  const revoke = changing(client, "UPDATE rtc_node_keys SET revoked_at = ?2 WHERE public_id = ?1");
  return {
    find: (publicId: string): NodeKeyRow | null => find.get(publicId),
    all: (): NodeKeyRow[] => all.all(),
    /** The keys that the node with this name has used, latest first. */
    usedBy: (name: string): NodeKeyRow[] => used.all(name),
    insert: inserter<NodeKeyRow>(client, rtcNodeKeys),
    touch: (unit: Unit, publicId: string, at: number) => void touch.run(unit, publicId, at),
    revoke: (unit: Unit, publicId: string, at: number) => void revoke.run(unit, publicId, at),
  };
}
