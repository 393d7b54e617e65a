import { iso } from "../kernel/time/clock.ts";
import type { Unit } from "../kernel/db/writer.ts";
import type { NodeKey } from "../kernel/http/callers.ts";
import type { Runtime } from "../kernel/runtime.ts";
import { ApiError } from "../protocol/errors.ts";
import type { Candidate } from "./registration/allocation.ts";
import type { NodeKeys } from "./registration/node-keys.ts";
import { fleetMetrics, statusOf } from "./registration/server.status.ts";
import { serverStore } from "./registration/server.store.ts";
import type { ServerRow } from "./registration/server.table.ts";

export type FleetService = ReturnType<typeof createFleet>;

export type RegisterServer = {
  name: string;
  region: string;
  publicHost: string;
  internalUrl: string;
  capacity?: number;
  version?: string;
};

export type Heartbeat = {
  activeRooms: number;
  activeParticipants: number;
  cpuPercent?: number;
  memoryPercent?: number;
  networkInBps?: number;
  networkOutBps?: number;
};

type FleetDeps = {
  /** Where the node of a name lives right now; null when there is none. */
  livesAt: (name: string) => string | null;
  /** Throws unless this secret may speak for that name. */
  admit: NodeKeys["admit"];
};

export function createFleet({ bus, db, config, now, metrics }: Runtime, { livesAt, admit }: FleetDeps) {
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

  const show = (row: ServerRow) => ({
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

  function setDraining(unit: Unit, name: string, draining: boolean) {
    const row = find(name);
    store.setDraining(unit, name, draining);
    return show({ ...row, draining });
  }

  return {
    all: store.all,
    list: store.list,
    find,
    show,
    /** How busy the processors of a media server were when it last told; null when nobody knows. */
    cpuOf: (name: string): number | null => store.find(name)?.cpuPercent ?? null,
    metrics: totals,

    /** A known name is the same node after a restart: it keeps its drain and starts its figures anew. */
    register(unit: Unit, input: RegisterServer, key: NodeKey | null = null) {
      admit(unit, input.name, key);
      const livingAt = livesAt(input.name);
      if (livingAt !== null && livingAt !== input.internalUrl) {
        throw new ApiError("SVC_CONFLICT", "A living media node has this name.");
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
      return { created: known === undefined, server: show(row) };
    },

    beat(unit: Unit, name: string, heartbeat: Heartbeat, key: NodeKey | null = null) {
      admit(unit, name, key);
      const row = find(name);
      const { activeRooms, activeParticipants, cpuPercent, memoryPercent, networkInBps, networkOutBps } = heartbeat;
      const figures = {
        activeRooms,
        activeParticipants,
        cpuPercent: cpuPercent ?? null,
        memoryPercent: memoryPercent ?? null,
        networkInBps: networkInBps ?? null,
        networkOutBps: networkOutBps ?? null,
      };
      store.beat(unit, name, figures, now());
      bus.publish(unit, "rtcServerSeen", { name, internalUrl: row.internalUrl });
      return {
        status: row.draining ? ("DRAINING" as const) : ("HEALTHY" as const),
        draining: row.draining,
      };
    },

    drain: (unit: Unit, name: string) => setDraining(unit, name, true),
    undrain: (unit: Unit, name: string) => setDraining(unit, name, false),

    /** Every node as the allocator sees it; `placedOn` counts rooms placed since the node's last report. */
    candidates: (placedOn: (name: string) => number): Candidate[] =>
      store.all().map((row) => ({
        name: row.name,
        region: row.region,
        status: statusOf(row, timeoutSeconds, now()),
        capacity: row.capacity,
        rooms: Math.max(row.activeRooms ?? 0, placedOn(row.name)),
        // A node that claims to be empty is believed only as far as we have placed nothing there.
        participants: Math.max(row.activeParticipants ?? 0, placedOn(row.name)),
        cpuPercent: row.cpuPercent,
        memoryPercent: row.memoryPercent,
      })),
  };
}
