import type { Environment } from "../protocol/enums.ts";
import { ApiError } from "../protocol/errors.ts";
import type { CallStatus } from "../protocol/room-records.ts";
import type { Runtime } from "../runtime.ts";
import { showCall, showParticipant } from "./call.show.ts";
import { type CallPosition, callStore } from "./call.store.ts";
import type { CallRow } from "./call.table.ts";
import { createCallLog } from "./call-log.ts";

const PRUNED_AT_ONCE = 200;
const DAY_MS = 86_400_000;
/** A public stage may have had thousands; the answer stays one that can be read. */
const MAX_PARTICIPANTS_SHOWN = 1_000;

type Tenant = { projectId: string; environment: Environment };

export type Calls = ReturnType<typeof createCalls>;

/** When people were in a room together, and how it was. */
export function createCalls(runtime: Runtime, { cpuOf }: { cpuOf: (serverName: string) => number | null }) {
  const { config, db, now, write } = runtime;
  const store = callStore(db.$client);
  const log = createCallLog(runtime, { store, cpuOf });

  return {
    log,
    list: (filter: Tenant & { roomId?: string; status?: CallStatus }, after: CallPosition, limit: number): CallRow[] =>
      store.list(filter, after, limit),
    show: (row: CallRow) => showCall(row, now()),
    detail(tenant: Tenant, publicId: string) {
      const row = store.find(tenant, publicId);
      if (!row) throw new ApiError("SVC_CALL_NOT_FOUND");
      return {
        ...showCall(row, now()),
        participants: store.participants(row.id, MAX_PARTICIPANTS_SHOWN).map((participant) => {
          const shown = showParticipant(participant);
          return { ...shown, verdict: shown.verdict ?? log.liveVerdict(participant.sessionId) };
        }),
      };
    },

    /** Calls go with the records of the connections they were made of, a few at a time, so that no write waits for it. */
    async prune(): Promise<void> {
      if (config.CONNECTION_RETENTION_DAYS === 0) return;
      const before = now() - config.CONNECTION_RETENTION_DAYS * DAY_MS;
      while (await write((unit) => store.prune(unit, before, PRUNED_AT_ONCE)));
    },
  };
}
