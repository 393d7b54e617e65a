import { type AnyElysia, Elysia } from "elysia";
import * as cluster from "./cluster/cluster.schema.ts";
import type { Cluster } from "./cluster/cluster.ts";
import { forwardedClientAddress } from "./cluster/proxy/forwarded-requests.ts";
import { clusterOperatorRoutes, clusterRoutes } from "./cluster/routes.ts";
import * as account from "./features/accounts/account.schema.ts";
import { accountRoutes } from "./features/accounts/routes.ts";
import * as audit from "./features/audit/audit.schema.ts";
import { auditRoutes } from "./features/audit/routes.ts";
import * as attachment from "./features/chat/attachments/attachment.schema.ts";
import * as ring from "./features/chat/calls/ring.schema.ts";
import * as chat from "./features/chat/chat.schema.ts";
import * as moderation from "./features/chat/moderation/moderation.schema.ts";
import { chatRoutes } from "./features/chat/routes.ts";
import * as liveStream from "./features/live-streams/live-stream.schema.ts";
import { liveStreamsRoutes } from "./features/live-streams/routes.ts";
import { playgroundRoutes } from "./features/playground/routes.ts";
import * as person from "./features/privacy/privacy.schema.ts";
import { privacyRoutes } from "./features/privacy/routes.ts";
import { projectsRoutes } from "./features/projects/project.routes.ts";
import * as project from "./features/projects/project.schema.ts";
import * as push from "./features/push/push.schema.ts";
import { pushRoutes } from "./features/push/routes.ts";
import * as recording from "./features/recordings/recording.schema.ts";
import { recordingsRoutes } from "./features/recordings/routes.ts";
import { roomsRoutes } from "./features/rooms/room.routes.ts";
import * as room from "./features/rooms/room.schema.ts";
import * as rtcToken from "./features/rooms/rtc-token.schema.ts";
import * as call from "./features/sessions/calls/call.schema.ts";
import { callRoutes, connectionRoutes } from "./features/sessions/routes.ts";
import * as session from "./features/sessions/session.schema.ts";
import { usageRoutes } from "./features/usage/routes.ts";
import * as usage from "./features/usage/usage.schema.ts";
import { webhooksRoutes } from "./features/webhooks/webhook.routes.ts";
import * as webhook from "./features/webhooks/webhook.schema.ts";
import { livekitRoutes } from "./gateways/livekit/routes.ts";
import { signalingRoutes } from "./gateways/signaling/routes.ts";
import { assetFolder } from "./kernel/assets.ts";
import { sameSecret } from "./kernel/crypto/secrets.ts";
import { createBodyReader, deferBodyParsing, UNREAD_BODIES } from "./kernel/http/body.ts";
import { createEnvelope, createMethodsOf } from "./kernel/http/envelope.ts";
import { createGuards } from "./kernel/http/guards.ts";
import * as health from "./kernel/http/health.schema.ts";
import { healthRoutes, type Readiness } from "./kernel/http/health.ts";
import type { Http } from "./kernel/http/http.ts";
import { isOwnHost, sameOrigin } from "./kernel/http/origins.ts";
import { createRateLimit, createRateLimiter } from "./kernel/http/rate-limit.ts";
import { referenceRoutes } from "./kernel/http/reference/reference.ts";
import { shapeResponses } from "./kernel/http/reference/response-shape.ts";
import { createClientIp, createPublicUrl, createSocketAddress } from "./kernel/http/request-info.ts";
import { arrivalRoutes } from "./kernel/http/serving/arrival.ts";
import { admitRequests, createRequestAdmission, requestsInProgress } from "./kernel/http/serving/request-admission.ts";
import type { TlsClients } from "./kernel/http/serving/tls-clients.ts";
import { webRoutes } from "./kernel/http/serving/web-assets.ts";
import type { Runtime } from "./kernel/runtime.ts";
import { SOCKET_OPTIONS } from "./kernel/socket/sockets.ts";
import { VERSION } from "./kernel/version.ts";
import { fleetRoutes } from "./nodes/fleet.routes.ts";
import * as server from "./nodes/registration/server.schema.ts";
import * as chatEvents from "./protocol/chat-events.ts";
import * as chatRecords from "./protocol/chat-records.ts";
import * as flight from "./protocol/media/flight.ts";
import * as recordingRecords from "./protocol/recordings.ts";
import * as roomRecords from "./protocol/room-records.ts";
import type { Services } from "./services.ts";

/** The schema modules of the API: each export becomes a component of the reference under its name. */
const API_SCHEMAS: Record<string, unknown> = {
  ...account,
  ...audit,
  ...call,
  ...attachment,
  ...ring,
  ...moderation,
  ...chat,
  ...cluster,
  ...server,
  ...health,
  ...liveStream,
  ...session,
  ...flight,
  ...person,
  ...project,
  ...chatEvents,
  ...chatRecords,
  ...roomRecords,
  ...push,
  ...recording,
  ...recordingRecords,
  ...room,
  ...rtcToken,
  ...usage,
  ...webhook,
};

