import type { Migration } from "./migrate.ts";

/** What one commit changed. A change of the schema is no change of rows, and travels as the statements that make it. */
export type CommitRecord =
  | { kind: "changes"; changes: Uint8Array }
  | { kind: "migrations"; migrations: Migration[]; at: number };

export type LogEntry = { position: number; record: CommitRecord };

/** Another server wrote this position: whoever asked for it leads no longer. */
export class Overtaken extends Error {
  override readonly name = "Overtaken";
  constructor(position: number) {
    super(`another server wrote position ${position} of the commit log`);
  }
}

/** The log did not answer in time. Whether what was appended is in it is not known. */
export class LogAway extends Error {
  override readonly name = "LogAway";
  constructor(why: string) {
    super(`the commit log does not answer (${why})`);
  }
}

/** What is read starts after the position that was asked for: the log has forgotten the rest. */
export class Forgotten extends Error {
  override readonly name = "Forgotten";
  constructor(position: number) {
    super(`the commit log has forgotten what follows position ${position}`);
  }
}

/** This program must not touch that log; the message tells the operator why. */
export class LogRefused extends Error {
  override readonly name = "LogRefused";
}

export type LogInfo = {
  /** Tells one log from another. */
  id: string;
  /** Of the STOA_SECRET that every member has. */
  secretFingerprint: string;
  /** The last position written; 0 in a new log. */
  head: number;
  /** Counts the servers that have led. */
  term: number;
  /** The address of the last of them. */
  leader: string | null;
};

/** `ledForMs`: since the last takeover, by the log's own clock; null before the first. */
export type KnownLog = Pick<LogInfo, "head" | "term" | "leader"> & { ledForMs: number | null };

export type Member = {
  url: string;
  role: "leader" | "standby" | "edge";
  position: number;
  version: string;
  /** Milliseconds by the log's own clock since it was last heard of. */
  silentMs: number;
};

export type Leadership = {
  term: number;
  /** Resolves with the reason when another server leads. */
  lost: Promise<string>;
  /** Since when the log has not confirmed that this server leads; null while it does. */
  readonly unsureSince: number | null;
  /** For how much longer nobody else can have the right, whatever happens meanwhile; negative when that is over. */
  sureForMs(): number;
  /**
   * The other members that may lead while the log does not answer: all that the last answer named. Null before the first
   * answer, and so long after the last that there may be others.
   */
  peers(): readonly string[] | null;
  /** Resolves once the server that led before cannot take itself for the leader any more. */
  undisputed: Promise<void>;
  /** Asks the log now; resolves once it has confirmed, or another server leads. */
  confirm(): Promise<void>;
  resign(): Promise<void>;
};

/** Order and durability for several servers; without one, the local fsync is both. */
export type CommitLog = {
  /** Makes the log if there is none, with this secret; then whatever it is. */
  info(secretFingerprint: string): Promise<LogInfo>;
  /** Where the log is, without making one. */
  known(): Promise<KnownLog | null>;
  /** Durable when it resolves; throws Overtaken when another wrote this position, LogAway when that cannot be told. */
  append(position: number, record: CommitRecord): Promise<void>;
  /** In order and without a gap; throws Forgotten when the first of them is gone. */
  read(after: number, limit: number): Promise<LogEntry[]>;
  /** After anybody's append, and after every reconnect. */
  onAppended(listener: () => void): () => void;
  /** The right to lead, if nobody has it and the last to have it is known to be over. */
  lead(url: string): Promise<Leadership | null>;
  /** Tells the others that this member is there, and how far it has come. */
  report(member: Omit<Member, "silentMs">): Promise<void>;
  leave(url: string): Promise<void>;
  /** Whether whoever leads knows of this member, which can take its place from then on. */
  isMet(url: string): Promise<boolean>;
  members(): Promise<Member[]>;
  forgetUpTo(position: number): Promise<void>;
  /** Forgets everything, its identity included. */
  reset(): Promise<void>;
  close(): Promise<void>;
};

const CHANGES = 1;
const MIGRATIONS = 2;

export function encodeRecord(record: CommitRecord): Uint8Array {
  if (record.kind === "changes") return Buffer.concat([Buffer.of(CHANGES), record.changes]);
  const { migrations, at } = record;
  return Buffer.concat([Buffer.of(MIGRATIONS), Buffer.from(JSON.stringify({ migrations, at }))]);
}

export function decodeRecord(bytes: Uint8Array): CommitRecord {
  const rest = bytes.subarray(1);
  if (bytes[0] === CHANGES) return { kind: "changes", changes: rest };
  if (bytes[0] !== MIGRATIONS) throw new Error(`the commit log holds a record of an unknown kind (${bytes[0]})`);
  return {
    kind: "migrations",
    ...(JSON.parse(Buffer.from(rest).toString()) as { migrations: Migration[]; at: number }),
  };
}
