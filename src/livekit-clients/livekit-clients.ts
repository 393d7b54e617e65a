import { budgetHolder } from "../kernel/addresses.ts";
import { createRateLimiter } from "../kernel/http/rate-limit.ts";
import type { ModerationService } from "../rooms/moderation.service.ts";
import type { Runtime } from "../runtime.ts";
import { createDoor, type DoorDeps } from "./door.ts";
import { Refused } from "./refused.ts";
import { createRoomService } from "./room-service.ts";

export type LivekitClients = ReturnType<typeof createLivekitClients>;

/** What LiveKit's client SDKs find here: the door to the rooms. Null when the operator has closed it. */
export function createLivekitClients(runtime: Runtime, deps: DoorDeps & { moderation: ModerationService }) {
  const { config, now } = runtime;
  const limiter = createRateLimiter(now, config.RATE_LIMIT_WINDOW_SECONDS);
  const door = createDoor(runtime, deps);
  return {
    isOpen: config.LIVEKIT_CLIENTS === "on",
    door,
    services: { "livekit.RoomService": createRoomService(runtime, { ...deps, foreign: door.foreign }) },

    mayTry(what: "connect" | "validate", ipAddress: string): void {
      if (what === "connect") {
        const away = deps.translation.turnedAway(ipAddress);
        if (away) throw away;
        return;
      }
      const limit = config.SIGNALING_MAX_CONNECTIONS_PER_WINDOW;
      const verdict = limiter.take("livekit-validate", budgetHolder(ipAddress), limit);
      if (!verdict.allowed) throw new Refused(429, "too many attempts; try again later", verdict.resetSeconds);
    },
  };
}
