import { type Author, COMMAND_LINE } from "../kernel/author.ts";
import type { Unit } from "../kernel/db/writer.ts";
import type { NodeKey } from "../kernel/http/callers.ts";
import type { Runtime } from "../kernel/runtime.ts";
import { iso } from "../kernel/time/clock.ts";
import { RTC_SERVER_STATUSES, type RtcServerStatus } from "../protocol/enums.ts";
import { ApiError } from "../protocol/errors.ts";
import type { Candidate } from "./registration/allocation.ts";
import type { NodeKeys } from "./registration/node-keys.ts";
import type { FleetMetrics, Heartbeat, RegisterServer } from "./registration/server.schema.ts";
import { serverStore } from "./registration/server.store.ts";
import type { ServerRow } from "./registration/server.table.ts";

export type FleetService = ReturnType<typeof createFleet>;

type FleetDeps = {
  /** The URL of the connected node of this name; null without one. */
  urlOf: (name: string) => string | null;
  /** Throws unless a node with this name may use the key. */
  admit: NodeKeys["admit"];
};

export function createFleet({ bus, db, config, now, metrics }: Runtime, { urlOf, admit }: FleetDeps) {
  const store = serverStore(db);
  const timeoutSeconds = config.SFU_HEARTBEAT_TIMEOUT_SECONDS;
  const totals = () => fleetMetrics(store.all(), timeoutSeconds, now());
  metrics.gaugeOf("stoa_rtc_servers_healthy", "Media nodes that take new rooms", () => totals().healthy);
  metrics.gaugeOf("stoa_rtc_servers_unhealthy", "Media nodes past their heartbeat timeout", () => totals().unhealthy);

  function find(name: string): ServerRow {
    const row = store.find(name);
    if (!row) throw new ApiError("SVC_RTC_SERVER_NOT_FOUND");
    return row;
  }

  const present = (row: ServerRow) => ({
    name: row.name,
    region: row.region,
    publicHost: row.publicHost,
    internalUrl: row.internalUrl,
    capacity: row.capacity,
    version: row.version,
    status: statusOf(row, timeoutSeconds, now()),
    activeRooms: row.activeRooms,
    activeParticipants: row.activeParticipants,
    cpuPercent: row.cpuPercent,
    memoryPercent: row.memoryPercent,
    networkInBps: row.networkInBps,
    networkOutBps: row.networkOutBps,
    registeredAt: iso(row.registeredAt),
    lastHeartbeatAt: iso(row.lastHeartbeatAt),
  });

  function setDraining(unit: Unit, name: string, draining: boolean, author: Author) {
    const row = find(name);
    store.setDraining(unit, name, draining);
    const action = draining ? "server.drained" : "server.undrained";
    bus.publish(unit, "audit", { ...author, action, projectId: null, resourceId: name, metadata: {}, at: now() });
    return present({ ...row, draining });
  }

  return {
    all: store.all,
    list: store.list,
    find,
    present,
    /** An older process of this server is not registered, but it is in the same region. */
    regionOf: (name: string): string => store.find(name)?.region ?? config.SFU_REGION,
    /** The CPU load in a node's last heartbeat; null when unknown. */
    cpuOf: (name: string): number | null => store.find(name)?.cpuPercent ?? null,
    metrics: totals,

    /** A known name is the same node after a restart: it keeps draining, and its figures are reset. */
    register(unit: Unit, input: RegisterServer, key: NodeKey | null = null) {
      admit(unit, input.name, key);
      const connectedUrl = urlOf(input.name);
      if (connectedUrl !== null && connectedUrl !== input.internalUrl) {
        throw new ApiError("SVC_CONFLICT", "A running media node has this name.");
      }
      const known = store.find(input.name);
      const at = now();
      const row: ServerRow = {
        name: input.name,
        region: input.region,
        publicHost: input.publicHost,
        internalUrl: input.internalUrl,
        capacity: input.capacity ?? null,
        version: input.version || null,
        draining: known?.draining ?? false,
        activeRooms: null,
        activeParticipants: null,
        cpuPercent: null,
        memoryPercent: null,
        networkInBps: null,
        networkOutBps: null,
        registeredAt: known?.registeredAt ?? at,
        lastHeartbeatAt: known?.lastHeartbeatAt ?? null,
        seenAt: at,
      };
      store.put(unit, row);
      bus.publish(unit, "rtcServerSeen", { name: row.name, internalUrl: row.internalUrl });
      return { created: known === undefined, server: present(row) };
    },

    beat(unit: Unit, name: string, heartbeat: Heartbeat, key: NodeKey | null = null) {
      admit(unit, name, key);
      const row = find(name);
      const {
        cpuPercent = null,
        memoryPercent = null,
        networkInBps = null,
        networkOutBps = null,
        ...counts
      } = heartbeat;
      store.beat(unit, name, { ...counts, cpuPercent, memoryPercent, networkInBps, networkOutBps }, now());
      bus.publish(unit, "rtcServerSeen", { name, internalUrl: row.internalUrl });
      return {
        status: row.draining ? ("DRAINING" as const) : ("HEALTHY" as const),
        draining: row.draining,
      };
    },

    drain: (unit: Unit, name: string, author: Author = COMMAND_LINE) => setDraining(unit, name, true, author),
    undrain: (unit: Unit, name: string, author: Author = COMMAND_LINE) => setDraining(unit, name, false, author),

    /**
     * Every node in the form that the allocator uses; `placedOn` counts rooms placed since the node's last heartbeat.
     */
    candidates: (placedOn: (name: string) => number): Candidate[] =>
      store.all().map((row) => ({
        name: row.name,
        region: row.region,
        status: statusOf(row, timeoutSeconds, now()),
        capacity: row.capacity,
        rooms: Math.max(row.activeRooms ?? 0, placedOn(row.name)),
        // A node that reports no participants has at least the rooms placed on it.
        participants: Math.max(row.activeParticipants ?? 0, placedOn(row.name)),
        cpuPercent: row.cpuPercent,
        memoryPercent: row.memoryPercent,
      })),
  };
}

/** A node without heartbeats is unhealthy even while it drains. */
function statusOf(row: ServerRow, timeoutSeconds: number, at: number): RtcServerStatus {
  if (at - row.seenAt >= timeoutSeconds * 1000) return "UNHEALTHY";
  return row.draining ? "DRAINING" : "HEALTHY";
}

/** Totals of nodes that are alive. A total without any known figure is null instead of 0. */
function fleetMetrics(rows: readonly ServerRow[], timeoutSeconds: number, at: number): FleetMetrics {
  const byStatus = new Map(RTC_SERVER_STATUSES.map((status) => [status, [] as ServerRow[]]));
  for (const row of rows) byStatus.get(statusOf(row, timeoutSeconds, at))?.push(row);
  const count = (status: RtcServerStatus) => byStatus.get(status)?.length ?? 0;
  const alive = [...(byStatus.get("HEALTHY") ?? []), ...(byStatus.get("DRAINING") ?? [])];
  const total = (of: (row: ServerRow) => number | null) => {
    const known = alive.map(of).filter((value) => value !== null);
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
  };
  return {
    servers: rows.length,
    healthy: count("HEALTHY"),
    draining: count("DRAINING"),
    unhealthy: count("UNHEALTHY"),
    capacity: total((row) => row.capacity),
    activeRooms: total((row) => row.activeRooms),
    activeParticipants: total((row) => row.activeParticipants),
    networkInBps: total((row) => row.networkInBps),
    networkOutBps: total((row) => row.networkOutBps),
  };
}
