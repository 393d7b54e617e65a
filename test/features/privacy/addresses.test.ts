import { afterAll, expect, test } from "bun:test";
import { changing } from "../../../src/kernel/db/statements.ts";
import { rtcServer, settled } from "../../harness/rtc.ts";

const DAY_MS = 86_400_000;
const [OLD, NEW] = ["198.51.100.7", "203.0.113.9"];

const server = await rtcServer({ IP_RETENTION_DAYS: 7 });
afterAll(server.close);
const { clock, key, node, runtime, services } = server;
const { $client: client } = runtime.db;

/** A participant in a room from an address, on the socket of chat too. */
async function visit(identity: string, address: string): Promise<void> {
  const alive = { activeRooms: 0, activeParticipants: 0 };
  await runtime.write((unit) => services.fleet.beat(unit, "n1", alive));
  const roomId = await server.room();
  const { token } = await server.mint(roomId, identity);
  await server.connect(token, { ipAddress: address }).join({ connectionId: `${identity}-1` });
  const participantId = node.peers().find((peer) => peer.identity === identity)?.participantId ?? "";
  const path = { transport: "udp", remoteAddress: address, connectMs: 20 } as const;
  node.emit({ roomId, participantId, identity, type: "participantConnected", ...path });
  await settled();
  const chat = changing(
    client,
    `INSERT INTO chat_connections (id, project_id, environment, user_id, ip_address, connected_at)
       VALUES (?, ?, 'DEVELOPMENT', ?, ?, ?)`,
  );
  await runtime.write((unit) => chat.run(unit, `chat-${identity}`, server.projectId, identity, address, clock.now()));
  await services.rtcSessions.recorder.flush();
}

/** The text columns of all tables that contain the address. */
function columnsWith(address: string): string[] {
  const tables = client.query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  return tables.flatMap(({ name }) => {
    const rows = client.query<Record<string, unknown>, []>(`SELECT * FROM "${name}"`).all();
    const found = rows.flatMap((row) => Object.keys(row).filter((column) => String(row[column]).includes(address)));
    return [...new Set(found)].map((column) => `${name}.${column}`);
  });
}

test("[19] addresses are removed from connections after their retention; newer ones stay", async () => {
  await visit("ada", OLD);
  const held = columnsWith(OLD);
  expect(held).toEqual(
    expect.arrayContaining(["rtc_connections.ip_address", "chat_connections.ip_address", "rtc_connection_events.data"]),
  );
  clock.advance(8 * DAY_MS);
  await visit("bob", NEW);
  await services.privacy.removeOldAddresses();
  expect(columnsWith(OLD)).toEqual([]);
  expect(columnsWith(NEW).toSorted()).toEqual(held.toSorted());
  const { text } = await server.call("GET", "/v1/connections", { key });
  const shown = JSON.parse(text) as { participantIdentity: string; ipAddress: string | null }[];
  const addressOf = (identity: string) => shown.find((one) => one.participantIdentity === identity)?.ipAddress;
  expect([addressOf("ada"), addressOf("bob")]).toEqual([null, NEW]);
});
