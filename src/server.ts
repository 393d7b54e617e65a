import { randomBytes } from "node:crypto";
import { createApp } from "./app.ts";
import { nodeSecret } from "./cluster/cluster.ts";
import { measureCluster } from "./cluster/maintenance.ts";
import type { LeaderOptions } from "./cluster/member.ts";
import { STOPPED } from "./features/egress/egress.ts";
import type { HandedOverRecordings } from "./features/recordings/active-recordings.ts";
import { endRelays, turnSecret } from "./features/rooms/ice-servers.ts";
import type { HandedOverInputs } from "./gateways/livekit/ingress/ingresses.ts";
import type { Config } from "./kernel/config/index.ts";
import { type DataLock, lockData } from "./kernel/data-directory/data-lock.ts";
import { setInstallationValue } from "./kernel/data-directory/installation.ts";
import { acceptForeignPages } from "./kernel/db/checksums.ts";
import { measureDisk, watchDisk } from "./kernel/db/disk.ts";
import { watchDatabase } from "./kernel/db/health.ts";
import { leaveLog, logPosition } from "./kernel/db/log-position.ts";
import { watchForeignCommits } from "./kernel/db/open.ts";
import { createReadiness } from "./kernel/http/health.ts";
import { type HeldRequests, type Listener, listen } from "./kernel/http/serving/listener.ts";
import { createTlsClients } from "./kernel/http/serving/tls-clients.ts";
import { createLifecycle } from "./kernel/lifecycle.ts";
import { hostInUrl } from "./kernel/net/addresses.ts";
import { guardDescriptors } from "./kernel/net/descriptors.ts";
import {
  createForwardedClient,
  createLoopbackTransport,
  type LoopbackTransport,
} from "./kernel/net/loopback-transport.ts";
import type { Runtime } from "./kernel/runtime.ts";
import { closeRuntime, createRuntime, generatedSecret } from "./kernel/runtime.ts";
import { measureEventLoop } from "./kernel/scheduling/event-loop.ts";
import { VERSION } from "./kernel/version.ts";
import { certificateProblem, measureTls, planTls, type RunningTls, startTls } from "./network/tls/tls.ts";
import type { EmbeddedMedia } from "./nodes/embedded-media.ts";
import { openMedia, startLocalMedia } from "./nodes/local-media.ts";
import { createMediaNodes } from "./nodes/media-nodes.ts";
import { ownControlPlane } from "./nodes/node-reporter.ts";
import type { ParticipantRecords } from "./nodes/node-server.ts";
import {
  type KeptEvents,
  keepRecordingEvents,
  olderName,
  olderProcesses,
  type RemainingNode,
  serveRemaining,
} from "./nodes/older-process.ts";
import { relayedClients } from "./nodes/relayed-events.ts";
import { connectRemoteNodes } from "./nodes/remote-nodes.ts";
import { databaseCheck } from "./ops/backup/check-schedule.ts";
import { latestBackup } from "./ops/backup/schedule.ts";
import { createJobs, startJobs } from "./ops/jobs.ts";
import { createServices, type Services } from "./services.ts";
import type { SharedPort } from "./sfu/transport/port-sharing/port-sharing.ts";

export type RunningServer = {
  url: string;
  runtime: Runtime;
  services: Services;
  /** UDP (and TCP) ports of the media workers, and their IP addresses for clients. */
  media: { ports: number[]; addresses: string[]; node: EmbeddedMedia };
  /** The transport through which an older process forwards requests; null where the system has none. */
  loopback: LoopbackTransport | null;
  httpPort: number;
  tlsPort: number | null;
  /** Lets a newer process listen on the ports of HTTP and TLS as well, or ends that; returns whether it may. */
  share(isShared: boolean): boolean;
  /** Completes the files of live compositions, which cannot continue in a newer process, and refuses new ones. */
  endCompositions(): Promise<void>;
  /** Leaves everything except the current calls to a newer process. `stop` ends those as well. */
  handOver(ports: SharedPort[]): Promise<HandedOver>;
  /** Drains for at most `graceMs`, then closes the remaining connections. */
  stop(reason: string, graceMs?: number): Promise<void>;
};

export type HandedOver = {
  requests: HeldRequests;
  node: RemainingNode;
  /** The inputs of LiveKit ingresses (encoders and URLs) that the newer process continues itself. */
  inputs: HandedOverInputs;
  /** Called when the newer process has answered all waiting requests; running downloads may continue. */
  stopListening(): void;
};

