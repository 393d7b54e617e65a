import { setTimeout as sleep } from "node:timers/promises";
import { assetFolder } from "../kernel/assets.ts";
import type { Now } from "../kernel/clock.ts";
import type { CommitLog, Leadership, LogInfo } from "../kernel/db/commit-log.ts";
import { migrate, readMigrations } from "../kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../kernel/db/open.ts";
import type { Log } from "../kernel/log.ts";
import { VERSION } from "../kernel/version.ts";
import { ClusterRefused } from "./cluster.ts";
import { becomeBase, belongingOf, Replica } from "./replica.ts";
import { takeSnapshot } from "./snapshot.ts";

const AGAIN_MS = 1_000;

type JoiningDeps = {
  commitLog: CommitLog;
  secretFingerprint: string;
  credential: string;
  /** Of this member. */
  url: string;
  dataDir: string;
  /** Of the database in it. */
  path: string;
  now: Now;
  log: Log;
  onFetching: (source: string) => void;
};

/** How a member's own file becomes one of the log, and stays one. */
export type Joining = {
  /** Throws ClusterRefused when the file cannot be one of this log. */
  join(): Promise<LogInfo>;
  /** Puts what another member has in place of the local file. */
  fetchSnapshot(leader: string | null): Promise<void>;
  /** Leads an empty log, whose base the local file becomes; null when somebody else was first. */
  leadEmpty(logId: string): Promise<Leadership | null>;
  openReplica(head: number): Replica;
};

export function createJoining(deps: JoiningDeps): Joining {
  const { commitLog, secretFingerprint, credential, url, dataDir, path, now, log } = deps;

  async function fetchSnapshot(leader: string | null): Promise<void> {
    const members = (await commitLog.members()).filter((member) => member.url !== url && member.role !== "edge");
    const byPosition = members.sort((a, b) => b.position - a.position).map((member) => member.url);
    const sources = [...new Set([...(leader === null || leader === url ? [] : [leader]), ...byPosition])];
    for (const source of sources) {
      try {
        deps.onFetching(source);
        await takeSnapshot(source, { path, credential, now: now() });
        return log.info({ source }, "took a snapshot");
      } catch (error) {
        log.warn({ err: error, source }, "no snapshot from there");
      }
    }
    throw new Error("no other member gives a snapshot");
  }

  return {
    fetchSnapshot,
    async join() {
      const info = await commitLog.info(secretFingerprint);
      requireSameSecret(info, secretFingerprint);
      // Known to whoever leads from the first moment on: nobody else may take its place.
      await commitLog.report({ url, role: "standby", position: 0, version: VERSION });
      const belonging = belongingOf(path, info.id);
      if (info.head === 0 || belonging === "of this log") return info;
      if (belonging !== "nothing here") {
        throw new ClusterRefused(
          `${dataDir} holds data that is not of this commit log, which has entries already. ` +
            "To join with what the others have, start with an empty --data-dir. " +
            "To begin a new log with this data, empty the old one with `stoa cluster reset`.",
        );
      }
      await fetchSnapshot(info.leader);
      return info;
    },
    async leadEmpty(logId) {
      const leadership = await commitLog.lead(url);
      if (leadership === null) {
        await sleep(AGAIN_MS);
        return null;
      }
      try {
        if ((await commitLog.info(secretFingerprint)).head > 0) throw new Error("another server has begun the log");
        const db = openDatabase(path);
        migrate(db, readMigrations(assetFolder("migrations")), now());
        closeDatabase(db);
        becomeBase(path, logId);
        return leadership;
      } catch (error) {
        await leadership.resign();
        throw error;
      }
    },
    openReplica(head) {
      const replica = new Replica(path);
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
