import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { ApiError } from "../../protocol/errors.ts";
import { showCall, showParticipant } from "./call.show.ts";
import { type CallFilter, type CallPosition, callStore } from "./call.store.ts";
import type { CallRow } from "./call.table.ts";
import { createCallLog } from "./call-log.ts";
import { type TimelineSources, tellCall } from "./call-timeline.ts";

const PRUNED_AT_ONCE = 200;
const DAY_MS = 86_400_000;
/** A public stage may have had thousands; the answer stays one that can be read. */
const MAX_PARTICIPANTS_SHOWN = 1_000;

type CallDeps = TimelineSources & {
  /** How busy the processors of a media server are; null when nobody knows. */
  cpuOf: (serverName: string) => number | null;
  /** What was used in a room by sessions that began in a span of time. */
  minutesIn: (roomId: string, from: number, until: number) => number;
};

export type Calls = ReturnType<typeof createCalls>;

/** When people were in a room together, and how it was. */
export function createCalls(runtime: Runtime, { cpuOf, minutesIn, ...sources }: CallDeps) {
  const { config, db, now, write } = runtime;
  const store = callStore(db.$client);
  const log = createCallLog(runtime, { store, cpuOf });

  const show = (row: CallRow) =>
    showCall(row, now(), minutesIn(row.roomId, row.startedAt, row.endedAt ?? Number.MAX_SAFE_INTEGER));

  function find(tenant: Tenant, publicId: string): CallRow {
    const row = store.find(tenant, publicId);
    if (!row) throw new ApiError("SVC_CALL_NOT_FOUND");
    return row;
  }

  return {
    log,
    list: (filter: CallFilter, after: CallPosition, limit: number): CallRow[] => store.list(filter, after, limit),
    show,
    detail(tenant: Tenant, publicId: string) {
      const row = find(tenant, publicId);
      return {
        ...show(row),
        participants: store.participants(row.id, MAX_PARTICIPANTS_SHOWN).map((participant) => {
          const shown = showParticipant(participant);
          return { ...shown, verdict: shown.verdict ?? log.liveVerdict(participant.sessionId) };
        }),
      };
    },

    /** In order; the words of messages only for who may read them. */
    timeline(tenant: Tenant, publicId: string, { texts }: { texts: boolean }) {
      const row = find(tenant, publicId);
      return tellCall(row, store.participants(row.id, MAX_PARTICIPANTS_SHOWN), sources, { now: now(), texts });
    },

    /** Calls go with the records of the connections they were made of, a few at a time, so that no write waits for it. */
    async prune(): Promise<void> {
      if (config.CONNECTION_RETENTION_DAYS === 0) return;
      const before = now() - config.CONNECTION_RETENTION_DAYS * DAY_MS;
      while (await write((unit) => store.prune(unit, before, PRUNED_AT_ONCE)));
    },
  };
}
