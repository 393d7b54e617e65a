import type { RtcTokenCaller } from "../../../kernel/http/callers.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { sameTenant, type Tenant } from "../../../kernel/tenant.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { IDENTITY_PATTERN } from "../../../protocol/ids.ts";
import type { ConnectionEventType } from "../../../protocol/observability.ts";
import type { ClientReport, RtcConnectionEvent, RtcRefusedEvent } from "../events.ts";
import type { ConnectionEventRow, ConnectionRow, ConnectionStore } from "./connection.store.ts";
import { type ConnectionKey, newConnection, updateOf } from "./connection-update.ts";
import type { ClassifiedErrorRow, ErrorStore } from "./error.store.ts";
import { classify, type Failure, isDeviceError } from "./error-rules.ts";

const FLUSH_MS = 200;
/** The limit for a client that reports endless events about its connection. */
const MAX_EVENTS_PER_CONNECTION = 2_000;
/** Connections that ended stay in memory for late telemetry; beyond this many the oldest are read from the database. */
const MAX_ENDED = 1_000;
/** Connections that wait while the disk is full; beyond this many the oldest are discarded. */
const MAX_UNWRITTEN = 20_000;
/** A client reports every few seconds; a longer limitation is not plausible. */
const MAX_LIMITATION_SECONDS = 60;
const MAX_MISSING_KEYS = 5;
const IDENTITY = new RegExp(IDENTITY_PATTERN);
/** Connections that clients may open by telemetry alone with one token. A reloaded page is a new connection. */
const MAX_OPENED_PER_TOKEN = 20;
/** Tokens that are counted; beyond this many the oldest is forgotten. */
const MAX_COUNTED_TOKENS = 5_000;

type Entry = {
  row: ConnectionRow;
  eventCount: number;
  dirty: boolean;
  /** An error was recorded since media last worked. */
  hasError: boolean;
  /** The server knows that the participant is in a room. A client can open a record by telemetry and never join. */
  present: boolean;
  /** The session of the last join; null for a connection that only a client reported. */
  sessionId: string | null;
};

type ClientEvent = {
  connectionId: string;
  type: ConnectionEventType;
  at: number;
  data?: Record<string, unknown>;
};

export type ConnectionRecorder = ReturnType<typeof createConnectionRecorder>;

/**
 * Records the events of connections. It keeps open connections in memory and writes changes in batches, so that nothing
 * on the media or signaling path waits for the database.
 */
