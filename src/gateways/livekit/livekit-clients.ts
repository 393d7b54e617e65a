import type { ModerationService } from "../../features/rooms/moderation.service.ts";
import { budgetHolder } from "../../kernel/net/addresses.ts";
import { createRateLimiter } from "../../kernel/http/rate-limit.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { createAgents } from "./agents/agents.ts";
import { createDispatchService } from "./agents/dispatch-service.ts";
import { createDoor, type DoorDeps } from "./door/door.ts";
import { Refused } from "./refused.ts";
import { createRoomService } from "./server-api/room-service.ts";
import { serverInfo } from "./server-info.ts";
import { createTokenWriter } from "./tokens/issued-token.ts";
import { createVisitors } from "./visitor/visitors.ts";

type LivekitDeps = Omit<DoorDeps, "visitors" | "agents" | "writeToken"> & { moderation: ModerationService };

export type LivekitClients = ReturnType<typeof createLivekitClients>;

/** What LiveKit's client SDKs find here: the door to the rooms, the server API, and work for agents. */
export function createLivekitClients(runtime: Runtime, deps: LivekitDeps) {
  const { config, now } = runtime;
  const limiter = createRateLimiter(now, config.RATE_LIMIT_WINDOW_SECONDS);
  const visitors = createVisitors(runtime);
  const { foreign } = visitors;
  const writeToken = createTokenWriter(deps.apiKeys, now);
  const agents = createAgents(runtime, {
    ...{ ...deps, foreign, writeToken, serverInfo: serverInfo("") },
    find: (roomId) => deps.rooms.byId(roomId),
  });
  return {
    isOpen: config.LIVEKIT_CLIENTS === "on",
    door: createDoor(runtime, { ...deps, visitors, agents, writeToken }),
    agents,
    services: {
      "livekit.RoomService": createRoomService(runtime, { ...deps, foreign, agents }),
      "livekit.AgentDispatchService": createDispatchService(runtime, { ...deps, agents }),
    },

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
