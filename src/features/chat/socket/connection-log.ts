import type { RequestInfo } from "../../../kernel/http/request-info.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { sameTenant, type Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS } from "../../../kernel/time/clock.ts";
import type { ChatSocket } from "./chat-socket.ts";
import { connectionStore } from "./connection.store.ts";
import type { ChatConnectionRow } from "./connection.table.ts";

const KEEP_MS = 30 * DAY_MS;
const PRUNE_BATCH = 500;

/**
 * The record of chat connections for the dashboard. It is written in batches, so that five thousand sockets that
 * reconnect together cause few transactions.
 */
export function createConnectionLog({ db, now, write }: Runtime) {
  const store = connectionStore(db);
  const open = new Map<ChatSocket, ChatConnectionRow>();
  let unsaved: ChatSocket[] = [];
  let ended: ChatConnectionRow[] = [];

  function snapshot(socket: ChatSocket, row: ChatConnectionRow): ChatConnectionRow {
    const conversations = JSON.stringify([...socket.joined.values()].map(({ publicId }) => publicId));
    return { ...row, conversations, messagesSent: socket.messagesSent };
  }

  return {
    /** Ends the connections that a crash left open. */
    start: (): Promise<void> => write((unit) => store.abandon(unit, now())),

    opened(socket: ChatSocket, { ip, userAgent }: RequestInfo): void {
      const { projectId, environment, userId } = socket.caller;
      unsaved.push(socket);
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
      ended.push({ ...snapshot(socket, row), disconnectedAt: now(), closeCode });
    },

    /** Saves the connections that were opened and closed since the last flush. */
    async flush(): Promise<void> {
      if (unsaved.length === 0 && ended.length === 0) return;
      const opened = unsaved.flatMap((socket) => open.get(socket) ?? []);
      const unsavedIds = new Set(unsaved.map(({ id }) => id));
      const closed = ended;
      unsaved = [];
      ended = [];
      await write((unit) => {
        for (const row of opened) store.insert(unit, row);
        for (const row of closed) unsavedIds.has(row.id) ? store.insert(unit, row) : store.save(unit, row);
      });
    },

    /** Newest first; open connections in their current state. */
    list(...page: Parameters<typeof store.list>): ChatConnectionRow[] {
      const live = new Map([...open].map(([socket, row]) => [row.id, snapshot(socket, row)]));
      return store.list(...page).map((row) => live.get(row.id) ?? row);
    },
    count: (tenant: Tenant): number => [...open.values()].filter((row) => sameTenant(row, tenant)).length,

    /** Discards all unsaved records about a user. */
    forget(tenant: Tenant, userId: string): void {
      const isTheirs = (row: ChatConnectionRow) => row.userId === userId && sameTenant(row, tenant);
      for (const [socket, row] of open) if (isTheirs(row)) open.delete(socket);
      ended = ended.filter((row) => !isTheirs(row));
    },

    /** Removes one batch of old connections; called by a recurring job. */
    prune: (): Promise<number> => write((unit) => store.prune(unit, now() - KEEP_MS, PRUNE_BATCH)),
  };
}
