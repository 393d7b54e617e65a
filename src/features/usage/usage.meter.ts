import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { RtcConnectionEvent } from "../sessions/events.ts";
import { minutesByDay } from "./minutes.ts";
import type { UsageStore } from "./usage.store.ts";

/** A sign of life is written at most this often; it bounds what a crash can cost in accuracy. */
const TOUCH_EVERY_MS = 15_000;

/** Counts media sessions as they happen: from the first packet to the end, reconnects included. */
export function createUsageMeter({ bus, ids, log, now, write }: Runtime, store: UsageStore) {
  const open = new Map<string, { row: string; touchedAt: number }>();

  function close(unit: Unit, sessionId: string, endedAt: number): void {
    const row = store.find(sessionId);
    if (!row || row.endedAt !== null) return;
    store.end(unit, row.id, endedAt);
    let first = true;
    for (const [date, minutes] of minutesByDay(row.startedAt, endedAt)) {
      store.addDay(unit, row.projectId, date, minutes, first ? 1 : 0);
      first = false;
    }
  }

  function heard(fact: RtcConnectionEvent): void {
    const { sessionId, at } = fact;
    const session = open.get(sessionId);
    if (fact.type === "connected" && !session) {
      // One that outlived a restart was closed by it, and is counted from here on by another row.
      const id = store.find(sessionId) ? ids.uuid() : sessionId;
      open.set(sessionId, { row: id, touchedAt: at });
      const { projectId, environment, roomId, roomName, participantIdentity } = fact;
      const row = { id, projectId, environment, roomId, roomName, participantIdentity };
      keep(write((unit) => store.insert(unit, { ...row, startedAt: at, lastSeenAt: at, endedAt: null })));
    } else if (fact.type === "left" && session) {
      open.delete(sessionId);
      keep(write((unit) => close(unit, session.row, at)));
    } else if (fact.type === "stats" && session && at - session.touchedAt >= TOUCH_EVERY_MS) {
      session.touchedAt = at;
      keep(write((unit) => store.touch(unit, session.row, at)));
    }
  }

  function keep(written: Promise<void>): void {
    written.catch((err) => log.error({ err }, "usage was not recorded"));
  }

  bus.on("rtcConnection", ["connected", "left", "stats"], heard);
  bus.inTransaction("recordingEnded", (unit, { projectId, startedAt, endedAt }) => {
    for (const [date, minutes] of minutesByDay(startedAt, endedAt)) store.addRecorded(unit, projectId, date, minutes);
  });

  return {
    /** After a crash: what was open ended at its last sign of life. */
    recover: () =>
      write((unit) => {
        for (const { id, lastSeenAt } of store.allOpen()) close(unit, id, Math.min(lastSeenAt, now()));
      }),
  };
}
