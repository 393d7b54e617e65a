import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { iso } from "../../kernel/clock.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { FlightDump } from "../../protocol/media/flight.ts";
import type { MediaNode } from "../../protocol/media-node.ts";
import type { Recorder } from "./recorder.ts";
import type { ConnectionRow } from "./store/connection.table.ts";
import { type FlightEntry, flightStore } from "./store/flight.store.ts";

/** Of one connection. */
const KEPT = 5;
/** When half a town loses its network at once, a few of them tell the story. */
const UNDER_WAY = 20;
/** One mishap is often told of twice. */
const AGAIN_AFTER_MS = 30_000;
const FASTEST = { level: 1 };

const compress = promisify(gzip);
const decompress = promisify(gunzip);

export type FlightDeps = {
  recorder: Recorder;
  find: (tenant: Tenant, reference: string) => ConnectionRow;
  findNode: (name: string) => Pick<MediaNode, "flight"> | null | undefined;
};

/** What the flight recorders held when something went wrong, or when somebody asked. */
export function createFlights({ bus, db, ids, log, now, write }: Runtime, { recorder, find, findNode }: FlightDeps) {
  const store = flightStore(db);
  const takenAt = new Map<string, number>();
  let underWay = 0;

  type Subject = { connection: string; serverName: string | null; roomId: string | null; sessionId: string };

  /** Null when the participant is not, or no longer, on its node. */
  async function take(
    { connection, serverName, roomId, sessionId }: Subject,
    reason: string,
  ): Promise<FlightEntry | null> {
    const node = serverName === null ? null : findNode(serverName);
    if (!node || roomId === null) return null;
    // Asked at once: a participant that leaves is removed right after this.
    const dump = await node.flight({ roomId, participantId: sessionId });
    if (!dump) return null;
    const body = await compress(JSON.stringify(dump), FASTEST);
    // Its record is written in batches, and has to be there first.
    await recorder.flush();
    const entry = { id: ids.uuid(), connection, reason, takenAt: now() };
    await write((unit) => store.add(unit, { ...entry, dump: body }, KEPT));
    return { ...entry, bytes: body.length };
  }

  bus.on("rtcBlamed", ({ code, ...subject }) => {
    const before = takenAt.get(subject.connection);
    if (underWay >= UNDER_WAY || (before !== undefined && now() - before < AGAIN_AFTER_MS)) return;
    for (const [connection, at] of takenAt) if (now() - at >= AGAIN_AFTER_MS) takenAt.delete(connection);
    takenAt.set(subject.connection, now());
    underWay += 1;
    take(subject, code)
      .catch((err) => log.warn({ err, connection: subject.connection }, "flight recorder was not read out"))
      .finally(() => {
        underWay -= 1;
      });
  });

  const show = ({ id, reason, takenAt: at, bytes }: FlightEntry, { connectionId }: ConnectionRow) => ({
    ...{ id, connectionId, reason, takenAt: iso(at), bytes },
  });

  return {
    /** Of a connection that is on. */
    async dump(tenant: Tenant, reference: string) {
      const row = find(tenant, reference);
      const { id: connection, serverName, roomId } = row;
      const sessionId = recorder.sessionOf(row);
      const taken = sessionId === null ? null : await take({ connection, serverName, roomId, sessionId }, "asked");
      if (!taken) throw new ApiError("SVC_CONFLICT", "The connection is over, or its media server does not have it.");
      return show(taken, row);
    },

    list(tenant: Tenant, reference: string) {
      const row = find(tenant, reference);
      return store.ofConnection(row.id).map((entry) => show(entry, row));
    },

    async read(tenant: Tenant, reference: string, id: string): Promise<FlightDump> {
      const found = store.find(find(tenant, reference).id, id);
      if (!found) throw new ApiError("SVC_DUMP_NOT_FOUND");
      return JSON.parse((await decompress(found.dump)).toString()) as FlightDump;
    },
  };
}

export type Flights = ReturnType<typeof createFlights>;