export function createConnectionRecorder(
  runtime: Runtime,
  stores: { connections: ConnectionStore; errors: ErrorStore },
) {
  const { bus, idleTasks, ids, now, timers, write, log } = runtime;
  const entries = new Map<string, Entry>();
  /** The latest connection by the client's connection id. */
  const byClient = new Map<string, Entry>();
  const openedByToken = new Map<string, number>();
  let events: Omit<ConnectionEventRow, "id">[] = [];
  let errors: ClassifiedErrorRow[] = [];
  let scheduled = false;
  let flushing: Promise<void> = Promise.resolve();

  bus.on("rtcConnection", recordEvent);
  bus.on("rtcRefused", recordRefusal);
  idleTasks.add(() => forgetEnded(0));

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    timers.after(FLUSH_MS, () => void flush().catch((err) => log.error({ err }, "sessions: connections not saved")));
  }

  /** Resolves when everything recorded so far is written, by this flush or by a running one. */
  function flush(): Promise<void> {
    scheduled = false;
    flushing = flushing.catch(() => {}).then(writeChanges);
    return flushing;
  }

  async function writeChanges(): Promise<void> {
    const changed = [...entries.values()].filter(({ dirty }) => dirty);
    for (const entry of changed) entry.dirty = false;
    const [newEvents, newErrors] = [events, errors];
    events = [];
    errors = [];
    if (changed.length + newEvents.length + newErrors.length > 0) {
      const written = write((unit) => {
        for (const { row } of changed) stores.connections.save(unit, row);
        stores.connections.addEvents(unit, newEvents);
        for (const error of newErrors) stores.errors.insert(unit, error);
      });
      await written.catch((error) => {
        // Later events would refer to rows that do not exist, and would fail the batches of every other connection.
        for (const entry of changed) entry.dirty = true;
        giveUpOldest();
        throw error;
      });
    }
    forgetEnded();
  }

  function forgetEnded(kept = MAX_ENDED): void {
    let excess = entries.values().reduce((count, { present }) => count + (present ? 0 : 1), -kept);
    for (const [key, entry] of entries) {
      if (excess <= 0) return;
      if (entry.present || entry.dirty) continue;
      if (entries.delete(key)) excess--;
      const name = clientKey(entry.row, entry.row.connectionId);
      if (byClient.get(name) === entry) byClient.delete(name);
    }
  }

  function giveUpOldest(): void {
    const gone = new Set<string>();
    for (const { row, present } of entries.values()) {
      if (entries.size - gone.size <= MAX_UNWRITTEN) break;
      if (!present) gone.add(row.id);
    }
    if (gone.size > 0) remove(gone);
  }

  /** Removes connections together with their unwritten events, which would refer to rows that do not exist. */
  function remove(gone: ReadonlySet<string>): void {
    for (const [key, { row }] of entries) {
      if (!gone.has(row.id)) continue;
      entries.delete(key);
      byClient.delete(clientKey(row, row.connectionId));
    }
    events = events.filter(({ connection }) => !gone.has(connection));
    errors = errors.filter(({ connection }) => connection === null || !gone.has(connection));
  }

  function entryOf(tenant: Tenant, key: ConnectionKey, startedAt: number): Entry {
    const name = clientKey(tenant, key.connectionId);
    const entryKey = [name, key.roomId, key.identity].join("\n");
    const known = entries.get(entryKey);
    if (known) return known;
    const stored = stores.connections
      .findByClient(tenant, key.connectionId)
      .find((row) => row.roomId === key.roomId && row.participantIdentity === key.identity);
    const entry: Entry = {
      row: stored ?? newConnection(ids.uuid(), tenant, key, startedAt),
      dirty: stored === undefined,
      eventCount: 0,
      hasError: false,
      present: false,
      sessionId: null,
    };
    entries.set(entryKey, entry);
    byClient.set(name, entry);
    return entry;
  }

  function addError(entry: Entry | null, tenant: Tenant, roomId: string | null, failure: Failure, message?: string) {
    const { category, code, likelyCause } = classify(failure);
    const { projectId, environment } = tenant;
    const connection = entry?.row.id ?? null;
    errors.push({
      id: ids.uuid(),
      projectId,
      environment,
      category,
      code,
      message: message ?? likelyCause,
      connection,
      roomId,
      occurredAt: now(),
    });
    if (connection === null || !entry || entry.sessionId === null) return;
    const { sessionId, row } = entry;
    bus.emit("connectionError", { connection, roomId, sessionId, serverName: row.serverName, code });
  }

  /**
   * Several observers detect that media does not get through: only the first error is recorded, until media works
   * again.
   */
  function addErrorOnce(entry: Entry, tenant: Tenant, roomId: string | null, failure: Failure): void {
    if (entry.hasError) return;
    entry.hasError = true;
    addError(entry, tenant, roomId, failure);
  }

  function addEvent(
    entry: Entry,
    type: ConnectionEventType,
    source: "server" | "client",
    at: number,
    data: Record<string, unknown> | undefined,
  ): void {
    if (entry.eventCount >= MAX_EVENTS_PER_CONNECTION) return;
    entry.eventCount += 1;
    events.push({ connection: entry.row.id, type, source, at, data: data ?? null });
  }

  function change(entry: Entry, changes: Partial<ConnectionRow>): void {
    entry.row = { ...entry.row, ...changes };
    entry.dirty = true;
  }

  function recordEvent(event: RtcConnectionEvent): void {
    const { projectId, environment, connectionId, roomId, participantIdentity: identity } = event;
    const tenant = { projectId, environment };
    const entry = entryOf(tenant, { connectionId, roomId, identity }, event.startedAt);
    if (entry.eventCount === 0 && event.type === "started") {
      addEvent(entry, "connection_started", "server", event.startedAt, { sdk: event.sdk });
    }
    const update = updateOf(entry.row, event);
    const { roomName, sdk, userAgent, ipAddress } = event;
    // A room whose node is lost has no node any more: the record keeps the node that failed.
    const serverName = event.serverName ?? entry.row.serverName;
    change(entry, { roomName, serverName, sdk, userAgent, ipAddress, ...update.change });
    entry.present = event.type !== "left";
    entry.sessionId = event.sessionId;
    for (const { type, data } of update.timeline) addEvent(entry, type, "server", event.at, data);
    if (event.type === "connected" || event.type === "reconnected") entry.hasError = false;
    if (update.failure) addErrorOnce(entry, tenant, roomId, update.failure);
    schedule();
  }

  /** A client without a valid token belongs to no project, so its rejection is not recorded for a project. */
  function recordRefusal(event: RtcRefusedEvent): void {
    const { projectId, environment, roomId, code, message, participantIdentity: identity, connectionId } = event;
    if (projectId === null || environment === null) return;
    const tenant = { projectId, environment };
    const failure: Failure = { source: "refused", code };
    if (connectionId === null || identity === null) addError(null, tenant, roomId, failure, message);
    else {
      const entry = entryOf(tenant, { connectionId, roomId, identity }, event.startedAt);
      const { at, userAgent, ipAddress, sdk } = event;
      const ended = { state: "FAILED" as const, disconnectedAt: at, disconnectReason: code };
      change(entry, { userAgent, ipAddress, sdk, lastSeenAt: at, ...ended });
      addEvent(entry, "connection_failed", "server", at, { code });
      addError(entry, tenant, roomId, failure, message);
    }
    schedule();
  }

  /** Whether a client may open one more connection by telemetry. A token that can never join has no connection. */
  function mayOpen({ tokenId, permissions }: RtcTokenCaller): boolean {
    if (!permissions.join) return false;
    const count = openedByToken.get(tokenId) ?? 0;
    if (count >= MAX_OPENED_PER_TOKEN) return false;
    openedByToken.set(tokenId, count + 1);
    if (openedByToken.size > MAX_COUNTED_TOKENS) {
      for (const oldest of openedByToken.keys()) return openedByToken.delete(oldest);
    }
    return true;
  }

  return {
    /** Records what a client reports about its connection; the server may not have seen that connection yet. */
    report(caller: RtcTokenCaller, { connectionId, type, at, data }: ClientEvent): void {
      const { projectId, environment, roomId, participantIdentity: identity } = caller;
      const tenant = { projectId, environment };
      const known =
        byClient.get(clientKey(tenant, connectionId))?.row ?? stores.connections.findByClient(tenant, connectionId)[0];
      if (known && (known.participantIdentity !== identity || known.roomId !== roomId)) {
        throw new ApiError("SVC_PERMISSION_DENIED", "This is another participant's connection.");
      }
      if (!known && !mayOpen(caller)) return;
      const entry = entryOf(tenant, { connectionId, roomId, identity }, now());
      addEvent(entry, type, "client", at, data);
      const code = typeof data?.code === "string" ? data.code.slice(0, 64) : type.toUpperCase();
      const failure: Failure = { source: "client", code };
      const report = (content: ClientReport) => bus.emit("rtcReported", { roomId, connectionId, identity, ...content });
      if (type === "error") {
        if (classify(failure).category === "CLIENT_ERROR") addError(entry, tenant, roomId, failure);
        else addErrorOnce(entry, tenant, roomId, failure);
        if (isDeviceError(code)) report({ deviceError: code });
      }
      if (type === "participant_connection_quality_changed") {
        const limitation = limitationOf(data);
        if (limitation) report({ limitation });
        const missingKeysOf = missingKeysIn(data);
        if (missingKeysOf) report({ missingKeysOf });
      }
      if (type === "connection_failed" && entry.row.connectedAt === null && entry.row.disconnectedAt === null) {
        change(entry, { state: "FAILED", disconnectedAt: now(), disconnectReason: code, lastSeenAt: now() });
        addErrorOnce(entry, tenant, roomId, failure);
      }
      schedule();
    },

    /** The session of a connection that is in its room; null otherwise. */
    sessionOf(row: ConnectionRow): string | null {
      const entry = byClient.get(clientKey(row, row.connectionId));
      return entry?.row.id === row.id && entry.present ? entry.sessionId : null;
    },

    /** Closes the connections that a crash left open, before anything new is written. */
    recover: () => write((unit) => stores.connections.closeAbandoned(unit)),

    flush,
    inMemory: () => entries.size,

    /** Removes a user from memory, so that no later flush writes the user's connections again. */
    forgetUser(tenant: Tenant, identity: string): void {
      const ofUser = [...entries.values()].filter(
        ({ row }) => row.participantIdentity === identity && sameTenant(row, tenant),
      );
      remove(new Set(ofUser.map(({ row }) => row.id)));
    },
  };
}

/** The limitation of a client's encoder and its duration, as the client reports it. */
function limitationOf({
  limitation: reason,
  seconds,
}: Record<string, unknown> = {}): ClientReport["limitation"] | null {
  if (reason !== "cpu" && reason !== "bandwidth") return null;
  return {
    reason,
    seconds: typeof seconds === "number" && seconds > 0 ? Math.min(seconds, MAX_LIMITATION_SECONDS) : 0,
  };
}

/** The participants whose encrypted tracks a client cannot decrypt now, as it reports them; empty once it can. */
function missingKeysIn({ missingKeysOf }: Record<string, unknown> = {}): string[] | null {
  if (!Array.isArray(missingKeysOf) || missingKeysOf.length > MAX_MISSING_KEYS) return null;
  const isIdentity = (value: unknown): value is string => typeof value === "string" && IDENTITY.test(value);
  return missingKeysOf.every(isIdentity) ? missingKeysOf : null;
}

function clientKey({ projectId, environment }: Tenant, connectionId: string): string {
  return `${projectId}\n${environment}\n${connectionId}`;
}
