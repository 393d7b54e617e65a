import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { RtcConnectionEvent } from "../sessions/events.ts";
import { minutesByDay } from "./minutes.ts";
import type { UsageStore } from "./usage.store.ts";

/** `last_seen_at` is written at most this often, so a crash loses at most this much time of a running session. */
const TOUCH_INTERVAL_MS = 15_000;

/** Meters media sessions from the first connected media to their end, including reconnects. */
export function createUsageMeter({ bus, ids, log, now, write }: Runtime, store: UsageStore) {
  const open = new Map<string, { rowId: string; touchedAt: number }>();

  function close(unit: Unit, rowId: string, endedAt: number): void {
    const row = store.find(rowId);
    if (!row || row.endedAt !== null) return;
    store.end(unit, row.id, endedAt);
    let sessions = 1;
    for (const [date, minutes] of minutesByDay(row.startedAt, endedAt)) {
      store.addDay(unit, row, date, minutes, sessions);
      sessions = 0;
    }
  }

  function save(change: (unit: Unit) => void): void {
    write(change).catch((err) => log.error({ err }, "usage: session not saved"));
  }

  bus.on("rtcConnection", ["connected", "left", "stats"], (event: RtcConnectionEvent) => {
    const { sessionId, at } = event;
    const session = open.get(sessionId);
    if (event.type === "connected" && !session) {
      // A restart ended the row of a session that continues afterwards, so the rest of the session gets a new row.
      const id = store.find(sessionId) ? ids.uuid() : sessionId;
      open.set(sessionId, { rowId: id, touchedAt: at });
      const { projectId, environment, roomId, roomName, participantIdentity } = event;
      const row = { id, projectId, environment, roomId, roomName, participantIdentity };
      save((unit) => void store.insert(unit, { ...row, startedAt: at, lastSeenAt: at, endedAt: null }));
    } else if (event.type === "left" && session) {
      open.delete(sessionId);
      save((unit) => close(unit, session.rowId, at));
    } else if (event.type === "stats" && session && at - session.touchedAt >= TOUCH_INTERVAL_MS) {
      session.touchedAt = at;
      save((unit) => store.touch(unit, session.rowId, at));
    }
  });
  bus.inTransaction("recordingEnded", (unit, { startedAt, endedAt, ...tenant }) => {
    for (const [date, minutes] of minutesByDay(startedAt, endedAt)) store.addRecorded(unit, tenant, date, minutes);
  });

  return {
    /** Closes sessions that a crash left open, at the time they were last seen. */
    recover: () =>
      write((unit) => {
        for (const { id, lastSeenAt } of store.allOpen()) close(unit, id, Math.min(lastSeenAt, now()));
      }),
  };
}
