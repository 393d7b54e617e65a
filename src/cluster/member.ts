import { mkdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { assetFolder } from "../kernel/assets.ts";
import { systemNow } from "../kernel/clock.ts";
import type { Config } from "../kernel/config/index.ts";
import { type DataLock, lockData } from "../kernel/data-directory/data-lock.ts";
import { ReplicaDiffers } from "../kernel/db/changesets.ts";
import { Forgotten, type Leadership, LogRefused } from "../kernel/db/commit-log.ts";
import { MigrationRefused, readMigrations } from "../kernel/db/migrate.ts";
import { postgresLog } from "../kernel/db/postgres-log.ts";
import { createLog } from "../kernel/log.ts";
import { createMetrics } from "../kernel/metrics.ts";
import { databasePath, type Runtime, type RuntimeOptions } from "../kernel/runtime.ts";
import { createKeyring } from "../kernel/secrets.ts";
import { systemTimers } from "../kernel/timers.ts";
import { EmbeddedMedia } from "../nodes/embedded.ts";
import { Abstention } from "./abstention.ts";
import { type Cluster, ClusterRefused, type ClusterState, clusterCredential } from "./cluster.ts";
import { createFence } from "./fence.ts";
import { followUntilLeading } from "./following.ts";
import { createJoining } from "./joining.ts";
import { memberUrl } from "./member-url.ts";
import { measureCluster } from "./metrics.ts";
import { abstentionsOf } from "./peers.ts";
import type { Replica } from "./replica.ts";
import { overviewOf } from "./show.ts";
import { snapshotResponse } from "./snapshot.ts";
import { serveStandby } from "./standby-server.ts";
import { takeOver } from "./take-over.ts";
import { reportState, trimLog } from "./upkeep.ts";

export type RunningMember = {
  url: string;
  state(): ClusterState;
  /** Resolves when this member leads for the first time, or has begun to follow. */
  settled: Promise<ClusterState["role"]>;
  stop(reason: string, graceMs?: number): Promise<void>;
};

export type MemberOptions = RuntimeOptions & {
  /** Of the lock in the log; for tests. */
  leaseMs?: number;
  /** Does what a command asks for. */
  operate?: Cluster["operate"];
};

/** How a server that leads the others is started, beside the options of any server. */
export type LeaderOptions = RuntimeOptions & {
  /** Held by the member, which starts a server several times on one directory and releases the lock itself. */
  lock?: DataLock;
  /** The servers that share the commit log which this one leads. */
  cluster?: Cluster;
  /** Media threads that are loaded and idle; null when there are none. */
  takeMediaThreads?: () => EmbeddedMedia | null;
  /** Awaited when all parts are ready except the port, which the standby listener holds until then. */
  beforeListening?: () => Promise<void>;
};

type Leader = { runtime: Pick<Runtime, "logged">; stop(reason: string, graceMs?: number): Promise<void> };
type Start = (config: Config, options: LeaderOptions) => Promise<Leader>;

const LEASE_MS = 5_000;
const AGAIN_MS = 1_000;
/** Somebody else waits to lead: what is under way gets a moment, and comes back there. */
const HAND_OVER_MS = 1_000;

/** One server of several that share a commit log: it follows, leads when nobody else does, and follows again. */
export async function startMember(config: Config, options: MemberOptions, start: Start): Promise<RunningMember> {
  const { leaseMs = LEASE_MS } = options;
  const { COMMIT_LOG_URL: logUrl = "", STOA_SECRET: secret = "" } = config;
  const now = options.now ?? systemNow;
  const timers = options.timers ?? systemTimers;
  const log = createLog({ level: config.LOG_LEVEL, format: config.LOG_FORMAT, write: options.logWrite });
  const keyring = createKeyring(secret);
  const credential = clusterCredential(keyring);
  const path = databasePath(config);
  mkdirSync(config.DATA_DIR, { recursive: true, mode: 0o700 });
  const lock = lockData(config.DATA_DIR);
  const commitLog = postgresLog(logUrl, { log, timers, leaseMs });
  const stopping = new AbortController();
  const settled = Promise.withResolvers<ClusterState["role"]>();
  const abstention = new Abstention();
  const hasBucket = config.STORAGE_S3_BUCKET !== undefined;

  let problem: string | null = "it has not reached the commit log yet";
  let state: ClusterState = { role: "standby", leader: null, position: 0, lag: 0 };
  let replica: Replica | null = null;
  let server: Leader | null = null;
  let isOpen = false;
  /** They have loaded their code when this server has to lead: that takes longer than all the rest of a takeover. */
  let mediaThreads: EmbeddedMedia | null = null;
  const metrics = createMetrics();
  measureCluster(metrics, () => shown());

  const shown = (): ClusterState => {
    const position = server?.runtime.logged?.position ?? replica?.position ?? state.position;
    return state.role === "leader" ? { role: "leader", leader: url, position, lag: 0 } : { ...state, position };
  };

  const listenAsStandby = (port: number) =>
    serveStandby({
      hostname: config.HOST,
      port,
      state: shown,
      problem: () => problem,
      credential,
      abstain: () => abstention.promise(),
      snapshot: () => snapshotResponse(path, stopping.signal),
      metrics: () => metrics.registry.metrics(),
      metricsToken: config.METRICS_TOKEN,
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
  const stopReporting = reportState({ commitLog, url, state: shown, log, timers });

  const { join, fetchSnapshot, leadEmpty, openReplica } = createJoining({
    commitLog,
    secretFingerprint: keyring.fingerprint,
    ...{ credential, url, path, now, log },
    dataDir: config.DATA_DIR,
    onFetching: (source) => {
      problem = `it fetches a snapshot from ${source}`;
    },
  });

  /** An empty log takes the local file as its base, once this server may lead. */
  async function lead(): Promise<Leadership | null> {
    const info = await commitLog.info(keyring.fingerprint);
    if (info.head === 0) return leadEmpty(info.id);
    replica = openReplica(info.head);
    problem = null;
    mediaThreads ??= EmbeddedMedia.spawn(config.MEDIA_WORKERS, log);
    void untilMet().then(() => settled.resolve("standby"));
    try {
      return await followUntilLeading({
        ...{ log: commitLog, replica, url, abstention },
        ...{ logger: log, signal: stopping.signal },
      });
    } finally {
      state = { ...state, position: replica.position };
      replica.close();
      replica = null;
    }
  }

  /** It stands by once it could take over, or when nobody is there to say so. */
  async function untilMet(): Promise<void> {
    for (let attempt = 0; attempt < 50; attempt++) {
      if (stopping.signal.aborted || (await commitLog.isMet(url).catch(() => true))) return;
      await sleep(100);
    }
  }

  async function serve(leadership: Leadership): Promise<void> {
    const lost = Promise.withResolvers<string>();
    const askPeers = () => abstentionsOf(leadership.peers(), credential);
    const fence = createFence({ leadership, askPeers, leaseMs, onOther: lost.resolve });
    try {
      await takeOver({
        path,
        log: commitLog,
        term: leadership.term,
        migrations: readMigrations(assetFolder("migrations")),
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
            state: shown,
            credential,
            fence,
            isLogAway: () => leadership.unsureSince !== null,
            operate: options.operate ?? (() => Promise.reject(new Error("this server takes no commands"))),
            snapshot: () => snapshotResponse(path, stopping.signal),
            term: leadership.term,
            overview: () => overviewOf(commitLog, { ...shown(), term: leadership.term, hasBucket, now: now() }),
          },
          takeMediaThreads: () => {
            const taken = mediaThreads;
            mediaThreads = null;
            return taken;
          },
          beforeListening: async () => {
            await leadership.undisputed;
            await standby?.stop(true);
            standby = null;
          },
        },
      );
      isOpen = true;
      log.info({ term: leadership.term, url }, "this server leads");
      settled.resolve("leader");
      const stopTrimming = trimLog({ commitLog, state: shown, log, timers });
      const reason = await Promise.race([leadership.lost, lost.promise, aborted(stopping.signal)]);
      stopTrimming();
      if (!stopping.signal.aborted) log.warn({ reason, term: leadership.term }, "this server leads no longer");
      await server.stop(reason, HAND_OVER_MS);
    } finally {
      fence.stop();
      server = null;
      isOpen = false;
      state = { ...state, role: "standby", leader: null };
      await leadership.resign();
      if (!stopping.signal.aborted) standby ??= listenAsStandby(port);
    }
  }

  async function live(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const { leader } = await join();
        state = { ...state, leader };
        const leadership = await lead();
        if (leadership !== null) await serve(leadership);
      } catch (error) {
        if (isFatal(error)) return settled.reject(error);
        problem = error instanceof Error ? error.message : String(error);
        log.error({ err: error }, "this server cannot follow or lead; trying again");
        if (error instanceof ReplicaDiffers || error instanceof Forgotten) {
          await fetchSnapshot(state.leader).catch((err) => log.error({ err }, "the local data could not be replaced"));
        }
        await sleep(AGAIN_MS);
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
      lag: Math.max(0, info.head - shown().position),
    };
  }, AGAIN_MS);
  watchLeader.unref();

  const living = live();
  async function stop(_reason: string): Promise<void> {
    stopping.abort();
    clearInterval(watchLeader);
    stopReporting();
    await living;
    await mediaThreads?.close();
    await standby?.stop(true);
    await commitLog.leave(url).catch(() => {});
    await commitLog.close();
    lock.release();
  }
  settled.promise.catch(() => void stop("refused"));
  return { url, state: shown, settled: settled.promise, stop };
}

/** Trying again would end the same way: the operator has to decide. */
function isFatal(error: unknown): boolean {
  return error instanceof ClusterRefused || error instanceof LogRefused || error instanceof MigrationRefused;
}

function aborted(signal: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve("stopped");
    signal.addEventListener("abort", () => resolve("stopped"));
  });
}
