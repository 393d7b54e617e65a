import type { Config } from "../../kernel/config/index.ts";
import { PostgresConnection } from "../../kernel/db/postgres-connection.ts";
import { createKeyring } from "../../kernel/crypto/secrets.ts";
import { VERSION } from "../../kernel/version.ts";
import { type Check, fail, TIMEOUT_MS, type CheckContext, pass, reasonOf, warn } from "./check.ts";

const NAME = "commit-log";
/** Tokens and records carry times of whichever server leads. */
const MOST_APART_MS = 2_000;
/** Members report every second; whoever was not heard of for so long is not asked about its version. */
const GONE_AFTER_MS = 600_000;

type Ask = <Row>(text: string) => Promise<Row[]>;
type Found = { at: string; version: string; durable: string; fsync: string; tables: string | null };

/** Servers that share a log: whether it can be reached, and whether they fit together. */
export async function checkCommitLog({ config }: CheckContext): Promise<Check[]> {
  const { COMMIT_LOG_URL: url, STORAGE_S3_BUCKET: bucket, ROLE: role } = config;
  if (url === undefined) return [pass(NAME, "none: this server stands alone")];
  const connection = new PostgresConnection(url);
  const ask: Ask = (text) => connection.query(text, [], TIMEOUT_MS);
  try {
    const before = Date.now();
    const [found] = await ask<Found>(
      `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at,
         current_setting('server_version_num') AS version, current_setting('synchronous_commit') AS durable,
         current_setting('fsync') AS fsync, to_regclass('stoa_log_info')::text AS tables`,
    );
    if (found === undefined) throw new Error("it gives no answer");
    const troubles = databaseTroubles(found, { before, after: Date.now() });
    if (found.tables !== null) troubles.push(...(await memberTroubles(config, ask)));
    if (bucket === undefined && role === "server") {
      troubles.push(
        warn(NAME, "no bucket is set, so attachments are refused", "Set STORAGE_S3_BUCKET and its credentials."),
      );
    }
    return troubles.length > 0 ? troubles : [pass(NAME, "it answers, and the servers fit together")];
  } catch (error) {
    return [
      fail(NAME, reasonOf(error), "Check COMMIT_LOG_URL, the firewall between here and there, and the password."),
    ];
  } finally {
    connection.close();
  }
}

function databaseTroubles(found: Found, here: { before: number; after: number }): Check[] {
  const { version, durable, fsync } = found;
  const troubles: Check[] = [];
  if (Number(version) < 140_000) troubles.push(fail(NAME, `its Postgres is older than 14 (${version})`, "Upgrade it."));
  if (durable === "off" || fsync === "off") {
    const remedy = "Set fsync and synchronous_commit to on.";
    troubles.push(fail(NAME, "it forgets what it acknowledged when it crashes", remedy));
  }
  // It looked at its clock between those two moments.
  const at = Number(found.at);
  const apartMs = Math.max(0, here.before - at, at - here.after);
  if (apartMs > MOST_APART_MS) {
    const remedy = "Keep every clock right with an NTP client.";
    troubles.push(warn(NAME, `its clock and this one are ${apartMs} ms apart`, remedy));
  }
  return troubles;
}

async function memberTroubles({ STOA_SECRET = "", ROLE: role }: Config, ask: Ask): Promise<Check[]> {
  const [info] = await ask<{ fingerprint: string; leader: string | null }>(
    "SELECT secret_fingerprint AS fingerprint, leader FROM stoa_log_info",
  );
  if (info === undefined) return [];
  // Whoever has another secret is no member: the rest is none of its business.
  if (info.fingerprint !== createKeyring(STOA_SECRET).fingerprint) {
    return [fail(NAME, "it was made with another STOA_SECRET", "Give every server of the log the same STOA_SECRET.")];
  }
  const troubles: Check[] = [];
  const others = await ask<{ url: string; version: string }>(
    `SELECT url, version FROM stoa_members WHERE now() - seen_at < interval '${GONE_AFTER_MS} milliseconds'`,
  );
  const different = others.filter(({ version }) => version !== VERSION);
  if (different.length > 0) {
    const which = different.map((member) => `${member.url} has ${member.version}`).join(", ");
    const remedy = "Finish the upgrade: every server should have one version.";
    troubles.push(warn(NAME, `${which}, and this is ${VERSION}`, remedy));
  }
  if (info.leader === null) {
    const remedy = "Start a server of the log; those that run say in their log why they do not lead.";
    troubles.push((role === "edge" ? fail : warn)(NAME, "no server leads", remedy));
  } else {
    const reason = await unreachable(info.leader);
    if (reason !== null) {
      const remedy = "Set CLUSTER_URL of that server to an address that the others reach, and open its port to them.";
      troubles.push(fail(NAME, `${info.leader} leads, but cannot be reached from here: ${reason}`, remedy));
    }
  }
  return troubles;
}

/** Snapshots, commands and all that an edge carries go there. */
async function unreachable(leader: string): Promise<string | null> {
  try {
    const response = await fetch(`${leader}/healthz`, { signal: AbortSignal.timeout(TIMEOUT_MS), keepalive: false });
    return response.ok ? null : `it answers ${response.status}`;
  } catch (error) {
    return reasonOf(error);
  }
}
