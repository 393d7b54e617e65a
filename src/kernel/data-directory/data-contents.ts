/** What stands in a backup, in this order. The last entry tells that nothing is missing and nothing is damaged. */
export const DESCRIPTION = "backup.json";
export const DATABASE = "stoa.db";
/** Without the master secret every key and session in the database is void. */
export const SECRETS = ["secret", "sfu-secret"] as const;
export const ATTACHMENTS = "attachments";
/** `sha256sum --check checksums.txt` understands it. */
export const CHECKSUMS = "checksums.txt";

export const FORMAT = 1;

export type Description = { format: number; version: string; createdAt: string; migrations: string[] };

/** A backup that cannot be used; the message is for the operator. */
export class BackupRefused extends Error {
  override readonly name = "BackupRefused";
}

/** Where the bytes of an object lie, seen from the data directory. */
export function objectName(objectKey: string): string {
  return `${ATTACHMENTS}/objects/${objectKey.slice(-2)}/${objectKey}`;
}

const OBJECT = /^attachments\/objects\/[0-9a-f]{2}\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A file from elsewhere names the paths that are written: only these are. */
export function isContent(name: string): boolean {
  return [DESCRIPTION, DATABASE, ...SECRETS, CHECKSUMS].includes(name) || OBJECT.test(name);
}
