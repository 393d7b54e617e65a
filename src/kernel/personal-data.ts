import type { Unit } from "./db/writer.ts";
import type { Tenant } from "./tenant.ts";
import { iso } from "./time/clock.ts";

/** An end user of the developer's application: the same string in chat and in rooms, within one environment. */
export type User = Tenant & { userId: string };

/** Stands where a user id has to stand and the user is erased. No user id can be spelled like this. */
export const ERASED = "(erased)";

/** What is counted and exported of a user, in the order in which it is shown. */
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

/** A file of a user. `open` returns a path on this machine: the file's own, or `path` after it was copied there. */
export type PersonalFile = { name: string; bytes: number; open(path: string): Promise<string> };

/** The data that one feature holds about users. Each feature exports its own from `personal-data.ts`. */
export type PersonalData = {
  /** Reads the data of a user, page by page, as it is exported. */
  kinds?: ByKind<(user: User) => AsyncIterable<object[]>>;
  /** Counts what would take long to read. */
  counts?: ByKind<(user: User) => Promise<number>>;
  files?(user: User): AsyncIterable<PersonalFile>;
  /** Revokes what lets the user in, and disconnects it. */
  revoke?(unit: Unit, user: User): void;
  isConnected?(user: User): boolean;
  /**
   * Erases the data of a user who is not connected any more. It may be called again for the same user: after a crash it
   * finds what was left.
   */
  erase?(user: User): Promise<void>;
  /** Removes network addresses from at most `limit` records that began before a time. Returns how many it changed. */
  removeAddresses?(unit: Unit, before: number, limit: number): number;
};

/** The columns in which one feature holds data about users, as `table.column`. */
export type PersonalColumns = {
  /** Columns of user ids. The value is the join to the table that has the project, empty if it is the table itself. */
  userIds: Record<string, string>;
  /** Columns of texts, addresses and JSON that can be about a user. */
  content: readonly string[];
};

/** A row as JSON shows it: times as text, without the tenant. */
export function presentRow(row: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row)
      .filter(([name]) => name !== "projectId" && name !== "environment")
      .map(([name, value]) => [name, name.endsWith("At") && typeof value === "number" ? iso(value) : value]),
  );
}
