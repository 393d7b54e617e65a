import type { RoomService } from "../../features/rooms/room.service.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { every } from "../../kernel/time/timers.ts";
import type { SessionRegistry } from "./rtc-session.ts";

const SWEEP_EVERY_MS = 1_000;

/** Closes rooms that have been empty for longer than their timeout. */
export function createEmptyRooms(
  runtime: Runtime,
  { rooms, registry }: { rooms: RoomService; registry: SessionRegistry },
) {
  const { bus, now, write } = runtime;
  /** When the last participant left, for each room that has had participants since the start. */
  const leftAt = new Map<string, number>();
  let startedAt = now();

  bus.on("rtcConnection", ["left"], ({ roomId, reason }) => {
    const isEmpty = (registry.room(roomId)?.sessions.size ?? 0) === 0;
    // Participants who are expected to reconnect after a restart have not departed.
    if (isEmpty && reason !== "restart" && rooms.byId(roomId)?.emptyTimeout != null) leftAt.set(roomId, now());
  });
  bus.on("roomClosed", ({ roomId }) => void leftAt.delete(roomId));

  async function sweep(): Promise<void> {
    for (const row of rooms.ending(now())) {
      const { id: roomId, projectId, environment, createdAt, emptyTimeout, departureTimeout } = row;
      const live = registry.room(roomId);
      if (live && (live.sessions.size > 0 || live.pending > 0)) {
        leftAt.delete(roomId);
        continue;
      }
      const departed = leftAt.get(roomId);
      const since = departed ?? Math.max(createdAt, startedAt);
      const seconds = departed === undefined ? (emptyTimeout ?? 0) : departureTimeout;
      if (now() - since < seconds * 1000) continue;
      await write((unit) => void rooms.close(unit, { projectId, environment, roomId }, "empty"));
    }
  }

  return {
    sweep,
    /** Returns a function that stops it. */
    start(): () => void {
      startedAt = now();
      return every(runtime, SWEEP_EVERY_MS, sweep);
    },
  };
}
