import { iso } from "../../kernel/clock.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Attachments } from "../chat/attachments/attachments.ts";
import type { ChatService } from "../chat/chat.ts";
import type { SearchService } from "../chat/search.service.ts";
import type { Recordings } from "../recordings/recordings.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { Recorder } from "../sessions/recorder.ts";
import { addressRetention } from "./addresses.ts";
import { createEraser } from "./erase.ts";
import { erasureService } from "./erasure.service.ts";
import { exportService } from "./export.service.ts";
import { createHoldings, KINDS, type Kind } from "./holdings.ts";
import type { Person } from "./person.ts";
import { personStore } from "./store/person.store.ts";
import type { ErasureRow, ExportRow } from "./store/person.table.ts";
import { createTraces } from "./store/traces.ts";

type PeopleDeps = {
  chat: ChatService;
  search: SearchService;
  attachments: Attachments;
  recorder: Recorder;
  liveRooms: LiveRooms;
  recordings: Pick<Recordings, "places" | "settled">;
};

export type People = ReturnType<typeof createPeople>;

/** Whose data it is: what is held about somebody, told, handed out and erased. */
export function createPeople(runtime: Runtime, deps: PeopleDeps) {
  const traces = createTraces(runtime.db);
  const store = personStore(runtime.db);
  const holdings = createHoldings(traces, deps.chat);
  const { storages, quota } = deps.attachments;
  const { places } = deps.recordings;
  const exports = exportService(runtime, { store, holdings, traces, storages, places, quota });
  const eraser = createEraser(runtime, { ...deps, traces, holdings, places });
  const erasures = erasureService(runtime, { ...deps, store, eraser, exports });

  function showExport(row: ExportRow, publicUrl: string) {
    const { id, status, requestedAt, finishedAt, bytes, sha256 } = row;
    const url = exports.urlOf(row, publicUrl);
    const shown = { id, status, requestedAt: iso(requestedAt), finishedAt: iso(finishedAt), bytes, sha256 };
    return { ...shown, ...(url === null ? {} : { url }) };
  }

  return {
    exports,
    erasures,
    forgetAddresses: addressRetention(runtime),

    async overview(person: Person, publicUrl: string) {
      const counts = {} as Record<Kind, number>;
      for (const kind of KINDS) counts[kind] = await holdings.count(kind, person);
      const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
      const erasure = erasures.latest(person);
      const made = exports.of(person).map((row) => showExport(row, publicUrl));
      return { userId: person.userId, counts, total, erasure: erasure && showErasure(erasure), exports: made };
    },

    showErasure,
    showExport,

    /** Goes on with what the last run left. */
    start(): void {
      exports.start();
      erasures.start();
    },
    /** What is left half-way is finished after the next start. */
    async stop(): Promise<void> {
      await Promise.all([exports.stop(), erasures.stop()]);
    },
  };
}

function showErasure({ id, requestedAt, finishedAt }: ErasureRow) {
  const status = finishedAt === null ? ("RUNNING" as const) : ("DONE" as const);
  return { id, status, requestedAt: iso(requestedAt), finishedAt: iso(finishedAt) };
}
