import type { Egresses } from "../../features/egress/egress.ts";
import type { ModerationService } from "../../features/rooms/moderation.service.ts";
import { createRateLimiter } from "../../kernel/http/rate-limit.ts";
import { rateLimitKey } from "../../kernel/net/addresses.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import type { Whip } from "../whip/whip.ts";
import { createAgents } from "./agents/agents.ts";
import { type ConnectionDeps, createLivekitConnections } from "./connection.ts";
import { createForwards } from "./forwarding/forwards.ts";
import { createIngresses, type HandedOverInputs } from "./ingress/ingresses.ts";
import { createUrlSources } from "./ingress/url-sources.ts";
import { createLivekitSessions } from "./livekit-session.ts";
import { createMatrixRtc } from "./matrix/matrix-rtc.ts";
import { serverInfo } from "./records.ts";
import { HttpRefusal } from "./refusals.ts";
import { createDispatchService } from "./server-api/dispatch-service.ts";
import { createEgressService } from "./server-api/egress-service.ts";
import { createIngressService } from "./server-api/ingress-service.ts";
import { createNamedRooms } from "./server-api/named-rooms.ts";
import { createRoomService } from "./server-api/room-service.ts";
import { createTokenSigner, type LivekitToken } from "./tokens.ts";
import { publishWebhooks, type WebhookDeps } from "./webhooks.ts";

type LivekitDeps = Omit<ConnectionDeps, "sessions" | "agents" | "signToken"> & {
  moderation: ModerationService;
  egresses: Egresses;
  whip: Whip;
  nodes: Pick<MediaNodes, "find" | "onEvent">;
} & Pick<WebhookDeps, "hasLivekitEndpoint" | "hasOpenCall">;

/** One participant gets a tenth of the connections of its API key. */
const OWN_SHARE = 10;

export type LivekitGateway = ReturnType<typeof createLivekitGateway>;

export function createLivekitGateway(runtime: Runtime, deps: LivekitDeps) {
  const { config, now } = runtime;
  const limiter = createRateLimiter(now, config.RATE_LIMIT_WINDOW_SECONDS);
  const sessions = createLivekitSessions(runtime);
  const { details } = sessions;
  const signToken = createTokenSigner(deps.apiKeys, now);
  const agents = createAgents(runtime, {
    ...deps,
    details,
    signToken,
    serverInfo: serverInfo(""),
    find: (roomId) => deps.rooms.byId(roomId),
  });
  const connections = createLivekitConnections(runtime, { ...deps, sessions, agents, signToken });
  const { registry } = deps.signaling;
  const ingresses = createIngresses(runtime, { ...deps, registry, callerOf: connections.callerOf });
  const urlSources = createUrlSources(runtime, { ingresses, registry });
  const forwards = createForwards(runtime, {
    ...deps,
    callerOf: connections.callerOf,
    isEncrypted: deps.rooms.isEncrypted,
  });
  publishWebhooks(runtime, { ...deps, details, ingresses });
  const namedRooms = createNamedRooms(runtime, deps.rooms);
  function takeAttempt(kind: string, ipAddress: string): void {
    const verdict = limiter.take(kind, rateLimitKey(ipAddress), config.SIGNALING_MAX_CONNECTIONS_PER_WINDOW);
    if (!verdict.allowed) throw new HttpRefusal(429, "too many attempts; try again later", verdict.resetSeconds);
  }

  const ownAttempts = Math.max(
    config.SIGNALING_MAX_CONNECTIONS_PER_WINDOW,
    Math.floor(config.LIVEKIT_MAX_CONNECTIONS_PER_KEY / OWN_SHARE),
  );
  /** A participant that reconnects without end must not use up what all participants of its API key share. */
  function takeOwnAttempt(kind: string, { key, grant, identity }: LivekitToken): void {
    // Workers of agents have one identity or none.
    if (grant.agent === true) return;
    const participant = JSON.stringify([key.publicId, grant.room, identity]);
    const verdict = limiter.take(`livekit-${kind}-own`, participant, ownAttempts);
    if (verdict.allowed) return;
    throw new HttpRefusal(429, "this participant connects too often; try again later", verdict.resetSeconds);
  }

  return {
    isOpen: config.LIVEKIT_CLIENTS === "on",
    connections,
    agents,
    ingresses,
    urlSources,
    forwards,
    /** Hands the inputs over to a newer process of this server. */
    handOver: (): HandedOverInputs => ({ encoders: ingresses.handOver(), urls: urlSources.handOver() }),

    /** Called after `ingresses.recover`, when the sessions that earlier processes keep have been found. */
    adopt({ encoders, urls }: HandedOverInputs): void {
      ingresses.adopt(encoders);
      for (const { row, url } of ingresses.interrupted(urls)) {
        ingresses.beginAgain(row.id);
        urlSources.start(row, url);
      }
    },

    matrixRtc: createMatrixRtc(runtime, { ...deps, signToken }),
    services: {
      "livekit.RoomService": createRoomService(runtime, {
        ...deps,
        namedRooms,
        details,
        agents,
        forwards,
        sessionOf: sessions.of,
      }),
      "livekit.Egress": createEgressService(runtime, { ...deps, namedRooms, registry }),
      "livekit.Ingress": createIngressService({ ingresses, urlSources }),
      "livekit.AgentDispatchService": createDispatchService(runtime, { namedRooms, agents }),
    },

    /**
     * Counts an attempt to connect. With a valid token it counts against the API key, because an office may share one IP address;
     * otherwise against the IP address.
     */
    async requireAttempt(kind: "connect" | "validate", ipAddress: string, signed: string | null): Promise<void> {
      const token = signed === null ? null : await connections.readToken(signed).catch(() => null);
      if (token && !deps.signaling.isDraining()) {
        takeOwnAttempt(kind, token);
        const verdict = limiter.take(`livekit-${kind}-key`, token.key.publicId, config.LIVEKIT_MAX_CONNECTIONS_PER_KEY);
        if (verdict.allowed) return;
        throw new HttpRefusal(429, "too many connections with this API key; try again later", verdict.resetSeconds);
      }
      if (kind === "connect") {
        const refusal = deps.signaling.turnedAway(ipAddress);
        if (refusal) throw refusal;
        return;
      }
      takeAttempt("livekit-validate", ipAddress);
    },

    requireIngressAttempt: (ipAddress: string): void => takeAttempt("livekit-ingress", ipAddress),
    requireMatrixAttempt: (ipAddress: string): void => takeAttempt("matrix", ipAddress),
  };
}
