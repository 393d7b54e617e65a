import { PostgresConnection } from "../kernel/db/postgres-connection.ts";
import { createKeyring } from "../kernel/secrets.ts";
import { VERSION } from "../kernel/version.ts";
import { type Check, fail, type Patient, pass, reasonOf, warn } from "./check.ts";

const NAME = "commit-log";
const ANSWER_WITHIN_MS = 5_000;
/** Tokens and records carry times of whichever server leads. */
const MOST_APART_MS = 2_000;

type Found = { at: string; version: string; durable: string; fsync: string; tables: string | null };

/** Servers that share a log: whether it can be reached, and whether they fit together. */
export async function examineCommitLog({ config }: Patient): Promise<Check[]> {
  const { COMMIT_LOG_URL: url, STOA_SECRET = "", STORAGE_S3_BUCKET: bucket } = config;
  if (url === undefined) return [pass(NAME, "none: this server stands alone")];
  const connection = new PostgresConnection(url);
  const ask = <Row>(text: string) => connection.query<Row>(text, [], ANSWER_WITHIN_MS);
  try {
    const [found] = await ask<Found>(
      `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at,
         current_setting('server_version_num') AS version, current_setting('synchronous_commit') AS durable,
         current_setting('fsync') AS fsync, to_regclass('stoa_log_info')::text AS tables`,
    );
    const apartMs = Math.abs(Date.now() - Number(found?.at));
    const trouble = found === undefined ? null : problemOf(found, apartMs);
    if (trouble !== null) return [trouble];
    if ((found?.tables ?? null) !== null) {
      const [info] = await ask<{ fingerprint: string }>("SELECT secret_fingerprint AS fingerprint FROM stoa_log_info");
      if (info !== undefined && info.fingerprint !== createKeyring(STOA_SECRET).fingerprint) {
        return [
          fail(NAME, "it was made with another STOA_SECRET", "Give every server of the log the same STOA_SECRET."),
        ];
      }
      const others = await ask<{ url: string; version: string }>("SELECT url, version FROM stoa_members");
      const older = others.filter(({ version }) => version !== VERSION);
      if (older.length > 0) {
        const which = older.map((member) => `${member.url} has ${member.version}`).join(", ");
        return [
          warn(NAME, `${which}, and this is ${VERSION}`, "Finish the upgrade: every server should have one version."),
        ];
      }
    }
    if (bucket === undefined) {
      return [warn(NAME, "no bucket is set, so attachments are refused", "Set STORAGE_S3_BUCKET and its credentials.")];
    }
    return [pass(NAME, "it answers, and the servers fit together")];
  } catch (error) {
    return [
      fail(NAME, reasonOf(error), "Check COMMIT_LOG_URL, the firewall between here and there, and the password."),
    ];
  } finally {
    connection.close();
  }
}

function problemOf({ version, durable, fsync }: Found, apartMs: number): Check | null {
  if (Number(version) < 140_000) return fail(NAME, `its Postgres is older than 14 (${version})`, "Upgrade it.");
  if (durable === "off" || fsync === "off") {
    return fail(NAME, "it forgets what it acknowledged when it crashes", "Set fsync and synchronous_commit to on.");
  }
  if (apartMs > MOST_APART_MS) {
    return warn(NAME, `its clock and this one are ${apartMs} ms apart`, "Keep every clock right with an NTP client.");
  }
  return null;
}
