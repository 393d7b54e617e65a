import type { Keyring } from "../crypto/secrets.ts";
import type { Db } from "../db/open.ts";
import { run } from "../db/statements.ts";
import type { Unit, Writer } from "../db/writer.ts";

/** What the facts of an installation are read from and written through. */
export type InstallationData = { db: Db; write: Writer["write"] };

export class SecretMismatch extends Error {
  override readonly name = "SecretMismatch";
  constructor() {
    super(
      "This data was made with another STOA_SECRET: API keys and sessions in it would all stop working. " +
        "Set the old secret again, or start once with --rotate-secret to accept that.",
    );
  }
}

/**
 * Facts about the installation itself, kept in the database so that they travel with a backup. One that is made is on
 * disk before whatever is written after it.
 */
export function installationValue({ db, write }: InstallationData, name: string, make: () => string): string {
  const known = knownValue(db, name);
  if (known !== undefined) return known;
  const value = make();
  // Should it fail, so does all that is written with it, and the next start makes another.
  write((unit) => setInstallationValue(unit, db, name, value)).catch(() => {});
  return value;
}

function knownValue(db: Db, name: string): string | undefined {
  return db.$client.query<{ value: string }, [string]>("SELECT value FROM installation WHERE name = ?").get(name)
    ?.value;
}

export function setInstallationValue(unit: Unit, db: Db, name: string, value: string): void {
  const put = "INSERT INTO installation VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
  run(unit, { run: () => db.$client.run(put, [name, value]) });
}

/** A changed master secret would silently void every credential; it takes a flag to do that. */
export function checkSecret(data: InstallationData, keyring: Keyring, rotate: boolean): void {
  const known = installationValue(data, "secret-fingerprint", () => keyring.fingerprint);
  if (known === keyring.fingerprint) return;
  if (!rotate) throw new SecretMismatch();
  const { db, write } = data;
  write((unit) => setInstallationValue(unit, db, "secret-fingerprint", keyring.fingerprint)).catch(() => {});
}

const VALID_FROM = "tokens-valid-from";

/** Tokens of end users that are older than this count for nothing; 0 until a backup was restored. */
export function tokensValidFrom(db: Db): number {
  return Number(knownValue(db, VALID_FROM) ?? 0);
}

/** Called when a backup was restored: it knows nothing of what was revoked after it was made. */
export function voidTokensBefore(unit: Unit, db: Db, at: number): void {
  setInstallationValue(unit, db, VALID_FROM, String(at));
}
