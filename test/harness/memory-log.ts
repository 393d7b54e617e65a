import {
  type CommitLog,
  decodeRecord,
  encodeRecord,
  type Leadership,
  type LogEntry,
  LogTruncated,
  type Member,
  PositionTaken,
} from "../../src/kernel/db/commit-log.ts";

/** The state that several servers of one test share in place of a database. */
export class SharedMemory {
  id: string = crypto.randomUUID();
  secretFingerprint: string | null = null;
  readonly records = new Map<number, Uint8Array>();
  head = 0;
  forgotten = 0;
  term = 0;
  leader: string | null = null;
  holder: { lose: (reason: string) => void } | null = null;
  readonly listeners = new Set<() => void>();
  readonly members = new Map<string, Member & { seenAt: number }>();
}

/** A commit log in memory. */
export function memoryLog(shared = new SharedMemory(), now: () => number = Date.now): CommitLog {
  return {
    async info(secretFingerprint) {
      shared.secretFingerprint ??= secretFingerprint;
      const { id, head, term, leader } = shared;
      return { id, head, term, leader, secretFingerprint: shared.secretFingerprint };
    },
    async known() {
      return { head: shared.head, term: shared.term, leader: shared.leader, ledForMs: null };
    },
    async reset() {
      shared.records.clear();
      Object.assign(shared, { id: crypto.randomUUID(), secretFingerprint: null, head: 0, forgotten: 0, term: 0 });
    },
    async append(position, record) {
      // Asynchronous, as with a real log.
      await Promise.resolve();
      if (position !== shared.head + 1) throw new PositionTaken(position);
      shared.records.set(position, encodeRecord(record));
      shared.head = position;
      for (const listener of shared.listeners) listener();
    },
    async read(after, limit) {
      if (after < shared.forgotten) throw new LogTruncated(after);
      const entries: LogEntry[] = [];
      for (let position = after + 1; position <= shared.head && entries.length < limit; position++) {
        entries.push({ position, record: decodeRecord(shared.records.get(position) ?? Buffer.alloc(0)) });
      }
      return entries;
    },
    onAppended(listener) {
      shared.listeners.add(listener);
      return () => void shared.listeners.delete(listener);
    },
    async lead(url): Promise<Leadership | null> {
      if (shared.holder !== null) return null;
      const { promise: lost, resolve: lose } = Promise.withResolvers<string>();
      const holder = { lose };
      shared.holder = holder;
      shared.leader = url;
      shared.term++;
      return {
        term: shared.term,
        lost,
        unsureSince: null,
        sureForMs: () => Number.POSITIVE_INFINITY,
        undisputed: Promise.resolve(),
        peers: () => [],
        confirm: async () => {},
        async resign() {
          if (shared.holder !== holder) return;
          shared.holder = null;
          shared.leader = null;
        },
      };
    },
    async report(member) {
      shared.members.set(member.url, { ...member, silentMs: 0, seenAt: now() });
    },
    async leave(url) {
      shared.members.delete(url);
    },
    async isKnownToLeader() {
      return true;
    },
    async members() {
      return [...shared.members.values()].map(({ seenAt, ...member }) => ({ ...member, silentMs: now() - seenAt }));
    },
    async truncate(position) {
      for (let at = shared.forgotten + 1; at <= position; at++) shared.records.delete(at);
      shared.forgotten = Math.max(shared.forgotten, position);
    },
    async close() {},
  };
}
