import { iso } from "../../kernel/clock.ts";
import { explain } from "./classify.ts";
import type { ConnectionEventRow, ConnectionRow } from "./store/connection.table.ts";
import type { ClassifiedErrorRow } from "./store/error.table.ts";

/** Unknown is null, never a guess and never 0. */
export function showConnection(row: ConnectionRow, now: number) {
  const end = row.disconnectedAt ?? now;
  return {
    id: row.id,
    connectionId: row.connectionId,
    state: row.state,
    roomId: row.roomId,
    roomName: row.roomName,
    participantIdentity: row.participantIdentity,
    serverName: row.serverName,
    sdk: row.sdk,
    userAgent: row.userAgent,
    ipAddress: row.ipAddress,
    reconnectCount: row.reconnectCount,
    rttMs: row.rttMs,
    jitterMs: row.jitterMs,
    packetLossPercent: row.packetLossPercent,
    joinTimeMs: row.joinTimeMs,
    startedAt: iso(row.startedAt),
    connectedAt: iso(row.connectedAt),
    disconnectedAt: iso(row.disconnectedAt),
    durationMs: row.connectedAt === null ? null : Math.max(0, end - row.connectedAt),
    disconnectReason: row.disconnectReason,
  };
}

export function showEvent({ type, source, at, data }: ConnectionEventRow) {
  return { type, source, timestamp: iso(at), data };
}

export function showError(row: ClassifiedErrorRow, connectionId: string | null) {
  return {
    id: row.id,
    category: row.category,
    code: row.code,
    message: row.message,
    ...explain(row.category, row.code),
    connectionId,
    roomId: row.roomId,
    occurredAt: iso(row.occurredAt),
  };
}
