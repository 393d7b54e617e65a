import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type RealServer, realServer } from "../../harness/real-server.ts";

let server: RealServer;
beforeAll(async () => {
  server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1_000 });
}, 30_000);
afterAll(() => server.close());

type Frame = { type: string; code?: string; [field: string]: unknown };
type WsOptions = { path?: string; protocols?: string[]; headers?: Record<string, string> };

function open({ path = "/v1/rtc", protocols, headers }: WsOptions, url = server.url) {
  const socket = new WebSocket(`${url.replace("http", "ws")}${path}`, { protocols, headers } as unknown as string[]);
  const frames: Frame[] = [];
  const waiting: (() => void)[] = [];
  socket.onmessage = ({ data }) => {
    frames.push(JSON.parse(String(data)));
    for (const wake of waiting.splice(0)) wake();
  };
  return {
    socket,
    frames,
    opened: new Promise((resolve) => socket.addEventListener("open", resolve)),
    closed: new Promise<{ code: number; reason: string }>((resolve) =>
      socket.addEventListener("close", ({ code, reason }) => resolve({ code, reason })),
    ),
    async next(type: string): Promise<Frame> {
      while (true) {
        const found = frames.find((frame) => frame.type === type);
        if (found) return found;
        await new Promise<void>((wake) => waiting.push(wake));
      }
    },
  };
}

async function joined(url = server.url) {
  const { token } = await server.mint(await server.room(), "ada");
  const client = open({ path: `/v1/rtc?token=${token}` }, url);
  await client.opened;
  client.socket.send(JSON.stringify({ type: "room.join", id: "1", connectionId: "c" }));
  await client.next("ack");
  return client;
}

describe("[signaling] GET /v1/rtc on the wire", () => {
  test("takes the token from the query, a subprotocol or the header", async () => {
    const roomId = await server.room();
    const { token } = await server.mint(roomId, "ada");
    for (const [options, protocol] of [
      [{ path: `/v1/rtc?token=${token}` }, ""],
      [{ protocols: [`token.${token}`] }, `token.${token}`],
      [{ protocols: ["stoa", `token.${token}`] }, "stoa"],
      [{ headers: { authorization: `Bearer ${token}` } }, ""],
    ] as const) {
      const client = open(options as WsOptions);
      await client.opened;
      expect(client.socket.protocol).toBe(protocol);
      client.socket.send(JSON.stringify({ type: "room.join", id: "1", connectionId: "c" }));
      expect(await client.next("ack")).toMatchObject({ serverName: "local", participant: { identity: "ada" } });
      client.socket.close();
      await client.closed;
    }
  });

  test("is accepted with an invalid token, gets an error and is closed with its code", async () => {
    const client = open({ path: "/v1/rtc?token=nonsense" });
    expect(await client.next("error")).toMatchObject({ code: "AUTH_ERROR" });
    expect(await client.closed).toEqual({ code: 4401, reason: "AUTH_ERROR" });
  });

  test("a frame over 16,384 bytes is answered and closes 4413, and a huge one is closed by the runtime", async () => {
    const client = await joined();
    client.socket.send("x".repeat(16_385));
    expect((await client.next("error")).code).toBe("PAYLOAD_TOO_LARGE");
    expect((await client.closed).code).toBe(4413);
    const flood = await joined();
    flood.socket.send("x".repeat(1024 * 1024 + 1));
    expect((await flood.closed).code).not.toBe(1000);
  });

  test("binary frames and numbers are malformed, not parsed as something else", async () => {
    const client = await joined();
    client.socket.send(new Uint8Array([1, 2, 3]));
    client.socket.send("123");
    client.socket.send("true");
    expect((await client.closed).code).toBe(4400);
    expect(client.frames.filter(({ code }) => code === "INVALID_MESSAGE")).toHaveLength(3);
  });

  test("plain HTTP is answered with a request for a WebSocket", async () => {
    const response = await fetch(`${server.url}/v1/rtc`);
    expect([response.status, ((await response.json()) as Frame).code]).toEqual([400, "SVC_VALIDATION_FAILED"]);
  });
});

test("[4.2] the embedded node has registered over HTTP with real figures", async () => {
  const row = server.services.fleet.find("local");
  expect(server.services.fleet.present(row)).toMatchObject({
    name: "local",
    status: "HEALTHY",
    internalUrl: server.url,
    publicHost: "127.0.0.1",
    activeRooms: expect.any(Number),
    memoryPercent: expect.any(Number),
    networkInBps: expect.any(Number),
  });
  expect(row.memoryPercent).toBeGreaterThan(0);
});

test("[11] stopping closes all sockets with 4500, including those that have not joined", async () => {
  const second = await realServer();
  const roomId = await second.room();
  const { token } = await second.mint(roomId, "ada");
  const client = open({ path: `/v1/rtc?token=${token}` }, second.url);
  await client.opened;
  client.socket.send(JSON.stringify({ type: "room.join", id: "1", connectionId: "c" }));
  await client.next("ack");
  const silent = open({ path: `/v1/rtc?token=${token}` }, second.url);
  await silent.opened;
  await second.close();
  expect(await client.next("bye")).toMatchObject({ reason: "restart", action: "rejoin" });
  expect((await client.closed).code).toBe(4500);
  expect((await silent.closed).code).toBe(4500);
}, 30_000);
