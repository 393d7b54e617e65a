/** The entries of a backup, in this order. The last one proves that the backup is complete and undamaged. */
export const DESCRIPTION = "backup.json";
export const DATABASE = "stoa.db";
/** Without the master secret every key and session in the database is invalid. */
export const SECRETS = ["secret", "sfu-secret"] as const;
export const ATTACHMENTS = "attachments";
/** The format is that of `sha256sum --check checksums.txt`. */
export const CHECKSUMS = "checksums.txt";

export const FORMAT = 1;

export type Description = { format: number; version: string; createdAt: string; migrations: string[] };

/** A backup that cannot be used; the message is for the operator. */
export class BackupRefused extends Error {
  override readonly name = "BackupRefused";
}

/** The path of a stored object, relative to the data directory. */
export function objectName(objectKey: string): string {
  return `${ATTACHMENTS}/objects/${objectKey.slice(-2)}/${objectKey}`;
}

const OBJECT = /^attachments\/objects\/[0-9a-f]{2}\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a restore may write this path: the archive is untrusted. */
export function isContent(name: string): boolean {
  return [DESCRIPTION, DATABASE, ...SECRETS, CHECKSUMS].includes(name) || OBJECT.test(name);
}
