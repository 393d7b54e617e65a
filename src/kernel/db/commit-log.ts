/** Identifies a migration by its name. Its statements come from the program that runs it, never from the log. */
export type MigrationName = { name: string; hash: string };

/** The changes of one commit: rows as a changeset, the schema as the names of its migrations. */
export type CommitRecord =
  | { kind: "changes"; changes: Uint8Array }
  | { kind: "migrations"; migrations: MigrationName[]; at: number };

export type LogEntry = { position: number; record: CommitRecord };

/** Another server wrote this position: the caller is no longer the leader. */
export class PositionTaken extends Error {
  override readonly name = "PositionTaken";
  constructor(position: number) {
    super(`another server wrote position ${position} of the commit log`);
  }
}

/** The log did not respond in time. It is unknown whether it contains the appended record. */
export class LogUnavailable extends Error {
  override readonly name = "LogUnavailable";
  constructor(why: string) {
    super(`the commit log does not answer (${why})`);
  }
}

/** The log has already deleted the requested position. */
export class LogTruncated extends Error {
  override readonly name = "LogTruncated";
  constructor(position: number) {
    super(`the commit log has forgotten what follows position ${position}`);
  }
}

/** Records are missing that the log had before. */
export class LogRolledBack extends Error {
  override readonly name = "LogRolledBack";
  constructor(head: number, position: number) {
    super(`the commit log ends at ${head}, and the data here at ${position}: the log has lost records`);
  }
}

/** This program must not use the log; the message tells the operator why. */
export class LogRefused extends Error {
  override readonly name = "LogRefused";
}

export type LogInfo = {
  id: string;
  /** The fingerprint of the STOA_SECRET that all members share. */
  secretFingerprint: string;
  /** The last position written; 0 in a new log. */
  head: number;
  term: number;
  /** The URL of the current or last leader. */
  leader: string | null;
};

/** `ledForMs` is the time since the last takeover by the log's clock; null before the first. */
type KnownLog = Pick<LogInfo, "head" | "term" | "leader"> & { ledForMs: number | null };

export type Member = {
  url: string;
  role: "leader" | "standby" | "edge";
  position: number;
  version: string;
  /** Milliseconds since the last report, by the log's clock. */
  silentMs: number;
};

export type Leadership = {
  term: number;
  /** Resolves with the reason when another server leads. */
  lost: Promise<string>;
  /** When the log stopped confirming the leadership of this server; null while it confirms it. */
  readonly unsureSince: number | null;
  /** For how long no other server can possibly become leader; negative when the lease is over. */
  sureForMs(): number;
  /**
   * The other members that could take over while the log does not respond: those in its last response. Null before the
   * first response, and when the last one is so old that further members may have joined.
   */
  peers(): readonly string[] | null;
  /** Resolves once the previous leader cannot consider itself the leader any more. */
  undisputed: Promise<void>;
  /** Queries the log now; resolves once the log has confirmed this server, or another server leads. */
  confirm(): Promise<void>;
  resign(): Promise<void>;
};

/** Order and durability for several servers; for a single server its local fsync provides both. */
export type CommitLog = {
  /** Creates the log with this secret if it does not exist, and describes it. */
  info(secretFingerprint: string): Promise<LogInfo>;
  /** Describes the log without creating one. */
  known(): Promise<KnownLog | null>;
  /**
   * The record is durable when the promise resolves; throws PositionTaken when another server wrote this position,
   * LogUnavailable when that is unknown.
   */
  append(position: number, record: CommitRecord): Promise<void>;
  /** Entries in order and without a gap; throws LogTruncated when the first of them is deleted. */
  read(after: number, limit: number): Promise<LogEntry[]>;
  /** Called after an append by any server, and after every reconnect. */
  onAppended(listener: () => void): () => void;
  /**
   * Returns the leadership if no server has it and the lease of the last leader is known to be over; otherwise null.
   */
  lead(url: string): Promise<Leadership | null>;
  /** Reports that this member is alive, and its position. */
  report(member: Omit<Member, "silentMs">): Promise<void>;
  leave(url: string): Promise<void>;
  /** Whether the leader knows this member, which may then take over. */
  isKnownToLeader(url: string): Promise<boolean>;
  members(): Promise<Member[]>;
  truncate(position: number): Promise<void>;
  reset(): Promise<void>;
  close(): Promise<void>;
};

const CHANGES = 1;
const MIGRATIONS = 2;

export function encodeRecord(record: CommitRecord): Uint8Array {
  if (record.kind === "changes") return Buffer.concat([Buffer.of(CHANGES), record.changes]);
  const { at } = record;
  const migrations = record.migrations.map(({ name, hash }) => ({ name, hash }));
  return Buffer.concat([Buffer.of(MIGRATIONS), Buffer.from(JSON.stringify({ migrations, at }))]);
}

export function decodeRecord(bytes: Uint8Array): CommitRecord {
  const rest = bytes.subarray(1);
  if (bytes[0] === CHANGES) return { kind: "changes", changes: rest };
  if (bytes[0] !== MIGRATIONS) throw new Error(`the commit log holds a record of an unknown kind (${bytes[0]})`);
  return {
    kind: "migrations",
    ...(JSON.parse(Buffer.from(rest).toString()) as { migrations: MigrationName[]; at: number }),
  };
}
