import type { Unit } from "./db/writer.ts";
import type { Tenant } from "./tenant.ts";
import { iso } from "./time/clock.ts";

/** An end user of the developer's application: the same string in chat and in rooms, within one environment. */
export type User = Tenant & { userId: string };

/** The placeholder for the id of an erased user. No user id can have this form. */
export const ERASED = "(erased)";

/** The kinds of personal data that are counted and exported, in the order of display. */
export const PERSONAL_DATA_KINDS = [
  "messages",
  "memberships",
  "reactions",
  "readStates",
  "attachments",
  "mentions",
  "rings",
  "blocks",
  "reports",
  "pushSubscriptions",
  "notificationSettings",
  "chatConnections",
  "connections",
  "calls",
  "recordedTracks",
  "mediaSessions",
  "liveStreams",
  "tokens",
] as const;
export type PersonalDataKind = (typeof PERSONAL_DATA_KINDS)[number];

type ByKind<Value> = Partial<Record<PersonalDataKind, Value>>;

/** A file of a user. `open` returns a path on this machine: the file's own, or `path` after copying the file there. */
export type PersonalFile = { name: string; bytes: number; open(path: string): Promise<string> };

/** The personal data of one feature. Each feature exports its own from `personal-data.ts`. */
export type PersonalData = {
  /** Reads the data of a user, page by page, in exported form. */
  kinds?: ByKind<(user: User) => AsyncIterable<object[]>>;
  /** Counts data that would take long to read. */
  counts?: ByKind<(user: User) => Promise<number>>;
  files?(user: User): AsyncIterable<PersonalFile>;
  /** Revokes the user's credentials and disconnects the user. */
  revoke?(unit: Unit, user: User): void;
  isConnected?(user: User): boolean;
  /**
   * Erases the data of a user who is not connected any more. It may be called again for the same user, and then erases
   * what a crash left behind.
   */
  erase?(user: User): Promise<void>;
  /**
   * Removes IP addresses from at most `limit` records that began before a time. Returns the number of changed records.
   */
  removeAddresses?(unit: Unit, before: number, limit: number): number;
};

/** The columns in which one feature stores personal data, as `table.column`. */
export type PersonalColumns = {
  /**
   * The columns with user ids as keys. Each value is the SQL join to the table that has the project; empty if the column's own
   * table has it.
   */
  userIds: Record<string, string>;
  /** Columns of texts, IP addresses and JSON that can contain personal data. */
  content: readonly string[];
};

/** A row in JSON form: times as text, without the tenant. */
export function presentRow(row: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row)
      .filter(([name]) => name !== "projectId" && name !== "environment")
      .map(([name, value]) => [name, name.endsWith("At") && typeof value === "number" ? iso(value) : value]),
  );
}
