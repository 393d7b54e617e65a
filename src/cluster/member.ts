import { mkdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { HandedOverInputs } from "../gateways/livekit/ingress/ingresses.ts";
import { assetFolder } from "../kernel/assets.ts";
import type { Config } from "../kernel/config/index.ts";
import { createKeyring } from "../kernel/crypto/secrets.ts";
import { type DataLock, lockData } from "../kernel/data-directory/data-lock.ts";
import { ReplicaDiverged } from "../kernel/db/changesets.ts";
import { type Leadership, LogRefused, LogTruncated } from "../kernel/db/commit-log.ts";
import { isDamage } from "../kernel/db/health.ts";
import { LogSeal } from "../kernel/db/log-seal.ts";
import { MigrationRefused, readMigrations } from "../kernel/db/migrate.ts";
import { postgresLog } from "../kernel/db/postgres-log.ts";
import { messageOf } from "../kernel/error-message.ts";
import { createLog } from "../kernel/log.ts";
import { createMetrics } from "../kernel/metrics.ts";
import { hostInUrl } from "../kernel/net/addresses.ts";
import { databasePath, type Runtime, type RuntimeOptions } from "../kernel/runtime.ts";
import { systemNow } from "../kernel/time/clock.ts";
import { systemTimers } from "../kernel/time/timers.ts";
import { VERSION } from "../kernel/version.ts";
import type { TlsPlan } from "../network/tls/tls.ts";
import type { TlsMultiplexer } from "../network/tls/tls-multiplexer.ts";
import { EmbeddedMedia } from "../nodes/embedded-media.ts";
import type { OpenedMedia } from "../nodes/local-media.ts";
import { Abstention, askPeersToAbstain } from "./abstention.ts";
import { type Cluster, ClusterRefused, type ClusterState, memberUrl } from "./cluster.ts";
import { createFence } from "./fence.ts";
import { followUntilLeading } from "./follow.ts";
import { createJoin } from "./joining.ts";
import { measureCluster, startReporting, startTrimming } from "./maintenance.ts";
import { MemberAuthentication } from "./member-authentication.ts";
import { clusterOverview } from "./overview.ts";
import { countRefusals, type Refusals } from "./refusals.ts";
import { type Replica, requiresSeals } from "./replica.ts";
import { serveSnapshot } from "./snapshot.ts";
import { serveStandby } from "./standby-server.ts";
import { takeOver } from "./take-over.ts";
export type RunningMember = {
  url: string;
  state(): ClusterState;
  /** Resolves when this member leads for the first time or has begun to follow. */
  settled: Promise<ClusterState["role"]>;
  stop(reason: string, graceMs?: number): Promise<void>;
};

type MemberOptions = RuntimeOptions & {
  /** The duration of a leadership without confirmation; tests shorten it. */
  leaseMs?: number;
  operate?: Cluster["operate"];
};

export type LeaderOptions = RuntimeOptions & {
  /** The member holds the lock across several starts of a server and releases it itself. */
  lock?: DataLock;
  cluster?: Cluster;
  takeMediaThreads?: () => EmbeddedMedia | null;
  /** Whether this process can hand over to a newer one by `stoa upgrade`. */
  upgrades?: boolean;
  /** Set for the newer process of an upgrade: its media workers already listen, at the ports of the older process. */
  succeeds?: {
    media: OpenedMedia;
    plan: TlsPlan | null;
    tlsThread: TlsMultiplexer | null;
    httpPort: number;
    tlsPort: number | null;
    /** What the older process handed over; absent if it has an earlier version. */
    inputs?: HandedOverInputs;
  };
  /** Awaited when everything is ready except the port, which the standby's server occupies until then. */
  beforeListening?: () => Promise<void>;
};

type Leader = { runtime: Pick<Runtime, "logged">; stop(reason: string, graceMs?: number): Promise<void> };
type Start = (config: Config, options: LeaderOptions) => Promise<Leader>;

const LEASE_MS = 5_000;
const RETRY_MS = 1_000;
/** Another server waits to lead, so that requests in progress get a short time to finish. */
const HAND_OVER_MS = 1_000;

/** One server of a cluster: it follows the log, leads when no other server does, and follows again. */
export async function startMember(config: Config, options: MemberOptions, start: Start): Promise<RunningMember> {
  const { leaseMs = LEASE_MS } = options;
  const { COMMIT_LOG_URL: logUrl = "", STOA_SECRET: secret = "" } = config;
  const now = options.now ?? systemNow;
  const timers = options.timers ?? systemTimers;
  const log = createLog({ level: config.LOG_LEVEL, format: config.LOG_FORMAT, write: options.logWrite });
  const keyring = createKeyring(secret);
  const authentication = new MemberAuthentication(keyring, () => url);
  const migrations = readMigrations(assetFolder("migrations"));
  const path = databasePath(config);
  mkdirSync(config.DATA_DIR, { recursive: true, mode: 0o700 });
  const lock = lockData(config.DATA_DIR);
  const refused: Refusals = { leader: 0, member: 0, record: 0 };
  const seal = new LogSeal({
    key: keyring.key("commit-log"),
    isRequired: requiresSeals(path),
    onRefused: countRefusals(refused, log),
  });
  const commitLog = postgresLog(logUrl, { log, timers, leaseMs, seal });
  const stopping = new AbortController();
  const settled = Promise.withResolvers<ClusterState["role"]>();
  const abstention = new Abstention();
  const hasBucket = config.STORAGE_S3_BUCKET !== undefined;

  let problem: string | null = "commit log not reached yet";
  let state: ClusterState = { role: "standby", leader: null, position: 0, lag: 0 };
  let replica: Replica | null = null;
  let server: Leader | null = null;
  let isOpen = false;
  let isSettled = false;
  /** Loading the workers' code takes longer than the rest of a take-over, so a standby loads it in advance. */
  let mediaThreads: EmbeddedMedia | null = null;
  const metrics = createMetrics();
  measureCluster(metrics, { state: () => currentState(), refused });

  const currentState = (): ClusterState => {
    const position = server?.runtime.logged?.position ?? replica?.position ?? state.position;
    return state.role === "leader" ? { role: "leader", leader: url, position, lag: 0 } : { ...state, position };
  };

  const reasons = (): Record<string, string> => {
    if (stopping.signal.aborted) return { stopping: "the server is stopping" };
    if (state.role === "leader") return { starting: "this server takes over as leader" };
    if (problem !== null) return isSettled ? { standby: problem } : { starting: problem };
    return { standby: state.leader === null ? "no server leads" : `${state.leader} leads` };
  };

  const listenAsStandby = (port: number) =>
    serveStandby({
      hostname: config.HOST,
      port,
      state: currentState,
      reasons,
      authentication,
      abstain: () => abstention.promise(),
      snapshot: () => serveSnapshot(path, stopping.signal),
      metrics: () => metrics.registry.metrics(),
      metricsAccess: { token: config.METRICS_TOKEN, publicUrl: config.PUBLIC_URL },
    });
  let standby: ReturnType<typeof listenAsStandby> | null;
  try {
    standby = listenAsStandby(config.PORT);
  } catch (error) {
    lock.release();
    await commitLog.close();
    throw error;
  }
  const port = standby.port ?? config.PORT;
  const url = memberUrl(config, port);
  const noteStandby = () =>
    lock.note({ role: "standby", pid: process.pid, version: VERSION, url: `http://${hostInUrl(config.HOST)}:${port}` });
  noteStandby();
  log.info({ url, version: VERSION }, "cluster: standby listening");
  const stopReporting = startReporting({ commitLog, url, state: currentState, log, timers });

  const { join, fetchSnapshot, leadEmptyLog, openReplica } = createJoin({
    commitLog,
    secretFingerprint: keyring.fingerprint,
    authentication,
    migrations,
    url,
    databasePath: path,
    now,
    log,
    dataDir: config.DATA_DIR,
    onFetching: (source) => {
      problem = `fetching a snapshot from ${source}`;
    },
  });

  async function lead(): Promise<Leadership | null> {
    const info = await commitLog.info(keyring.fingerprint);
    if (info.head === 0) return leadEmptyLog(info.id);
    replica = openReplica(info.head);
    problem = null;
    mediaThreads ??= EmbeddedMedia.spawn(config.MEDIA_WORKERS, log);
    void untilKnownToLeader().then(() => settled.resolve("standby"));
    try {
      return await followUntilLeading({
        log: commitLog,
        replica,
        url,
        abstention,
        logger: log,
        signal: stopping.signal,
      });
    } finally {
      state = { ...state, position: replica.position };
      replica.close();
      replica = null;
    }
  }

  /** A standby can take over once the leader knows it. Without a leader the wait ends after five seconds. */
  async function untilKnownToLeader(): Promise<void> {
    for (let attempt = 0; attempt < 50; attempt++) {
      if (stopping.signal.aborted || (await commitLog.isKnownToLeader(url).catch(() => true))) return;
      await sleep(100);
    }
  }

  async function serve(leadership: Leadership): Promise<void> {
    const lost = Promise.withResolvers<string>();
    const askPeers = () => askPeersToAbstain(leadership.peers(), authentication);
    const fence = createFence({ leadership, askPeers, leaseMs, onOtherLeader: lost.resolve });
    try {
      await takeOver({
        path,
        log: commitLog,
        term: leadership.term,
        migrations,
        now,
      });
      state = { ...state, role: "leader", leader: url, lag: 0 };
      server = await start(
        { ...config, PORT: port },
        {
          ...options,
          lock,
          leading: { path, log: commitLog, onLost: lost.resolve, fence },
          cluster: {
            state: currentState,
            authentication,
            refused,
            fence,
            isLogUnreachable: () => leadership.unsureSince !== null,
            operate: options.operate ?? (() => Promise.reject(new Error("this server accepts no operator commands"))),
            snapshot: () => serveSnapshot(path, stopping.signal),
            term: leadership.term,
            overview: () =>
              clusterOverview(commitLog, { ...currentState(), term: leadership.term, hasBucket, now: now() }),
          },
          takeMediaThreads: () => {
            const threads = mediaThreads;
            mediaThreads = null;
            return threads;
          },
          beforeListening: async () => {
            await leadership.undisputed;
            await standby?.stop(true);
            standby = null;
          },
        },
      );
      isOpen = true;
      log.info({ term: leadership.term, url, version: VERSION }, "cluster: became leader");
      settled.resolve("leader");
      const stopTrimming = startTrimming({ commitLog, state: currentState, log, timers });
      const reason = await Promise.race([leadership.lost, lost.promise, aborted(stopping.signal)]);
      stopTrimming();
      if (!stopping.signal.aborted) log.warn({ reason, term: leadership.term }, "cluster: lost leadership");
      await server.stop(reason, HAND_OVER_MS);
    } finally {
      fence.stop();
      server = null;
      isOpen = false;
      state = { ...state, role: "standby", leader: null };
      await leadership.resign();
      if (!stopping.signal.aborted) {
        standby ??= listenAsStandby(port);
        noteStandby();
      }
    }
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const { leader } = await join();
        state = { ...state, leader };
        // The database may be a snapshot of another member.
        if (requiresSeals(path)) seal.require();
        const leadership = await lead();
        if (leadership !== null) await serve(leadership);
      } catch (error) {
        // A running server continues and reports why it waits, because its data may become usable again.
        if (isFatal(error) && !isSettled) return settled.reject(error);
        problem = messageOf(error);
        log.error({ err: error }, "cluster: cannot follow or lead, retrying");
        if (error instanceof ReplicaDiverged || error instanceof LogTruncated || isDamage(error)) {
          await fetchSnapshot(state.leader).catch((err) =>
            log.error({ err }, "cluster: replacing the diverged replica by a snapshot failed"),
          );
        }
        await sleep(RETRY_MS);
      }
    }
  }

  const watchLeader = setInterval(async () => {
    if (isOpen) return;
    const info = await commitLog.info(keyring.fingerprint).catch(() => null);
    if (info === null || isOpen) return;
    state = {
      ...state,
      leader: info.leader === url ? null : info.leader,
      lag: Math.max(0, info.head - currentState().position),
    };
  }, RETRY_MS);
  watchLeader.unref();

  void settled.promise.then(
    () => {
      isSettled = true;
    },
    () => {},
  );
  const running = run();
  async function stop(_reason: string): Promise<void> {
    stopping.abort();
    clearInterval(watchLeader);
    stopReporting();
    await running;
    await mediaThreads?.close();
    await standby?.stop(true);
    await commitLog.leave(url).catch(() => {});
    await commitLog.close();
    lock.release();
  }
  settled.promise.catch(() => void stop("refused"));
  return { url, state: currentState, settled: settled.promise, stop };
}

/** A retry cannot help: the operator has to decide. */
function isFatal(error: unknown): boolean {
  return error instanceof ClusterRefused || error instanceof LogRefused || error instanceof MigrationRefused;
}

function aborted(signal: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve("stopped");
    signal.addEventListener("abort", () => resolve("stopped"));
  });
}
