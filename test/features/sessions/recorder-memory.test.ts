import { afterEach, beforeEach, expect, test } from "bun:test";
import { type TestServer, testServer } from "../../harness/server.ts";
import { CONNECTED, emitConnectionEvent } from "./emit-events.ts";

let server: TestServer;
let projectId: string;
let key: string;
beforeEach(async () => {
  server = testServer();
  ({ projectId, key } = await server.project());
});
afterEach(() => server.close());

const STAYING = 50;
const LEAVING = 1_500;

test("[4.6] memory holds all present connections, and a limited number of ended ones", async () => {
  const { recorder } = server.services.rtcSessions;
  const scene = (connectionId: string) => ({ projectId, connectionId, identity: connectionId });
  for (let n = 0; n < STAYING; n++) emitConnectionEvent(server, scene(`stays-${n}`), { type: "started", mode: "new" });
  for (let n = 0; n < LEAVING; n++) {
    emitConnectionEvent(server, scene(`goes-${n}`), { type: "started", mode: "new" });
    emitConnectionEvent(server, scene(`goes-${n}`), { type: "left", reason: "left" });
  }
  await recorder.flush();
  expect(recorder.inMemory()).toBe(1_000 + STAYING);

  // Both records are written, and later events about them are added to the same records.
  emitConnectionEvent(server, scene("stays-0"), CONNECTED);
  emitConnectionEvent(server, scene("goes-0"), { type: "started", mode: "new" });
  await recorder.flush();
  const states = ["stays-0", "goes-0", "goes-1"].map(async (id) => {
    const { body } = await server.call("GET", `/v1/connections/${id}`, { key });
    const { state, events } = body as { state: string; events: unknown[] };
    return { state, events: events.length };
  });
  expect(await Promise.all(states)).toMatchObject([
    { state: "CONNECTED" },
    { state: "CONNECTING" },
    { state: "DISCONNECTED" },
  ]);
});