/** How long requests that began before a handover may take. All later ones wait meanwhile. */
const BEGUN_REQUESTS_MS = 2_000;
const DOWNLOADS_MS = 10 * 60_000;
/** How long each part of the server may take to stop during a handover, while requests wait. */
const HANDOVER_MS = 1_000;
const OLDER_CHECK_MS = 50;

/** Starts the components in order; `stop` stops them in reverse order. */
export async function start(config: Config, options: LeaderOptions = {}): Promise<RunningServer> {
  const { cluster = null, succeeds = null } = options;
  const lock = options.inMemory || options.lock ? null : lockData(config.DATA_DIR);
  const { runtime, plan } = openOrRelease(() => {
    const runtime = createRuntime(config, { ...options, traced: true });
    return { runtime, plan: succeeds ? succeeds.plan : planTls(runtime) };
  }, lock);
  const { log, now } = runtime;
  // Without COMMIT_LOG_URL the data is detached from the commit log, so that the log never accepts it again.
  if (cluster === null && logPosition(runtime.db.$client) !== null) {
    await runtime.write((unit) => leaveLog(unit, runtime.db));
    log.warn("server: data detached from the commit log, COMMIT_LOG_URL is not set");
  }
  const lifecycle = createLifecycle(log, now);
  lifecycle.started("data lock", () => lock?.release());
  lifecycle.started("database", () => closeRuntime(runtime));

  // With a commit log no other process may write, and this server uses different connections for writes and reads.
  if (cluster === null) {
    const unwatch = watchForeignCommits(runtime.db.$client, runtime, () => {
      runtime.bus.emit("changedElsewhere", {});
      if (acceptForeignPages(runtime.db.$client)) {
        log.warn({}, "database: another program writes to it, pages are no longer verified");
      }
    });
    lifecycle.started("foreign commits", unwatch);
  } else measureCluster(runtime.metrics, cluster);

  let http: Listener | null = null;
  const readiness = createReadiness();
  let isStarted = false;
  readiness.add("starting", () => (isStarted ? null : "the server is starting"));
  readiness.add("stopping", () => (lifecycle.draining ? "the server is stopping" : null));
  const isMember = cluster !== null;
  const database = watchDatabase({ ...runtime, latestBackup: () => latestBackup(config), isMember });
  lifecycle.started("database health", database.stop);
  readiness.add("database_corrupt", database.problem);
  lifecycle.started("event loop", measureEventLoop(runtime.metrics));
  if (!options.inMemory) measureDisk(runtime.metrics, config.DATA_DIR);
  if (!options.inMemory)
    readiness.add(
      "disk_full",
      // A commit log that does not respond must not make the server unready: it still serves reads.
      watchDisk(config.DATA_DIR, now, cluster === null ? () => commitProbe(runtime) : async () => {}),
    );

  const descriptors = guardDescriptors({ ...runtime, httpPort: () => http?.server.port ?? null });
  lifecycle.started("descriptors", descriptors.stop, () => {});
  readiness.add("descriptors", descriptors.problem);

  // The media workers load while everything else is created.
  const nodes = createMediaNodes(runtime.timers);
  const older = options.inMemory ? [] : olderProcesses(config.DATA_DIR);
  const threads = options.takeMediaThreads?.();
  const opening = succeeds
    ? Promise.resolve(succeeds.media)
    : openMedia(runtime, { relayed: plan?.tables.udp.memory, threads, succeeds: older[0]?.ports ?? [] });
  const mediaStarting = startLocalMedia(runtime, nodes, opening);
  mediaStarting.catch(() => {});

  const services = createServices(runtime, nodes);
  lifecycle.started("mail", () => services.mailer.drain());
  lifecycle.started("search index", () => services.search.stop());
  lifecycle.started("attachment files", () => services.attachments.removals.stop());
  await services.accounts.createConfiguredOperator();
  await services.attachments.transfers.recover();
  await services.rtcSessions.recorder.recover();
  await services.usage.meter.recover();
  services.rtcSessions.calls.log.recover();
  await services.recordings.recover(older.length > 0);
  await services.egresses.recover();
  const { inputs = { encoders: [], urls: [] } } = succeeds ?? {};
  await services.livekitClients.ingresses.recover(inputs);
  services.livekitClients.agents.restore();
  lifecycle.started("empty rooms", services.emptyRooms.start());
  const drainMs = config.UPGRADE_DRAIN_MINUTES * 60_000;
  const expiring = older.map(({ name, handedOverAt }) => ({ name, drainedAt: handedOverAt + drainMs }));
  lifecycle.started("draining nodes", services.drainingNodes.start(expiring));
  lifecycle.started("connection records", () => services.rtcSessions.recorder.flush());
  lifecycle.started("activity", () => services.rtcSessions.activity.flush());
  services.privacy.start();
  lifecycle.started("privacy", () => services.privacy.stop());
  services.webhookDispatcher.start();
  lifecycle.started("webhooks", (_reason, deadline) => services.webhookDispatcher.stop(deadline));
  services.push.dispatcher.start();
  lifecycle.started("push", (_reason, deadline) => services.push.dispatcher.stop(deadline));
  const jobs = createJobs(runtime, services, database);
  if (!options.inMemory) jobs.push(databaseCheck(runtime, database));
  lifecycle.started("jobs", startJobs(jobs, runtime));
  lifecycle.started("chat clock", await services.chat.sockets.start());
  const sfuSecret = config.SFU_REGISTRATION_SECRET ?? mediaNodeSecret(runtime, options);
  const doctorSecret = randomBytes(24).toString("base64url");
  const loopback = plan || succeeds ? createLoopbackTransport() : null;
  const app = createApp({
    runtime,
    services,
    readiness,
    sfuSecret,
    doctorSecret,
    clients: plan && createTlsClients(plan.tables.tcp, loopback),
    handedOverClient: plan || !loopback ? null : createForwardedClient(loopback),
    loopbackRequests: loopback && (() => http?.loopback?.pendingRequests ?? 0),
    cluster,
  });
  const media = await mediaStarting;
  lifecycle.started("media", media.close, () => nodes.remove(config.SFU_NODE_NAME));
  const secretFor = (name: string) => services.nodeKeys.secretFor(name, sfuSecret);
  const relayedClient = plan && relayedClients(plan.tables.nodes);
  const remoteNodes = connectRemoteNodes(runtime, {
    fleet: services.fleet,
    nodes,
    secretFor,
    relayedClient,
    term: cluster?.term,
    older,
  });
  lifecycle.started("older processes", async (reason, deadline) => {
    if (reason !== HANDOVER && older.length > 0) await endOlder(config.DATA_DIR, () => now() < deadline);
  });
  lifecycle.started("remote media nodes", remoteNodes.stop);
  // Clients that resume a call from before this start must find their call.
  await remoteNodes.settled;
  await services.rtcSessions.calls.log.settle();
  if (older.length > 0) await services.recordings.settle(older.flatMap(({ recordings = [] }) => recordings));
  services.livekitClients.adopt(inputs);
  lifecycle.started("calls", services.rtcSessions.calls.log.start());

  let tls: RunningTls | null = null;
  // The TLS thread stops after the server behind it, so that requests in progress can finish.
  lifecycle.started(
    "tls",
    () => tls?.close(),
    () => {},
  );
  await options.beforeListening?.();
  const { hostname, port: configuredPort } = plan?.plain ?? { hostname: config.HOST, port: config.PORT };
  const port = succeeds?.httpPort ?? configuredPort;
  const { carry } = runtime.sockets;
  const listener = listen(app, {
    hostname,
    port,
    now,
    loopback: loopback && { transport: loopback, carry },
    // The older process still forwards the last requests that it accepted, for some seconds.
    succeeds: succeeds !== null || older.length > 0,
  });
  http = listener;
  lifecycle.started(
    "http",
    (_reason, deadline) => listener.stop(deadline),
    () => {},
  );
  const upstreamPort = listener.server.port ?? port;
  if (plan) {
    const secret = turnSecret(runtime.keyring);
    const tlsPort = succeeds?.tlsPort ?? (older.length > 0 ? plan.tls.port : null);
    tls = await startTls({
      ...runtime,
      plan,
      upstreamPort,
      loopback,
      media,
      turnSecret: secret,
      thread: succeeds?.tlsThread,
      succeeds: tlsPort === null ? null : { port: tlsPort },
    });
    endRelays(runtime, tls.multiplexer);
    measureTls(runtime.metrics, tls.multiplexer, plan.source);
    readiness.add("certificate", () => certificateProblem(plan.source));
    remoteNodes.onEndpoints(tls.relayToNodes);
    lifecycle.started("tls listener", tls.drain, () => {});
  }

  // With a domain the plain HTTP server keeps its address; otherwise the TLS listener uses that address.
  const isBehindTls = tls !== null && plan?.plain.hostname === hostname && plan.tls.hostname === config.HOST;
  const url = isBehindTls
    ? addressOf("https", config.HOST, tls?.multiplexer.port)
    : addressOf("http", hostname, upstreamPort);
  const controlPlane = ownControlPlane(runtime.write, services.fleet);
  const agent = media.report({ controlPlane, internalUrl: url });
  await agent.reported;
  readiness.add("media", () => (cluster?.isLogUnreachable() ? null : agent.problem()));
  lifecycle.started("media agent", agent.stop);
  let records: ParticipantRecords = new Map();
  lifecycle.started("rtc sockets", async (reason) => {
    if (reason !== HANDOVER) services.signaling.drain();
    else records = await services.signaling.handOver(config.SFU_NODE_NAME, olderName(config.SFU_NODE_NAME));
  });
  lifecycle.started("chat sockets", (reason, deadline) =>
    reason === HANDOVER ? services.chat.sockets.handOver() : services.chat.sockets.drain(deadline),
  );

  // Recordings stop first, because files can be completed only while their rooms are open.
  let recordings: HandedOverRecordings = new Map();
  let kept: KeptEvents | null = null;
  lifecycle.started("recordings", async (reason) => {
    if (reason !== HANDOVER) return services.recordings.stopAll();
    kept = keepRecordingEvents(media.node);
    recordings = await services.recordings.handOver(config.SFU_NODE_NAME);
  });
  lifecycle.started("egresses", () => services.egresses.stopAll(STOPPED));
  let leftInputs: HandedOverInputs = { encoders: [], urls: [] };
  lifecycle.started("ingress", (reason) => {
    if (reason === HANDOVER) leftInputs = services.livekitClients.handOver();
    else services.livekitClients.urlSources.stopAll();
  });
  lifecycle.started("forwards", () => services.livekitClients.forwards.stopAll());

  isStarted = true;
  const { ports: mediaPorts, announce, probe } = media;
  (lock ?? options.lock)?.note({
    role: "server",
    pid: process.pid,
    version: VERSION,
    url,
    mediaPorts,
    announce,
    probe,
    doctorSecret,
    upgrades: options.upgrades ?? false,
    isMember,
  });
  log.info({ url, version: VERSION, media: { ports: media.ports, addresses: media.announce } }, "server: listening");
  return {
    url,
    runtime,
    services,
    media: { ports: media.ports, addresses: media.announce, node: media.node },
    loopback,
    httpPort: upstreamPort,
    tlsPort: tls?.multiplexer.port ?? null,
    share: (isShared) => listener.share(isShared) && (tls?.share(isShared) ?? true),
    endCompositions: () => services.egresses.stopAll("The server was upgraded while it was composing. Start it again."),
    async handOver(ports) {
      const requests = listener.hold();
      services.recordings.hls.handOver();
      await requests.othersFinished(now() + BEGUN_REQUESTS_MS);
      await lifecycle.handOver(HANDOVER, now() + HANDOVER_MS);
      const node = serveRemaining({
        dataDir: config.DATA_DIR,
        media: media.node,
        ports,
        recordings,
        records,
        now: now(),
        log,
        kept: kept ?? keepRecordingEvents(media.node),
        ownName: config.SFU_NODE_NAME,
        name: olderName(config.SFU_NODE_NAME),
      });
      lifecycle.started("remaining node", node.stop);
      const stopListening = () => {
        void listener.stop(now() + DOWNLOADS_MS);
        void tls?.stopListening();
      };
      return { requests, node, inputs: leftInputs, stopListening };
    },
    stop: (reason, graceMs = 30_000) => lifecycle.stop(reason, now() + graceMs),
  };
}

