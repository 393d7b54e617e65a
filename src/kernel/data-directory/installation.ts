import { createKeyring, type KeptKeys, type Keyring, keysToKeep, openText, sealText } from "../crypto/secrets.ts";
import type { Db } from "../db/open.ts";
import { changing } from "../db/statements.ts";
import type { Unit, Writer } from "../db/writer.ts";

export type InstallationData = { db: Db; write: Writer["write"] };

export class SecretMismatch extends Error {
  override readonly name = "SecretMismatch";
  constructor() {
    super(
      "This data was made with another STOA_SECRET: API keys and sessions in it would all stop working. " +
        "Set the old secret again, or set it as STOA_SECRET_PREVIOUS to keep them, or start once with --rotate-secret.",
    );
  }
}

/**
 * A property of the installation, kept in the database so that it is part of a backup. A new value is on disk before
 * all later writes.
 */
export function installationValue({ db, write }: InstallationData, name: string, make: () => string): string {
  const stored = storedValue(db, name);
  if (stored !== undefined) return stored;
  const value = make();
  // If this write fails, later writes fail too, and the next start creates another value.
  write((unit) => setInstallationValue(unit, db, name, value)).catch(() => {});
  return value;
}

export function storedValue(db: Db, name: string): string | undefined {
  return db.$client.query<{ value: string }, [string]>("SELECT value FROM installation WHERE name = ?").get(name)
    ?.value;
}

export function setInstallationValue(unit: Unit, db: Db, name: string, value: string): void {
  const put = "INSERT INTO installation VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
  changing<[string, string]>(db.$client, put).run(unit, name, value);
}

const KEPT_KEYS = "kept-keys";

type Secrets = {
  current: string;
  previous: string | undefined;
  /** Gives up everything that was made with an earlier secret. */
  rotate: boolean;
  now: number;
};

/**
 * The keys of this data. When the previous secret is replaced, the database keeps those of its keys that are needed for longer,
 * encrypted with the new secret. Any other change of the secret invalidates all credentials, so it requires a flag.
 */
export function openKeyring(data: InstallationData, { current, previous, rotate, now }: Secrets): Keyring {
  const { db, write } = data;
  const keyring = createKeyring(current, previous);
  const stored = installationValue(data, "secret-fingerprint", () => keyring.fingerprint);
  const isCurrent = stored === keyring.fingerprint;
  const isOfPrevious = !isCurrent && stored === keyring.previous?.fingerprint;
  if (!isCurrent && !isOfPrevious && !rotate) throw new SecretMismatch();
  const kept: KeptKeys[] = [];
  if (isCurrent || isOfPrevious) kept.push(...keptKeys(db, keyring));
  if (keyring.previous !== null && isOfPrevious) kept.push(keysToKeep(keyring.previous, now));
  if (!isCurrent) {
    const sealed = sealText(keyring.key(KEPT_KEYS), JSON.stringify(kept));
    write((unit) => {
      setInstallationValue(unit, db, "secret-fingerprint", keyring.fingerprint);
      setInstallationValue(unit, db, KEPT_KEYS, sealed);
    }).catch(() => {});
  }
  return kept.length === 0 ? keyring : createKeyring(current, previous, kept);
}

function keptKeys(db: Db, keyring: Keyring): KeptKeys[] {
  const sealed = storedValue(db, KEPT_KEYS);
  if (sealed === undefined) return [];
  const text = openText(keyring.accepted(KEPT_KEYS), sealed);
  if (text === null) throw new SecretMismatch();
  return JSON.parse(text) as KeptKeys[];
}

const VALID_FROM = "tokens-valid-from";

/** Tokens of end users that are older than this are invalid; 0 until a backup is restored. */
export function tokensValidFrom(db: Db): number {
  return Number(storedValue(db, VALID_FROM) ?? 0);
}

/** Called after a restore: the backup does not contain later revocations. */
export function voidTokensBefore(unit: Unit, db: Db, at: number): void {
  setInstallationValue(unit, db, VALID_FROM, String(at));
}
