import type { Config } from "../../kernel/config/index.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { RtcSession } from "./rtc-session.ts";

export type PublisherLimit = ReturnType<typeof createPublisherLimit>;

/**
 * Limits how many participants of a room publish at the same time. Each worker of the room ranks all voices, and each camera has to
 * be relayed even for a few viewers.
 */
export function createPublisherLimit({ MAX_PUBLISHERS_PER_ROOM: limit }: Pick<Config, "MAX_PUBLISHERS_PER_ROOM">) {
  function isFull({ room, publishes }: RtcSession): boolean {
    if (publishes || room.sessions.size <= limit) return false;
    let publishers = 0;
    for (const session of room.sessions.values()) if (session.publishes) publishers += 1;
    return publishers >= limit;
  }

  return {
    isFull,
    /** Called with each offer. An offer without tracks lets another participant publish. */
    take(session: RtcSession, publishes: boolean): void {
      if (publishes && isFull(session)) {
        throw new ApiError("SVC_ROOM_PUBLISHERS_FULL", `At most ${limit} participants publish in the room at once.`);
      }
      session.publishes = publishes;
    },
  };
}
