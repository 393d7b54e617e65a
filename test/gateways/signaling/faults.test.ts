import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import type { MediaNode } from "../../../src/protocol/media-node.ts";
import { type RtcServer, rtcServer, settled, until } from "../../harness/rtc.ts";

// No test here waits for time, so a busy machine may take longer.
setDefaultTimeout(120_000);

let server: RtcServer;
afterEach(() => server.close());

type Method = "openRoom" | "addParticipant" | "negotiate" | "room";

/** From now on this method of the node is called and never answers. */
function hang(method: Method): { called: Promise<void>; release(): void } {
  const node: MediaNode = server.node;
  const original = node[method];
  const { promise: called, resolve } = Promise.withResolvers<void>();
  node[method] = () => {
    resolve();
    return new Promise<never>(() => {});
  };
  return { called, release: () => void Object.assign(node, { [method]: original }) };
}

test("[signaling] a stuck node counts as unreachable after 10 s", async () => {
  server = await rtcServer();
  const roomId = await server.room();
  const ada = await server.joined(roomId, "ada");
  const { called, release } = hang("negotiate");
  const answer = ada.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] });
  await called;
  server.clock.advance(10_000);
  expect(await answer).toMatchObject({ type: "error", code: "RTC_SERVER_UNREACHABLE" });
  release();
  expect((await ada.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] })).type).toBe("ack");
});

test("[signaling] a join that no node answers is refused with 4503 and leaves no session", async () => {
  server = await rtcServer();
  const roomId = await server.room();
  for (const [method, code] of [
    ["openRoom", "NO_RTC_CAPACITY"],
    ["addParticipant", "RTC_SERVER_UNREACHABLE"],
  ] as const) {
    const { called, release } = hang(method);
    const { token } = await server.mint(roomId, "ada");
    const client = server.connect(token);
    const answer = client.join();
    await called;
    server.clock.advance(10_000);
    expect((await answer).code).toBe(code);
    expect(client.closed?.code).toBe(4503);
    release();
    await settled();
    expect((await server.call("GET", `/v1/rooms/${roomId}`, { key: server.key })).body.serverName).toBeNull();
  }
  expect((await server.joined(roomId, "ada")).ack.mode).toBe("new");
});

test("[4.1] reads of a room on a stuck node answer 503", async () => {
  server = await rtcServer();
  const roomId = await server.room();
  await server.joined(roomId, "ada");
  const { called } = hang("room");
  const reading = server.call("GET", `/v1/rooms/${roomId}/participants`, { key: server.key });
  await called;
  server.clock.advance(10_000);
  expect((await reading).body.code).toBe("SVC_RTC_SERVER_UNREACHABLE");
});

test("[signaling] a client that disconnects while joining is not in the room and replaces no session", async () => {
  server = await rtcServer();
  const roomId = await server.room();
  const healthy = await server.joined(roomId, "ada");
  const other = await server.room();
  const { token } = await server.mint(other, "ben");
  const client = server.connect(token);
  void client.join();
  client.cut();
  await settled();
  await until(() => server.node.peers().length === 1);
  expect(healthy.closed).toBeNull();
  expect((await server.call("GET", `/v1/rooms/${other}`, { key: server.key })).body.serverName).toBeNull();
});

test("[signaling] 2,000 joins and leaves of every kind leave no session, room or timer", async () => {
  server = await rtcServer();
  for (let round = 0; round < 100; round++) {
    const roomId = await server.room();
    const tickets = await Promise.all(Array.from({ length: 20 }, (_, i) => server.mint(roomId, `p${i}`)));
    const clients = tickets.map(({ token }) => server.connect(token));
    await Promise.all(clients.map((client) => client.join()));
    for (const [at, client] of clients.entries()) {
      if (at % 4 === 0) await client.ask("room.leave");
      if (at % 4 === 1) client.cut();
      if (at % 4 === 2) server.node.emit({ type: "speakersChanged", roomId, speakers: [] });
    }
    await server.call("DELETE", `/v1/rooms/${roomId}`, { key: server.key });
  }
  await settled();
  const metrics = await server.runtime.metrics.registry.metrics();
  expect(metrics).toContain("stoa_rtc_sessions 0");
  expect(metrics).toContain("stoa_rtc_rooms 0");
  expect(server.node.peers()).toEqual([]);
  expect(await server.node.rooms()).toEqual([]);
  // Other parts have a timer or two of their own.
  expect(server.clock.pending()).toBeLessThan(10);
}, 60_000);
