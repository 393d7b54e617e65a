import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { turnTarget, withTurn } from "../../src/doctor/turn-client.ts";
import type { IceServer } from "../../src/protocol/room-records.ts";
import { freePorts } from "../acme/pebble.ts";
import { type RealServer, realServer } from "../harness/running.ts";
import { makeCertificate } from "../ops/certificate.ts";
import { until } from "./stage.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-front-"));
let server: RealServer;
let edgePort: number;

beforeAll(async () => {
  const files = await makeCertificate(folder, "localhost");
  [edgePort = 0] = await freePorts(1);
  server = await realServer({
    TLS_CERT: files.cert,
    TLS_KEY: files.key,
    EDGE_PORT: edgePort,
    PUBLIC_URL: `https://localhost:${edgePort}`,
    TRUSTED_PROXIES: ["127.0.0.1/32"],
  });
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
});

afterAll(async () => {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function minted(): Promise<{ roomId: string; tokenId: string; token: string; own: IceServer }> {
  const roomId = await server.room();
  const { body } = await server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, { participantIdentity: "alice" });
  const { tokenId, token, iceServers } = body as unknown as { tokenId: string; token: string; iceServers: IceServer[] };
  const [own] = iceServers;
  if (!own) throw new Error("no relay is named");
  return { roomId, tokenId, token, own };
}

test("[22] https at EDGE_PORT and plain HTTP behind it serve the same API", async () => {
  const through = await fetch(`https://localhost:${edgePort}/readyz`, { tls: { rejectUnauthorized: false } });
  expect(through.status).toBe(200);
  expect(server.url).toStartWith("http://127.0.0.1:");
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
});

test("[22] a mint names the relay of this server, with credentials for the token", async () => {
  const { own, tokenId } = await minted();
  expect(own.urls).toEqual([`turns:localhost:${edgePort}?transport=tcp`]);
  expect(own.username).toEndWith(`:${tokenId}`);
});

test("[22] revoking the token ends its relay within two seconds, and refuses it from then on", async () => {
  const { own, roomId, tokenId } = await minted();
  const target = turnTarget([own.urls].flat()[0] ?? "");
  const { username = "", credential = "" } = own;
  let revokedAt = 0;
  const holding = withTurn(target, username, credential, async (client) => {
    await client.allocate();
    await server.call("DELETE", `/v1/rooms/${roomId}/rtc-tokens/${tokenId}`);
    revokedAt = performance.now();
    for (;;) {
      await client.refresh(600);
      await Bun.sleep(10);
    }
  });
  await expect(holding).rejects.toThrow(/closed the connection|refuses|437/);
  expect(performance.now() - revokedAt).toBeLessThan(2_000);
  await expect(withTurn(target, username, credential, (client) => client.allocate())).rejects.toThrow("credentials");
});

test("[22] a session's relay ends when it leaves", async () => {
  const { token } = await minted();
  const socket = new WebSocket(`wss://localhost:${edgePort}/v1/rtc?token=${token}`, {
    tls: { rejectUnauthorized: false },
  } as never);
  const frames: { type: string; sessionId?: string; iceServers?: IceServer[] }[] = [];
  socket.onmessage = ({ data }) => void frames.push(JSON.parse(String(data)));
  await new Promise((resolve) => {
    socket.onopen = resolve;
  });
  socket.send(JSON.stringify({ type: "room.join", id: "1", connectionId: "c1" }));
  await until(() => frames.length > 0);
  const [ack] = frames;
  const own = ack?.iceServers?.[0];
  expect(own?.username).toEndWith(`:${ack?.sessionId}`);
  const target = turnTarget([own?.urls ?? ""].flat()[0] ?? "");
  const holding = withTurn(target, own?.username ?? "", own?.credential ?? "", async (client) => {
    await client.allocate();
    socket.send(JSON.stringify({ type: "room.leave", id: "2" }));
    for (;;) {
      await client.refresh(600);
      await Bun.sleep(10);
    }
  });
  await expect(holding).rejects.toThrow(/closed the connection|refuses|437/);
  socket.close();
});
