import type { Tenant } from "../kernel/tenant.ts";
import type { ConnectionRow } from "./store/connection.table.ts";

/** Whose connection it is: the client's own name for it is not enough, another may use the same. */
export type Owner = { connectionId: string; roomId: string | null; identity: string };

/** The record of a connection of which nothing is known yet. */
export function newConnection(id: string, tenant: Tenant, owner: Owner, startedAt: number): ConnectionRow {
  return {
    id,
    projectId: tenant.projectId,
    environment: tenant.environment,
    connectionId: owner.connectionId,
    roomId: owner.roomId,
    roomName: null,
    participantIdentity: owner.identity,
    state: "CONNECTING",
    serverName: null,
    sdk: null,
    userAgent: null,
    ipAddress: null,
    reconnectCount: 0,
    rttMs: null,
    jitterMs: null,
    packetLossPercent: null,
    joinTimeMs: null,
    startedAt,
    connectedAt: null,
    reconnectedAt: null,
    lastSeenAt: startedAt,
    disconnectedAt: null,
    disconnectReason: null,
  };
}
