import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS, iso } from "../../../kernel/time/clock.ts";
import type { CallStatus } from "../../../protocol/enums.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { CallVerdict } from "../../../protocol/room-records.ts";
import { type CallParticipantRow, type CallRow, callStore } from "./call.store.ts";
import { createCallLog } from "./call-log.ts";
import { callTimeline, type TimelineSources } from "./call-timeline.ts";

const PRUNED_PER_UNIT = 200;
/** A live stream may have thousands of participants; the limit keeps the response readable. */
const MAX_PARTICIPANTS_SHOWN = 1_000;

export type CallDeps = TimelineSources & {
  /** The CPU load of a media server; null when it is unknown. */
  cpuOf: (serverName: string) => number | null;
  /** Participant-minutes in a room, of sessions that began in a span of time. */
  minutesIn: (roomId: string, from: number, until: number) => number;
  /** Whether a room takes encrypted tracks only. */
  isEncrypted: (roomId: string) => boolean;
  /** The ids of a call's recordings, in order. */
  recordingsOf: (roomId: string, callId: string) => string[];
};

export type Calls = ReturnType<typeof createCalls>;

/** Calls, with their participants and verdicts. */
export function createCalls(runtime: Runtime, { cpuOf, minutesIn, isEncrypted, recordingsOf, ...sources }: CallDeps) {
  const { config, db, now, write } = runtime;
  const store = callStore(db);
  const log = createCallLog(runtime, { store, cpuOf });

  function present(row: CallRow) {
    const { publicId, roomId, roomName, startedAt, endedAt, participantCount, peakParticipants, quality, cause } = row;
    const status: CallStatus = endedAt === null ? "LIVE" : "ENDED";
    return {
      id: publicId,
      roomId,
      roomName,
      status,
      startedAt: iso(startedAt),
      endedAt: iso(endedAt),
      durationMs: (endedAt ?? now()) - startedAt,
      participantCount,
      peakParticipants,
      quality,
      cause,
      encrypted: isEncrypted(roomId),
      recordingIds: recordingsOf(roomId, publicId),
      minutes: minutesIn(roomId, startedAt, endedAt ?? Number.MAX_SAFE_INTEGER),
    };
  }

  function presentParticipant(row: CallParticipantRow) {
    const { sessionId, identity, name, connectionId, joinedAt, leftAt, leaveReason, quality, verdict } = row;
    return {
      identity,
      name,
      connectionId,
      joinedAt: iso(joinedAt),
      leftAt: iso(leftAt),
      leaveReason,
      quality,
      verdict: verdict === null ? log.liveVerdict(sessionId) : (JSON.parse(verdict) as CallVerdict),
    };
  }

  function find(tenant: Tenant, publicId: string): CallRow {
    const row = store.find(tenant, publicId);
    if (!row) throw new ApiError("SVC_CALL_NOT_FOUND");
    return row;
  }

  return {
    log,
    isOpenIn: store.isOpenIn,
    list: store.list,
    present,
    detail(tenant: Tenant, publicId: string) {
      const row = find(tenant, publicId);
      const participants = store.participants(row.id, MAX_PARTICIPANTS_SHOWN).map(presentParticipant);
      return { ...present(row), participants };
    },

    /** The names that participants had in the room's calls between two times, by identity. */
    namesIn: (tenant: Tenant, roomId: string, from: number, until: number): Map<string, string> =>
      new Map(store.names(tenant, roomId, from, until).map(({ identity, name }) => [identity, name])),

    /** Returns entries in order. Texts of messages are only returned to callers who may read them. */
    timeline(tenant: Tenant, publicId: string, { texts }: { texts: boolean }) {
      const row = find(tenant, publicId);
      return callTimeline(row, store.participants(row.id, MAX_PARTICIPANTS_SHOWN), sources, { now: now(), texts });
    },

    /** Removes calls past the retention of connections, a few at a time, so that no other write waits for long. */
    async prune(): Promise<void> {
      if (config.CONNECTION_RETENTION_DAYS === 0) return;
      const before = now() - config.CONNECTION_RETENTION_DAYS * DAY_MS;
      while (await write((unit) => store.prune(unit, before, PRUNED_PER_UNIT)));
    },
  };
}