type AppDeps = {
  runtime: Runtime;
  services: Services;
  readiness: Readiness;
  sfuSecret: string;
  /** Readable by processes with access to the data directory, such as `stoa doctor`. */
  doctorSecret: string;
  /** The clients behind the TLS thread; null without one. */
  clients?: TlsClients | null;
  /** The client of a request that an older process has handed over; null without one. */
  handedOverClient?: ((request: Request) => string | null) | null;
  /** The number of requests in progress that arrived over the loopback transport; null without one. */
  loopbackRequests?: (() => number) | null;
  /** The cluster that shares a commit log; null for a single server. */
  cluster?: Cluster | null;
};

/** The table of contents: every feature's routes, in the order of the spec. */
export function createApp(deps: AppDeps) {
  const { runtime, services, readiness, sfuSecret, doctorSecret, clients = null, cluster = null } = deps;
  const { loopbackRequests = null, handedOverClient = null } = deps;
  const { config, ids, log, metrics, now, timers } = runtime;
  const { sessions, projects, members, apiKeys } = services;

  const listening = new Elysia({
    adapter: UNREAD_BODIES,
    // The default normaliser turns a string into an object of its characters before validation.
    normalize: "typebox",
    serve: {
      idleTimeout: 120,
      // Each route has its own limit with an error envelope; this limit would close the connection instead.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      // Bun's own error page shows paths and source.
      development: false,
    },
    websocket: SOCKET_OPTIONS,
  });

  const forwardedClient = cluster
    ? (request: Request) => forwardedClientAddress(request, (token) => cluster.authentication.isLinked(token))
    : handedOverClient;
  const socketAddress = createSocketAddress({ listening, clients, forwardedClient });
  const metricsAccess = { token: config.METRICS_TOKEN, publicUrl: config.PUBLIC_URL };
  const clientIp = createClientIp(config.TRUSTED_PROXIES, socketAddress);
  const isTls = (request: Request) => clients?.clientOf(request, listening.server) !== undefined;
  const envelope = createEnvelope({
    now,
    log,
    metrics,
    tracing: runtime.tracing,
    ids,
    clientIp,
    publicUrl: createPublicUrl(config.PUBLIC_URL, config.TRUSTED_PROXIES, socketAddress, isTls),
    isOwnOrigin: (origin, request) => sameOrigin(origin, request, config.PUBLIC_URL),
    isOwnHost: (request) => isOwnHost(request, config.PUBLIC_URL),
    methodsOf: createMethodsOf(() => app.routes),
  });
  const { infoOf } = envelope;
  const guards = createGuards({
    infoOf,
    node: (secret) => ({ kind: "node", key: sameSecret(secret, sfuSecret) ? null : services.nodeKeys.verify(secret) }),
    apiKey: apiKeys.verify,
    session: sessions.verify,
    chatToken: services.chat.tokens.verify,
    chatRequest: services.chat.budgets.request,
    rtcToken: services.rtcTokens.verify,
    rtcTokenAnyAge: services.rtcTokens.read,
    originPolicy: projects.originPolicy,
    roleIn: members.roleIn,
    isArchived: projects.isArchived,
  });
  const limiter = createRateLimiter(now, config.RATE_LIMIT_WINDOW_SECONDS);
  const http: Http = {
    guards,
    infoOf,
    rateLimit: createRateLimit(limiter, config),
    idempotency: services.idempotency,
    sockets: runtime.sockets,
  };

  const app = listening
    .use(envelope.plugin)
    .use(healthRoutes({ readiness, metrics, metricsAccess, infoOf, cluster: cluster?.state ?? null }))
    .use(clusterRoutes(cluster, runtime, services, async (request): Promise<Response> => app.handle(request)))
    .use(
      arrivalRoutes({
        secret: doctorSecret,
        trustedProxies: config.TRUSTED_PROXIES,
        socketAddress,
        infoOf,
      }),
    )
    .use(accountRoutes(http, runtime, services))
    .use(projectsRoutes(http, runtime, services))
    .use(auditRoutes(http, services.audit))
    .use(roomsRoutes(http, runtime, services))
    .use(fleetRoutes(http, runtime, services))
    .use(clusterOperatorRoutes(http, runtime, cluster))
    .use(signalingRoutes(http, services))
    .use(livekitRoutes(http, runtime, services))
    .use(chatRoutes(http, runtime, services))
    .use(pushRoutes(http, runtime, services))
    .use(liveStreamsRoutes(http, runtime, services))
    .use(callRoutes(http, { calls: services.rtcSessions.calls, rooms: services.rooms }))
    .use(recordingsRoutes(http, runtime, services))
    .use(privacyRoutes(http, runtime, services.privacy))
    .use(connectionRoutes(http, runtime, services.rtcSessions, services.rooms))
    .use(usageRoutes(http, services.usage))
    .use(webhooksRoutes(http, runtime, services))
    .use(playgroundRoutes(http, runtime, services))
    .use(
      referenceRoutes({
        folder: assetFolder("dist/web"),
        version: VERSION,
        app: (): AnyElysia => app,
        schemas: API_SCHEMAS,
      }),
    )
    .use(
      webRoutes({
        folder: assetFolder("dist/web"),
        version: VERSION,
        bucketOrigins: services.attachments.storages.bucketOrigins,
      }),
    );
  deferBodyParsing(app, createBodyReader(timers), now);
  const admission = createRequestAdmission({
    requestsInProgress: requestsInProgress(listening, loopbackRequests),
    addressOf: clientIp,
  });
  admitRequests(app, admission, socketAddress);
  shapeResponses(app);
  return app;
}

export type App = ReturnType<typeof createApp>;
