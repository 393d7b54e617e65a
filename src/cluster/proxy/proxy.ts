import type { Config } from "../../kernel/config/index.ts";
import { createKeyring } from "../../kernel/crypto/secrets.ts";
import { LogSeal } from "../../kernel/db/log-seal.ts";
import { postgresLog } from "../../kernel/db/postgres-log.ts";
import { mayReadMetrics } from "../../kernel/http/metrics-access.ts";
import { createLog } from "../../kernel/log.ts";
import { createMetrics } from "../../kernel/metrics.ts";
import { UNKNOWN_ADDRESS } from "../../kernel/net/addresses.ts";
import { guardDescriptors } from "../../kernel/net/descriptors.ts";
import { SOCKET_OPTIONS } from "../../kernel/socket/sockets.ts";
import { every, systemTimers } from "../../kernel/time/timers.ts";
import { VERSION } from "../../kernel/version.ts";
import { memberUrl } from "../cluster.ts";
import { requireSameSecret } from "../joining.ts";
import { MemberAuthentication } from "../member-authentication.ts";
import { countRefusals, measureRefusals, type Refusals } from "../refusals.ts";
import { standbyResponse } from "../standby-server.ts";
import { forward, LEADER_WAIT_MS } from "./forwarded-requests.ts";
import { LeaderLink } from "./leader-link.ts";
import { type ProxySocket, ProxySockets } from "./proxy-sockets.ts";

export type RunningProxy = { url: string; stop(reason: string, graceMs?: number): Promise<void> };

const REPORT_EVERY_MS = 1_000;

/**
 * The edge role: a server without data that forwards requests and WebSockets to the leader and fans out the leader's
 * broadcasts. Its clients keep their WebSockets when another server takes over.
 */
export async function startProxy(config: Config): Promise<RunningProxy> {
  const { COMMIT_LOG_URL: logUrl = "", STOA_SECRET: secret = "" } = config;
  const log = createLog({ level: config.LOG_LEVEL, format: config.LOG_FORMAT });
  const keyring = createKeyring(secret);
  const authentication = new MemberAuthentication(keyring);
  const refused: Refusals = { leader: 0, member: 0, record: 0 };
  const seal = new LogSeal({
    key: keyring.key("commit-log"),
    isRequired: true,
    onRefused: countRefusals(refused, log),
  });
  const commitLog = postgresLog(logUrl, { log, timers: systemTimers, seal });
  const info = await commitLog.info(keyring.fingerprint);
  try {
    requireSameSecret(info, keyring.fingerprint);
  } catch (error) {
    await commitLog.close();
    throw error;
  }
  const metrics = createMetrics();
  measureRefusals(metrics, refused);
  metrics.gaugeOf("stoa_edge_sockets", "Sockets of clients at this edge", () => sockets.count);
  metrics.gaugeOf("stoa_edge_connected", "1 while this edge is connected to the leader", () =>
    link.leader === null ? 0 : 1,
  );

  const sockets: ProxySockets = new ProxySockets({
    token: () => link.token,
    send: (frame) => link.send(frame),
    server: () => server,
  });
  const link: LeaderLink = new LeaderLink({
    authentication,
    log,
    leader: async () => (await commitLog.known())?.leader ?? null,
    onOpen: () => {
      wasConnected = true;
      sockets.announceAll();
    },
    onFrame: (frame) => sockets.receive(frame),
    onLost: () => sockets.leaderLost(),
  });

  let wasConnected = false;
  let isStopping = false;
  const readiness = (): Response => {
    const { leader } = link;
    const pressure = descriptors.problem();
    const reasons = {
      ...(isStopping && { stopping: "the server is stopping" }),
      ...(leader === null && { [wasConnected ? "standby" : "starting"]: "not connected to a leader" }),
      ...(pressure !== null && { descriptors: pressure }),
    };
    const isReady = Object.keys(reasons).length === 0;
    const status = isReady ? "ready" : "unavailable";
    return Response.json({ status, role: "edge", leader, reasons }, { status: isReady ? 200 : 503 });
  };

  const metricsAccess = { token: config.METRICS_TOKEN, publicUrl: config.PUBLIC_URL };
  const server = Bun.serve<ProxySocket>({
    hostname: config.HOST,
    port: config.PORT,
    reusePort: false,
    development: false,
    idleTimeout: 120,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    async fetch(request, server) {
      const { pathname } = new URL(request.url);
      const address = server.requestIP(request)?.address ?? UNKNOWN_ADDRESS;
      if (pathname === "/healthz") return Response.json({ status: "ok", version: VERSION });
      if (pathname === "/readyz") return readiness();
      if (pathname === "/metrics") {
        const may = mayReadMetrics(request, address, metricsAccess);
        return may ? new Response(await metrics.registry.metrics()) : standbyResponse(pathname);
      }
      if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
        return forward(request, address, { link });
      }
      const until = performance.now() + LEADER_WAIT_MS;
      if ((await link.waitForLeader(LEADER_WAIT_MS)) === null) return standbyResponse(pathname);
      const answer = await sockets.upgrade(request, address, until - performance.now());
      return answer === null ? standbyResponse(pathname) : answer;
    },
    websocket: {
      ...SOCKET_OPTIONS,
      open: (ws) => sockets.opened(ws),
      message: (ws, message) => sockets.message(ws, message),
      pong: (ws) => sockets.pong(ws),
      close: (ws, code) => sockets.closed(ws, code),
    },
  });
  const descriptors = guardDescriptors({ log, metrics, httpPort: () => server.port ?? null });
  const url = memberUrl(config, server.port ?? config.PORT);
  const report = () => commitLog.report({ url, role: "edge", position: info.head, version: VERSION }).catch(() => {});
  await report();
  log.info({ url, version: VERSION }, "cluster: edge listening");
  const stopReporting = every({ timers: systemTimers, log }, REPORT_EVERY_MS, report);

  return {
    url,
    async stop() {
      isStopping = true;
      descriptors.stop();
      stopReporting();
      sockets.close();
      await link.stop();
      await server.stop(true);
      await commitLog.leave(url).catch(() => {});
      await commitLog.close();
    },
  };
}
