import type { RtcTokenCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { ConnectionEventType } from "../../protocol/observability.ts";
import { classify, isDeviceError, type Mishap } from "./classify.ts";
import type { RtcConnectionEvent, RtcRefusedEvent } from "./events.ts";
import { createOpenedByClients } from "./opened-by-clients.ts";
import type { ConnectionStore } from "./store/connection.store.ts";
import type { ConnectionEventRow, ConnectionRow } from "./store/connection.table.ts";
import type { ErrorStore } from "./store/error.store.ts";
import type { ClassifiedErrorRow } from "./store/error.table.ts";
import { newConnection, type Owner, tellStory } from "./story.ts";

const FLUSH_MS = 200;
/** A client that reports without end fills its own timeline only so far. */
const MAX_EVENTS_PER_CONNECTION = 2_000;
/** Records of those who are in no room stay in memory for late telemetry; of the oldest past this many it asks the database. */
const REMEMBERED = 1_000;
/** While the disk takes nothing they wait to be written; past this many the oldest go all the same. */
const WAITING = 20_000;
/** A client tells every few seconds; more than this at once is made up. */
const LONGEST_LIMITATION_S = 60;

/** `present`: in a room as far as the server knows. A client alone can open a record, and need never come. */
type Entry = {
  row: ConnectionRow;
  events: number;
  dirty: boolean;
  blamed: boolean;
  present: boolean;
  /** Of its last join; null for what only a client tells of. */
  sessionId: string | null;
};

const UNHEARD_OF = { events: 0, blamed: false, present: false, sessionId: null };

type ClientEvent = {
  connectionId: string;
  type: ConnectionEventType;
  at: number;
  data?: Record<string, unknown>;
};

export type Recorder = ReturnType<typeof createRecorder>;

/**
 * Writes down what happens to connections. It listens, keeps the open records in memory, and hands what has changed to
 * the database in batches: nothing on the media or signaling path waits for it.
 */
export function createRecorder(runtime: Runtime, stores: { connections: ConnectionStore; errors: ErrorStore }) {
  const { bus, ids, now, timers, write, log } = runtime;
  const entries = new Map<string, Entry>();
  /** The latest of each client's name, whoever used it. */
  const byClient = new Map<string, Entry>();
  const openedByClients = createOpenedByClients();
  let events: Omit<ConnectionEventRow, "id">[] = [];
  let mishaps: ClassifiedErrorRow[] = [];
  let scheduled = false;
  let flushing: Promise<void> = Promise.resolve();

  bus.on("rtcConnection", (fact) => connectionFact(fact));
  bus.on("rtcRefused", (fact) => refused(fact));
  bus.on("calm", () => forget(0));

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    timers.after(FLUSH_MS, () => void flush().catch((err) => log.error({ err }, "connections were not recorded")));
  }

  /** Resolves when everything heard so far is written, by this flush or by one under way. */
  function flush(): Promise<void> {
    scheduled = false;
    flushing = flushing.catch(() => {}).then(writeDown);
    return flushing;
  }

  async function writeDown(): Promise<void> {
    const rows = [...entries.values()].filter(({ dirty }) => dirty);
    for (const entry of rows) entry.dirty = false;
    const [newEvents, newErrors] = [events, mishaps];
    events = [];
    mishaps = [];
    if (rows.length + newEvents.length + newErrors.length > 0) {
      const written = write((unit) => {
        for (const { row } of rows) stores.connections.save(unit, row);
        stores.connections.addEvents(unit, newEvents);
        for (const error of newErrors) stores.errors.insert(unit, error);
      });
      await written.catch((error) => {
        // Their later events would name rows that are not there, and take the batches of everyone else with them.
        for (const entry of rows) entry.dirty = true;
        giveUp();
        throw error;
      });
    }
    forget();
  }

  function forget(remembered = REMEMBERED): void {
    let over = entries.values().reduce((absent, { present }) => absent + (present ? 0 : 1), -remembered);
    for (const [key, entry] of entries) {
      if (over <= 0) return;
      if (entry.present || entry.dirty) continue;
      if (entries.delete(key)) over--;
      const name = clientKey(entry.row, entry.row.connectionId);
      if (byClient.get(name) === entry) byClient.delete(name);
    }
  }

  function giveUp(): void {
    const gone = new Set<string>();
    for (const { row, present } of entries.values()) {
      if (entries.size - gone.size <= WAITING) break;
      if (!present) gone.add(row.id);
    }
    if (gone.size > 0) remove(gone);
  }

  /** With what was still to be written of them: it would name records that are not there. */
  function remove(gone: ReadonlySet<string>): void {
    for (const [key, { row }] of entries) {
      if (!gone.has(row.id)) continue;
      entries.delete(key);
      byClient.delete(clientKey(row, row.connectionId));
    }
    events = events.filter(({ connection }) => !gone.has(connection));
    mishaps = mishaps.filter(({ connection }) => connection === null || !gone.has(connection));
  }

  function entryOf(tenant: Tenant, owner: Owner, make: () => ConnectionRow): Entry {
    const key = [clientKey(tenant, owner.connectionId), owner.roomId, owner.identity].join("\n");
    const known = entries.get(key);
    if (known) return known;
    const stored = stores.connections
      .findByClient(tenant, owner.connectionId)
      .find((row) => row.roomId === owner.roomId && row.participantIdentity === owner.identity);
    const entry: Entry = { ...UNHEARD_OF, row: stored ?? make(), dirty: stored === undefined };
    entries.set(key, entry);
    byClient.set(clientKey(tenant, owner.connectionId), entry);
    return entry;
  }

  function blame(
    { row, sessionId = null }: Entry | { row: null; sessionId?: null },
    tenant: Tenant,
    roomId: string | null,
    mishap: Mishap,
    text?: string,
  ) {
    const { category, code, likelyCause } = classify(mishap);
    mishaps.push({
      id: ids.uuid(),
      projectId: tenant.projectId,
      environment: tenant.environment,
      category,
      code,
      message: text ?? likelyCause,
      connection: row?.id ?? null,
      roomId,
      occurredAt: now(),
    });
    if (row === null || sessionId === null) return;
    bus.emit("rtcBlamed", { connection: row.id, roomId, sessionId, serverName: row.serverName, code });
  }

  /** A camera that fails is one more mishap; that media does not get through is told once, by whoever saw it first. */
  function reproach(entry: Entry, tenant: Tenant, roomId: string, mishap: Mishap): void {
    const ofTheDevice = classify(mishap).category === "CLIENT_ERROR";
    if (entry.blamed && !ofTheDevice) return;
    blame(entry, tenant, roomId, mishap);
    if (!ofTheDevice) entry.blamed = true;
  }

  function connectionFact(fact: RtcConnectionEvent): void {
    const { projectId, environment, connectionId, roomId } = fact;
    const tenant = { projectId, environment };
    const owner = { connectionId, roomId, identity: fact.participantIdentity };
    const entry = entryOf(tenant, owner, () => newConnection(ids.uuid(), tenant, owner, fact.startedAt));
    if (entry.events === 0 && fact.type === "started") {
      add(entry, "connection_started", "server", fact.startedAt, { sdk: fact.sdk });
    }
    const { change, entries: timeline, mishap } = tellStory(entry.row, fact);
    const { roomName, sdk, userAgent, ipAddress } = fact;
    // A room whose node is lost has none any more: the record keeps the one that is to blame.
    const serverName = fact.serverName ?? entry.row.serverName;
    entry.row = { ...entry.row, roomName, serverName, sdk, userAgent, ipAddress, ...change };
    entry.dirty = true;
    entry.present = fact.type !== "left";
    entry.sessionId = fact.sessionId;
    for (const { type, data } of timeline) add(entry, type, "server", fact.at, data);
    if (fact.type === "connected" || fact.type === "reconnected") entry.blamed = false;
    if (mishap && !entry.blamed) {
      entry.blamed = true;
      blame(entry, tenant, roomId, mishap);
    }
    schedule();
  }

  /** Whoever cannot be told apart belongs to no project, and no project is told of them. */
  function refused(fact: RtcRefusedEvent): void {
    const { projectId, environment, roomId, code, message, participantIdentity, connectionId } = fact;
    if (projectId === null || environment === null) return;
    const tenant = { projectId, environment };
    const mishap: Mishap = { source: "refused", code };
    if (connectionId === null || participantIdentity === null) blame({ row: null }, tenant, roomId, mishap, message);
    else {
      const owner = { connectionId, roomId, identity: participantIdentity };
      const entry = entryOf(tenant, owner, () => newConnection(ids.uuid(), tenant, owner, fact.startedAt));
      const { at, userAgent, ipAddress, sdk } = fact;
      const ended = { state: "FAILED" as const, disconnectedAt: at, disconnectReason: code };
      entry.row = { ...entry.row, userAgent, ipAddress, sdk, lastSeenAt: at, ...ended };
      entry.dirty = true;
      add(entry, "connection_failed", "server", at, { code });
      blame(entry, tenant, roomId, mishap, message);
    }
    schedule();
  }

  function add(
    entry: Entry,
    type: ConnectionEventType,
    source: "server" | "client",
    at: number,
    data: Record<string, unknown> | undefined,
  ): void {
    if (entry.events >= MAX_EVENTS_PER_CONNECTION) return;
    entry.events += 1;
    events.push({ connection: entry.row.id, type, source, at, data: data ?? null });
  }

  return {
    /** What a client tells of its own connection; one that the server has not seen yet opens the record. */
    report(caller: RtcTokenCaller, event: ClientEvent): void {
      const { projectId, environment, roomId, participantIdentity: identity } = caller;
      const tenant = { projectId, environment };
      const { connectionId, type, at, data } = event;
      const owner =
        byClient.get(clientKey(tenant, connectionId))?.row ?? stores.connections.findByClient(tenant, connectionId)[0];
      if (owner && (owner.participantIdentity !== identity || owner.roomId !== roomId)) {
        throw new ApiError("SVC_PERMISSION_DENIED", "This is another participant's connection.");
      }
      if (!owner && !openedByClients.take(caller)) return;
      const entry = entryOf(tenant, { connectionId, roomId, identity }, () =>
        newConnection(ids.uuid(), tenant, { connectionId, roomId, identity }, now()),
      );
      add(entry, type, "client", at, data);
      const code = typeof data?.code === "string" ? data.code.slice(0, 64) : type.toUpperCase();
      if (type === "error") reproach(entry, tenant, roomId, { source: "client", code });
      const said = { roomId, connectionId, identity };
      if (type === "error" && isDeviceError(code)) bus.emit("rtcReported", { ...said, deviceError: code });
      const limitation = type === "participant_connection_quality_changed" ? limitationOf(data) : null;
      if (limitation) bus.emit("rtcReported", { ...said, limitation });
      if (type === "connection_failed" && entry.row.connectedAt === null && entry.row.disconnectedAt === null) {
        entry.row = { ...entry.row, state: "FAILED", disconnectedAt: now(), disconnectReason: code, lastSeenAt: now() };
        entry.dirty = true;
        if (!entry.blamed) blame(entry, tenant, roomId, { source: "client", code });
        entry.blamed = true;
      }
      schedule();
    },

    /** The session by which a connection is in its room; null when it is not. */
    sessionOf(row: ConnectionRow): string | null {
      const entry = byClient.get(clientKey(row, row.connectionId));
      return entry?.row.id === row.id && entry.present ? entry.sessionId : null;
    },

    /** After a crash: what was open is closed before anything new is written. */
    recover: () => write((unit) => stores.connections.closeAbandoned(unit)),

    flush,
    remembered: () => entries.size,

    /** What is in memory of somebody goes, so that nothing brings their record back. */
    forgetUser({ projectId, environment }: Tenant, identity: string): void {
      const theirs = [...entries.values()].filter(
        ({ row }) =>
          row.participantIdentity === identity && row.projectId === projectId && row.environment === environment,
      );
      remove(new Set(theirs.map(({ row }) => row.id)));
    },
  };
}

/** What the encoder of a client says it is held back by, and for how long. */
function limitationOf(data: Record<string, unknown> = {}): { reason: "cpu" | "bandwidth"; seconds: number } | null {
  const { limitation: reason, seconds } = data;
  if (reason !== "cpu" && reason !== "bandwidth") return null;
  return { reason, seconds: typeof seconds === "number" && seconds > 0 ? Math.min(seconds, LONGEST_LIMITATION_S) : 0 };
}

function clientKey({ projectId, environment }: Tenant, connectionId: string): string {
  return `${projectId}\n${environment}\n${connectionId}`;
}