const HANDOVER = "handover";

/** The secret of media nodes, which is the same for all servers of a cluster. */
function mediaNodeSecret({ config, keyring }: Runtime, options: LeaderOptions): string {
  return options.cluster ? nodeSecret(keyring) : generatedSecret(config, options, "sfu-secret");
}

/** A failed start must release the data directory for the next one. */
function openOrRelease<Result>(open: () => Result, lock: DataLock | null): Result {
  try {
    return open();
  } catch (error) {
    lock?.release();
    throw error;
  }
}

function addressOf(scheme: "http" | "https", host: string, port: number | undefined): string {
  return `${scheme}://${hostInUrl(host)}:${port}`;
}

/**
 * When this process stops, it also ends the older processes' calls, whose clients it has told to join again. systemd kills what is
 * left.
 */
async function endOlder(dataDir: string, hasTime: () => boolean): Promise<void> {
  for (const { pid } of olderProcesses(dataDir)) process.kill(pid, "SIGTERM");
  while (olderProcesses(dataDir).length > 0 && hasTime()) await Bun.sleep(OLDER_CHECK_MS);
}

/** Commits a meaningless value, to test the disk. */
function commitProbe({ db, now, write }: Runtime): Promise<void> {
  return write((unit) => setInstallationValue(unit, db, "last-readiness", String(now())));
}
