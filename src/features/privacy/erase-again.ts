import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../kernel/config/index.ts";
import type { Db } from "../../kernel/db/open.ts";
import { createKeyring, secretFromFile } from "../../kernel/secrets.ts";
import type { ListedErasure } from "./erasure-list.ts";
import type { Person } from "./person.ts";
import { everybodyStore } from "./store/everybody.store.ts";

export type Recalled = {
  /** Erased after the backup was made, and found in it. */
  found: { person: Person; digest: string }[];
  /** Their digests were made with another master secret: nobody can tell whom they mean. */
  unreadable: number;
};

/**
 * Whom to erase again in restored data: the list holds digests alone, so everybody in the database is tried. `config` is
 * of the data that is being replaced, where the list lies and the secret that it was made with.
 */
export function findErased(db: Db, config: Config, listed: ListedErasure[]): Recalled {
  const { DATA_DIR, STOA_SECRET } = config;
  if (STOA_SECRET === undefined && !existsSync(join(DATA_DIR, "secret")))
    return { found: [], unreadable: listed.length };
  const keyring = createKeyring(STOA_SECRET ?? secretFromFile(DATA_DIR, "secret"));
  const readable = listed.filter(({ key }) => key === keyring.fingerprint);
  const digests = new Set(readable.map(({ digest }) => digest));
  const found: Recalled["found"] = [];
  const tenants = new Map(readable.map((one) => [`${one.projectId} ${one.environment}`, one]));
  for (const { projectId, environment } of tenants.values()) {
    for (const userId of everybodyStore(db).names({ projectId, environment })) {
      const digest = keyring.digest("erasure", JSON.stringify([projectId, environment, userId]));
      if (digests.has(digest)) found.push({ person: { projectId, environment, userId }, digest });
    }
  }
  return { found, unreadable: listed.length - readable.length };
}
