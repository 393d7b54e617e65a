import type { Config } from "../../kernel/config/index.ts";
import { createKeyring } from "../../kernel/crypto/secrets.ts";
import { PostgresConnection } from "../../kernel/db/postgres-connection.ts";
import { messageOf } from "../../kernel/error-message.ts";
import { VERSION } from "../../kernel/version.ts";
import { type Check, type CheckContext, fail, pass, TIMEOUT_MS, warn } from "./check.ts";

const NAME = "commit-log";
/** Tokens and records carry the times of the leader, so clocks must not differ by more than this. */
const MAX_CLOCK_SKEW_MS = 2_000;
/** Members report every second; the software version of one that has not reported for this long is ignored. */
const GONE_AFTER_MS = 600_000;

type Query = <Row>(text: string) => Promise<Row[]>;
type PostgresState = { at: string; version: string; durable: string; fsync: string; tables: string | null };

/** Checks whether the commit log is reachable and whether its servers are compatible. */
export async function checkCommitLog({ config }: CheckContext): Promise<Check[]> {
  const { COMMIT_LOG_URL: url, STORAGE_S3_BUCKET: bucket, ROLE: role } = config;
  if (url === undefined) return [pass(NAME, "none: this server stands alone")];
  const connection = new PostgresConnection(url);
  const query: Query = (text) => connection.query(text, [], TIMEOUT_MS);
  try {
    const before = Date.now();
    const [found] = await query<PostgresState>(
      `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at,
         current_setting('server_version_num') AS version, current_setting('synchronous_commit') AS durable,
         current_setting('fsync') AS fsync, to_regclass('stoa_log_info')::text AS tables`,
    );
    if (found === undefined) throw new Error("it returned no row");
    const problems = databaseProblems(found, { before, after: Date.now() });
    if (found.tables !== null) problems.push(...(await memberProblems(config, query)));
    if (bucket === undefined && role === "server") {
      problems.push(
        warn(NAME, "no bucket is set, so attachments are refused", "Set STORAGE_S3_BUCKET and its credentials."),
      );
    }
    return problems.length > 0 ? problems : [pass(NAME, "it answers, and the servers fit together")];
  } catch (error) {
    return [
      fail(NAME, messageOf(error), "Check COMMIT_LOG_URL, the firewall between here and there, and the password."),
    ];
  } finally {
    connection.close();
  }
}

function databaseProblems(found: PostgresState, here: { before: number; after: number }): Check[] {
  const { version, durable, fsync } = found;
  const problems: Check[] = [];
  if (Number(version) < 140_000) problems.push(fail(NAME, `its Postgres is older than 14 (${version})`, "Upgrade it."));
  if (durable === "off" || fsync === "off") {
    const remedy = "Set fsync and synchronous_commit to on.";
    problems.push(fail(NAME, "it can lose acknowledged commits in a crash", remedy));
  }
  // Postgres read its clock between these two times.
  const at = Number(found.at);
  const skewMs = Math.max(0, here.before - at, at - here.after);
  if (skewMs > MAX_CLOCK_SKEW_MS) {
    const remedy = "Keep every clock right with an NTP client.";
    problems.push(warn(NAME, `its clock and this one are ${skewMs} ms apart`, remedy));
  }
  return problems;
}

async function memberProblems({ STOA_SECRET = "", ROLE: role }: Config, query: Query): Promise<Check[]> {
  const [info] = await query<{ fingerprint: string; leader: string | null }>(
    "SELECT secret_fingerprint AS fingerprint, leader FROM stoa_log_info",
  );
  if (info === undefined) return [];
  // A server with another secret is not a member and must not be told about the members.
  if (info.fingerprint !== createKeyring(STOA_SECRET).fingerprint) {
    return [fail(NAME, "it was made with another STOA_SECRET", "Give every server of the log the same STOA_SECRET.")];
  }
  const problems: Check[] = [];
  const others = await query<{ url: string; version: string }>(
    `SELECT url, version FROM stoa_members WHERE now() - seen_at < interval '${GONE_AFTER_MS} milliseconds'`,
  );
  const different = others.filter(({ version }) => version !== VERSION);
  if (different.length > 0) {
    const which = different.map((member) => `${member.url} has ${member.version}`).join(", ");
    const remedy = "Finish the upgrade: every server should have one version.";
    problems.push(warn(NAME, `${which}, and this is ${VERSION}`, remedy));
  }
  if (info.leader === null) {
    const remedy = "Start a server of the log; those that run say in their log why they do not lead.";
    problems.push((role === "edge" ? fail : warn)(NAME, "no server leads", remedy));
  } else {
    const reason = await unreachable(info.leader);
    if (reason !== null) {
      const remedy = "Set CLUSTER_URL of that server to an address that the others reach, and open its port to them.";
      problems.push(fail(NAME, `${info.leader} leads, but cannot be reached from here: ${reason}`, remedy));
    }
  }
  return problems;
}

/** Followers fetch snapshots from the leader, and commands and proxied requests are sent to it. */
async function unreachable(leader: string): Promise<string | null> {
  try {
    const response = await fetch(`${leader}/healthz`, { signal: AbortSignal.timeout(TIMEOUT_MS), keepalive: false });
    return response.ok ? null : `it answers ${response.status}`;
  } catch (error) {
    return messageOf(error);
  }
}
