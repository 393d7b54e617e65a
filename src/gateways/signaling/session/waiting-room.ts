import type { Runtime } from "../../../kernel/runtime.ts";
import type { Membership } from "./membership.ts";
import type { Registry } from "./registry.ts";
import type { LiveRoom, RtcSession } from "./rtc-session.ts";

/**
 * Viewers of a live stream that has not started: they are in the room, but its tracks do not exist for them. When it
 * starts, they hear of the tracks as if they were published at that moment.
 */
export function releaseWaiting(
  { bus, log }: Runtime,
  { registry, membership }: { registry: Registry; membership: Membership },
): void {
  async function release(session: RtcSession): Promise<void> {
    const { room, permissions } = session;
    try {
      await room.placed?.node.setPermissions({ roomId: room.id, participantId: session.id, permissions });
    } catch (err) {
      log.warn({ err, roomId: room.id }, "media node did not let a viewer in");
    }
    session.waiting = false;
    for (const { identity, tracks } of room.sessions.values()) {
      if (identity === session.identity) continue;
      for (const track of tracks.values()) membership.push(session, { type: "track.published", identity, track });
    }
  }

  const releaseAll = (room: LiveRoom) => {
    for (const session of room.sessions.values()) if (session.waiting) void release(session);
  };
  bus.on("streamChanged", ({ roomId, status }) => {
    const room = status === "LIVE" ? registry.room(roomId) : undefined;
    if (room) releaseAll(room);
  });
}
