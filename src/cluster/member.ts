import { mkdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { assetFolder } from "../kernel/assets.ts";
import { systemNow } from "../kernel/clock.ts";
import type { Config } from "../kernel/config/index.ts";
import { lockData } from "../kernel/data-lock.ts";
import { ReplicaDiffers } from "../kernel/db/changesets.ts";
import { Forgotten, type Leadership } from "../kernel/db/commit-log.ts";
import { MigrationRefused, migrate, readMigrations } from "../kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../kernel/db/open.ts";
import { LogRefused, postgresLog } from "../kernel/db/postgres-log.ts";
import { createLog } from "../kernel/log.ts";
import { createMetrics } from "../kernel/metrics.ts";
import { createKeyring } from "../kernel/secrets.ts";
import { systemTimers } from "../kernel/timers.ts";
import { VERSION } from "../kernel/version.ts";
import { databasePath, type RuntimeOptions } from "../runtime.ts";
import type { RunningServer, StartOptions } from "../server.ts";
import { Abstention } from "./abstention.ts";
import { type Cluster, ClusterRefused, type ClusterState, clusterCredential } from "./cluster.ts";
import { createFence } from "./fence.ts";
import { followUntilLeading } from "./following.ts";
import { memberUrl } from "./member-url.ts";
import { measureCluster } from "./metrics.ts";
import { abstentionsOf } from "./peers.ts";
import { becomeBase, belongingOf, Replica } from "./replica.ts";
import { snapshotResponse, takeSnapshot } from "./snapshot.ts";
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

type Start = (config: Config, options: StartOptions) => Promise<RunningServer>;

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

  let problem: string | null = "it has not reached the commit log yet";
  let state: ClusterState = { role: "standby", leader: null, position: 0, lag: 0 };
  let replica: Replica | null = null;
  let server: RunningServer | null = null;
  let isOpen = false;
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

  /** Makes the local file one of this log; throws ClusterRefused when it cannot be. */
  async function join(): Promise<void> {
    const info = await commitLog.info(keyring.fingerprint);
    state = { ...state, leader: info.leader };
    if (info.secretFingerprint !== keyring.fingerprint) {
      throw new ClusterRefused(
        "The commit log was made with another STOA_SECRET. Every server of it needs the same one.",
      );
    }
    // Known to whoever leads from the first moment on: nobody else may take its place.
    await commitLog.report({ url, role: "standby", position: 0, version: VERSION });
    const belonging = belongingOf(path, info.id);
    if (info.head === 0) return;
    if (belonging === "of this log") return;
    if (belonging !== "nothing here") {
      throw new ClusterRefused(
        `${config.DATA_DIR} holds data that is not of this commit log, which has entries already. ` +
          "To join with what the others have, start with an empty --data-dir. " +
          "To begin a new log with this data, empty the old one with `stoa cluster reset`.",
      );
    }
    await fetchSnapshot(info.leader);
  }

  async function fetchSnapshot(leader: string | null): Promise<void> {
    const members = (await commitLog.members()).filter((member) => member.url !== url && member.role !== "edge");
    const byPosition = members.sort((a, b) => b.position - a.position).map((member) => member.url);
    const sources = [...new Set([...(leader === null || leader === url ? [] : [leader]), ...byPosition])];
    for (const source of sources) {
      try {
        problem = `it fetches a snapshot from ${source}`;
        await takeSnapshot(source, { path, credential, now: now() });
        return log.info({ source }, "took a snapshot");
      } catch (error) {
        log.warn({ err: error, source }, "no snapshot from there");
      }
    }
    throw new Error("no other member gives a snapshot");
  }

  /** An empty log takes the local file as its base, once this server may lead. */
  async function lead(): Promise<Leadership | null> {
    const info = await commitLog.info(keyring.fingerprint);
    if (info.head === 0) return leadEmpty(info.id);
    replica = new Replica(path);
    if (replica.position > info.head) {
      throw new ClusterRefused(
        `The commit log ends at ${info.head}, and the data here at ${replica.position}: the log has lost entries. ` +
          "Bring its Postgres up to date, or begin a new log with this data after `stoa cluster reset`.",
      );
    }
    problem = null;
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

  async function leadEmpty(logId: string): Promise<Leadership | null> {
    const leadership = await commitLog.lead(url);
    if (leadership === null) {
      await sleep(AGAIN_MS);
      return null;
    }
    try {
      if ((await commitLog.info(keyring.fingerprint)).head > 0) throw new Error("another server has begun the log");
      const db = openDatabase(path);
      migrate(db, readMigrations(assetFolder("migrations")), now());
      closeDatabase(db);
      becomeBase(path, logId);
      return leadership;
    } catch (error) {
      await leadership.resign();
      throw error;
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
        await join();
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
