import { setTimeout as sleep } from "node:timers/promises";
import type { CommitLog, Leadership, LogInfo } from "../kernel/db/commit-log.ts";
import { type Migration, migrate } from "../kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../kernel/db/open.ts";
import type { Log } from "../kernel/log.ts";
import type { Now } from "../kernel/time/clock.ts";
import { VERSION } from "../kernel/version.ts";
import { ClusterRefused } from "./cluster.ts";
import type { MemberAuthentication } from "./member-authentication.ts";
import { dataOrigin, makeLogBase, Replica } from "./replica.ts";
import { installSnapshot } from "./snapshot.ts";

const RETRY_MS = 1_000;

type JoiningDeps = {
  commitLog: CommitLog;
  secretFingerprint: string;
  authentication: MemberAuthentication;
  migrations: readonly Migration[];
  url: string;
  dataDir: string;
  databasePath: string;
  now: Now;
  log: Log;
  onFetching: (source: string) => void;
};

type ClusterJoin = {
  /** Throws ClusterRefused when the database belongs to another log or to none. */
  join(): Promise<LogInfo>;
  fetchSnapshot(leader: string | null): Promise<void>;
  /** Leads an empty log, which starts from the local database; null when another server was faster. */
  leadEmptyLog(logId: string): Promise<Leadership | null>;
  openReplica(head: number): Replica;
};

export function createJoin(deps: JoiningDeps): ClusterJoin {
  const { commitLog, secretFingerprint, authentication, migrations, url, dataDir, databasePath: path, now, log } = deps;

  async function fetchSnapshot(leader: string | null): Promise<void> {
    const members = (await commitLog.members()).filter((member) => member.url !== url && member.role !== "edge");
    const byPosition = members.sort((a, b) => b.position - a.position).map((member) => member.url);
    const sources = [...new Set([...(leader === null || leader === url ? [] : [leader]), ...byPosition])];
    for (const source of sources) {
      try {
        deps.onFetching(source);
        await installSnapshot(source, { path, authentication, now: now() });
        return log.info({ source }, "cluster: snapshot installed");
      } catch (error) {
        log.warn({ err: error, source }, "cluster: snapshot download failed");
      }
    }
    throw new Error("no other member gives a snapshot");
  }

  return {
    fetchSnapshot,
    async join() {
      const info = await commitLog.info(secretFingerprint);
      requireSameSecret(info, secretFingerprint);
      // The leader has to know this member from the start, because any member may take over.
      await commitLog.report({ url, role: "standby", position: 0, version: VERSION });
      const origin = dataOrigin(path, info.id);
      if (info.head === 0 || origin === "this log") return info;
      if (origin !== "no data") {
        throw new ClusterRefused(
          `${dataDir} holds data that is not of this commit log, which has entries already. ` +
            "To join with what the others have, start with an empty --data-dir. " +
            "To begin a new log with this data, empty the old one with `stoa cluster reset`.",
        );
      }
      await fetchSnapshot(info.leader);
      return info;
    },
    async leadEmptyLog(logId) {
      const leadership = await commitLog.lead(url);
      if (leadership === null) {
        await sleep(RETRY_MS);
        return null;
      }
      try {
        if ((await commitLog.info(secretFingerprint)).head > 0) throw new Error("another server has begun the log");
        const db = openDatabase(path);
        migrate(db, [...migrations], now());
        closeDatabase(db);
        makeLogBase(path, logId);
        return leadership;
      } catch (error) {
        await leadership.resign();
        throw error;
      }
    },
    openReplica(head) {
      const replica = new Replica(path, migrations);
      const { position } = replica;
      if (position <= head) return replica;
      replica.close();
      throw new ClusterRefused(
        `The commit log ends at ${head}, and the data here at ${position}: the log has lost entries. ` +
          "Bring its Postgres up to date, or begin a new log with this data after `stoa cluster reset`.",
      );
    },
  };
}

export function requireSameSecret(info: LogInfo, secretFingerprint: string): void {
  if (info.secretFingerprint === secretFingerprint) return;
  throw new ClusterRefused("The commit log was made with another STOA_SECRET. Every server of it needs the same one.");
}
