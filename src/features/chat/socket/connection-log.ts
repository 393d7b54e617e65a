import type { RequestInfo } from "../../../kernel/http/request-info.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { connectionStore } from "../store/connection.store.ts";
import type { ChatConnectionRow } from "../store/connection.table.ts";
import type { ChatSocket } from "./chat-socket.ts";

const KEEP_MS = 30 * 24 * 3_600_000;
const PRUNED_AT_ONCE = 500;

export type ConnectionLog = ReturnType<typeof createConnectionLog>;

/**
 * The record of who was connected, for the dashboard. Written in batches, beside what clients wait for: five thousand
 * sockets that come back at once are a handful of transactions.
 */
export function createConnectionLog({ db, now, write }: Runtime) {
  const store = connectionStore(db);
  const open = new Map<ChatSocket, ChatConnectionRow>();
  let fresh: ChatSocket[] = [];
  let over: ChatConnectionRow[] = [];

  function snapshot(socket: ChatSocket, row: ChatConnectionRow): ChatConnectionRow {
    const conversations = JSON.stringify([...socket.joined.values()].map(({ publicId }) => publicId));
    return { ...row, conversations, messagesSent: socket.messagesSent };
  }

  return {
    /** What a crash left open has ended. For the one server of this database only. */
    start: (): Promise<void> => write((unit) => store.abandon(unit, now())),

    opened(socket: ChatSocket, { ip, userAgent }: RequestInfo): void {
      const { projectId, environment, userId } = socket.caller;
      fresh.push(socket);
      open.set(socket, {
        id: socket.id,
        projectId,
        environment,
        userId,
        conversations: "[]",
        messagesSent: 0,
        userAgent: userAgent?.slice(0, 512) ?? null,
        ipAddress: ip,
        connectedAt: now(),
        disconnectedAt: null,
        closeCode: null,
      });
    },

    closed(socket: ChatSocket, closeCode: number): void {
      const row = open.get(socket);
      if (!row) return;
      open.delete(socket);
      const ended = { ...snapshot(socket, row), disconnectedAt: now(), closeCode };
      over.push(ended);
    },

    /** Writes what opened and closed since the last time. */
    async flush(): Promise<void> {
      if (fresh.length === 0 && over.length === 0) return;
      const opened = fresh.flatMap((socket) => open.get(socket) ?? []);
      const known = new Set(fresh.map(({ id }) => id));
      const ended = over;
      fresh = [];
      over = [];
      await write((unit) => {
        for (const row of opened) store.insert(unit, row);
        for (const row of ended) known.has(row.id) ? store.insert(unit, row) : store.save(unit, row);
      });
    },

    /** Newest first, those still open as they are now. */
    list(...page: Parameters<typeof store.list>): ChatConnectionRow[] {
      const live = new Map([...open].map(([socket, row]) => [row.id, snapshot(socket, row)]));
      return store.list(...page).map((row) => live.get(row.id) ?? row);
    },
    count: (projectId: string, environment: string): number =>
      [...open.values()].filter((row) => row.projectId === projectId && row.environment === environment).length,

    /** What is not written yet of a user is not going to be. */
    forget({ projectId, environment }: Tenant, userId: string): void {
      const theirs = (row: ChatConnectionRow) =>
        row.userId === userId && row.projectId === projectId && row.environment === environment;
      for (const [socket, row] of open) if (theirs(row)) open.delete(socket);
      over = over.filter((row) => !theirs(row));
    },

    /** Forgets what ended long ago, a little at a time; called by a job. */
    prune: (): Promise<number> => write((unit) => store.prune(unit, now() - KEEP_MS, PRUNED_AT_ONCE)),
  };
}
