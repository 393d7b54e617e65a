import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { iso } from "../../../kernel/time/clock.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { FlightDump } from "../../../protocol/media/flight.ts";
import type { MediaNode } from "../../../protocol/media-node.ts";
import type { ConnectionRow } from "./connection.store.ts";
import type { ConnectionRecorder } from "./connection-recorder.ts";
import { type FlightRecordEntry, flightRecordStore } from "./flight-record.store.ts";

const KEPT_PER_CONNECTION = 5;
/** When many connections fail at the same moment, the flight records of a few of them explain it. */
const MAX_UNDER_WAY = 20;
/** One failure often causes two errors. */
const SAME_FAILURE_MS = 30_000;
const FASTEST = { level: 1 };

const compress = promisify(gzip);
const decompress = promisify(gunzip);

export type FlightRecordDeps = {
  recorder: ConnectionRecorder;
  find: (tenant: Tenant, reference: string) => ConnectionRow;
  findNode: (name: string) => Pick<MediaNode, "flight"> | null | undefined;
};

export type FlightRecords = ReturnType<typeof createFlightRecords>;

/** Keeps the flight records of connections, after an error or on request. */
export function createFlightRecords(runtime: Runtime, { recorder, find, findNode }: FlightRecordDeps) {
  const { bus, db, ids, log, now, write } = runtime;
  const store = flightRecordStore(db);
  const takenAt = new Map<string, number>();
  let underWay = 0;

  type Subject = { connection: string; serverName: string | null; roomId: string | null; sessionId: string };

  /** Null when the participant is not on its node, or no longer. */
  async function take(
    { connection, serverName, roomId, sessionId }: Subject,
    reason: string,
  ): Promise<FlightRecordEntry | null> {
    const node = serverName === null ? null : findNode(serverName);
    if (!node || roomId === null) return null;
    // The request is sent at once, because a participant that leaves is removed right after this.
    const dump = await node.flight({ roomId, participantId: sessionId });
    if (!dump) return null;
    const body = await compress(JSON.stringify(dump), FASTEST);
    // The connection is written in batches, and the flight record needs its row.
    await recorder.flush();
    const entry = { id: ids.uuid(), connection, reason, takenAt: now() };
    await write((unit) => store.add(unit, { ...entry, dump: body }, KEPT_PER_CONNECTION));
    return { ...entry, bytes: body.length };
  }

  bus.on("connectionError", ({ code, ...subject }) => {
    const before = takenAt.get(subject.connection);
    if (underWay >= MAX_UNDER_WAY || (before !== undefined && now() - before < SAME_FAILURE_MS)) return;
    for (const [connection, at] of takenAt) if (now() - at >= SAME_FAILURE_MS) takenAt.delete(connection);
    takenAt.set(subject.connection, now());
    underWay += 1;
    take(subject, code)
      .catch((err) => log.warn({ err, connection: subject.connection }, "sessions: flight record not saved"))
      .finally(() => {
        underWay -= 1;
      });
  });

  const present = ({ id, reason, takenAt: at, bytes }: FlightRecordEntry, { connectionId }: ConnectionRow) => ({
    id,
    connectionId,
    reason,
    takenAt: iso(at),
    bytes,
  });

  return {
    /** Only a connection that is in its room has a flight record to keep. */
    async dump(tenant: Tenant, reference: string) {
      const row = find(tenant, reference);
      const { id: connection, serverName, roomId } = row;
      const sessionId = recorder.sessionOf(row);
      const taken = sessionId === null ? null : await take({ connection, serverName, roomId, sessionId }, "asked");
      if (!taken) throw new ApiError("SVC_CONFLICT", "The connection is over, or its media server does not have it.");
      return present(taken, row);
    },

    list(tenant: Tenant, reference: string) {
      const row = find(tenant, reference);
      return store.ofConnection(row.id).map((entry) => present(entry, row));
    },

    async read(tenant: Tenant, reference: string, id: string): Promise<FlightDump> {
      const found = store.find(find(tenant, reference).id, id);
      if (!found) throw new ApiError("SVC_DUMP_NOT_FOUND");
      return JSON.parse((await decompress(found.dump)).toString()) as FlightDump;
    },
  };
}
