import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../kernel/config/index.ts";
import { createKeyring, type Keyring, secretFromFile } from "../../kernel/crypto/secrets.ts";
import type { Db } from "../../kernel/db/open.ts";
import type { PersonalColumns, User } from "../../kernel/personal-data.ts";
import type { Tenant } from "../../kernel/tenant.ts";

const FILE = "erasures.jsonl";

/**
 * One erasure without the user id: only a reader who knows a user id and the key can tell whether this user was erased.
 */
export type ListedErasure = Tenant & {
  id: string;
  at: number;
  digest: string;
  /** The id of the master secret with which the digest was computed. */
  key: string;
};

/** A new erasure is stored with the first digest. */
export function digestsOf(keyring: Keyring, { projectId, environment, userId }: User): string[] {
  return keyring.acceptedDigests("erasure", JSON.stringify([projectId, environment, userId]));
}

/**
 * Appends an erasure to the list next to the database. The list is not part of a backup, so that after the restore of
 * an older backup the server knows which users to erase again. The line is on disk before the request is answered.
 */
export function appendErasure(dataDir: string, erasure: ListedErasure): void {
  const path = join(dataDir, FILE);
  appendFileSync(path, `${JSON.stringify(erasure)}\n`, { mode: 0o600 });
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Skips a line that a crash truncated: its request was never answered. */
export function readErasures(dataDir: string): ListedErasure[] {
  const path = join(dataDir, FILE);
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return line === "" ? [] : [JSON.parse(line) as ListedErasure];
      } catch {
        return [];
      }
    });
}

type UsersToErase = {
  /** Users who were erased after the backup was made and whose data is in it. */
  found: { user: User; digest: string }[];
  /** Erasures whose digests were computed with another master secret, so that their users cannot be found. */
  unreadable: number;
};

/**
 * Finds the users to erase again in restored data. The list has digests only, so every user id of the database is
 * compared. `config` belongs to the data being replaced, which has the list and the secret of its digests.
 */
export function findUsersToErase(
  db: Db,
  columns: readonly PersonalColumns[],
  config: Config,
  listed: ListedErasure[],
): UsersToErase {
  const { DATA_DIR, STOA_SECRET, STOA_SECRET_PREVIOUS } = config;
  if (STOA_SECRET === undefined && !existsSync(join(DATA_DIR, "secret")))
    return { found: [], unreadable: listed.length };
  const keyring = createKeyring(STOA_SECRET ?? secretFromFile(DATA_DIR, "secret"), STOA_SECRET_PREVIOUS);
  const fingerprints = [keyring.fingerprint, keyring.previous?.fingerprint];
  const readable = listed.filter(({ key }) => fingerprints.includes(key));
  const digests = new Set(readable.map(({ digest }) => digest));
  const found: UsersToErase["found"] = [];
  const tenants = new Map(readable.map((one) => [`${one.projectId} ${one.environment}`, one]));
  for (const { projectId, environment } of tenants.values()) {
    for (const userId of userIdsIn(db, columns, { projectId, environment })) {
      const user = { projectId, environment, userId };
      const digest = digestsOf(keyring, user).find((one) => digests.has(one));
      if (digest !== undefined) found.push({ user, digest });
    }
  }
  return { found, unreadable: listed.length - readable.length };
}

function userIdsIn({ $client: client }: Db, columns: readonly PersonalColumns[], tenant: Tenant): string[] {
  const existing = new Set(
    client
      .query<{ name: string }, []>(
        "SELECT t.name || '.' || c.name AS name FROM pragma_table_list t JOIN pragma_table_info(t.name) c",
      )
      .all()
      .map(({ name }) => name),
  );
  const queries = columns
    .flatMap(({ userIds }) => Object.entries(userIds))
    // The backup may be of a version that does not have the column.
    .filter(([column]) => existing.has(column))
    .map(
      ([column, join]) =>
        `SELECT ${column} AS userId FROM ${column.split(".")[0]} ${join}
         WHERE project_id = ?1 AND environment = ?2 AND userId IS NOT NULL`,
    );
  return client
    .query<{ userId: string }, [string, string]>(queries.join(" UNION "))
    .all(tenant.projectId, tenant.environment)
    .map(({ userId }) => userId);
}
