import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { TurnRefused } from "../../../src/network/turn/client.ts";
import type { IceServer } from "../../../src/protocol/room-records.ts";
import { createTestAccounts } from "../../harness/accounts.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { makeCertificate } from "../../ops/certificate.ts";
import { freePorts } from "../acme/pebble.ts";
import { closed, secured, turnAs, until } from "./stage.ts";

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
    // Each costs as much as a password does.
    RATE_LIMIT_AUTH_LOGIN: 2,
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

test("[22] a minted token comes with this server's relay and credentials for it", async () => {
  const { own, tokenId } = await minted();
  expect(own.urls).toEqual([`turns:localhost:${edgePort}?transport=tcp`]);
  expect(own.username).toEndWith(`:${tokenId}`);
});

/** The number of relays that the TLS thread counts. */
async function relaysInUse(): Promise<number> {
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  return Number(/^stoa_turn_allocations (\d+)$/m.exec(metrics)?.[1]);
}

test("[22] revoking a token closes its relay connection and refuses new ones", async () => {
  const { own, roomId, tokenId } = await minted();
  const { client, socket } = await turnAs(edgePort, own);
  await client.allocate();
  expect(await relaysInUse()).toBe(1);
  const gone = closed(socket);
  expect((await server.call("DELETE", `/v1/rooms/${roomId}/rtc-tokens/${tokenId}`)).status).toBe(204);
  await gone;
  await until(async () => (await relaysInUse()) === 0);
  const again = await turnAs(edgePort, own);
  await expect(again.client.allocate()).rejects.toEqual(new TurnRefused(401));
  again.socket.destroy();
});

test("[22] the metrics of the TLS port are exported, with refusals by code", async () => {
  const { own } = await minted();
  const { client, socket } = await turnAs(edgePort, own);
  await client.allocate();
  await expect(client.permit({ address: "169.254.169.254", port: 80 })).rejects.toEqual(new TurnRefused(403));
  // Scrapes that follow each other closely are given the same figures.
  await until(async () => (await relaysInUse()) === 1);
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  const figure = (name: string) => {
    const line = metrics.split("\n").find((candidate) => candidate.startsWith(`stoa_${name} `));
    return line === undefined ? `${name} is missing` : Number(line.split(" ")[1]);
  };
  expect(figure('turn_refusals_total{code="403"}')).toBe(1);
  // A first request without credentials gets its nonce with this refusal.
  expect(figure('turn_refusals_total{code="401"}')).toBeGreaterThan(0);
  for (const name of ["edge_handshakes_total", "edge_turn_connections", "turn_allocations_total"]) {
    expect(figure(name)).toBeGreaterThanOrEqual(1);
  }
  for (const name of ["in_bytes_total", "out_bytes_total", "dropped_packets_total"]) {
    expect(figure(`turn_${name}`)).toBe(0);
  }
  for (const name of ["http_connections", "waiting_connections", "refused_connections_total"]) {
    expect(figure(`edge_${name}`)).toBeGreaterThanOrEqual(0);
  }
  expect(figure("edge_late_connections_total")).toBeGreaterThanOrEqual(0);
  socket.destroy();
  await until(async () => (await relaysInUse()) === 0);
});

type Joined = { socket: WebSocket; roomId: string; tokenId: string };

const ENDS: Record<string, (joined: Joined) => unknown> = {
  "it leaves": ({ socket }) => socket.send(JSON.stringify({ type: "room.leave", id: "2" })),
  "it is removed": ({ roomId }) => server.call("DELETE", `/v1/rooms/${roomId}/participants/alice`),
  "its token is revoked": ({ roomId, tokenId }) => server.call("DELETE", `/v1/rooms/${roomId}/rtc-tokens/${tokenId}`),
  "its room is closed": ({ roomId }) => server.call("DELETE", `/v1/rooms/${roomId}`),
};

test.each(Object.entries(ENDS))("[22] a session's relay ends when %s, and a new one is refused", async (_when, end) => {
  const { token, roomId, tokenId } = await minted();
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
  const line = await turnAs(edgePort, own ?? {});
  await line.client.allocate();
  const gone = closed(line.socket);
  await end({ socket, roomId, tokenId });
  await gone;
  await until(async () => (await relaysInUse()) === 0);
  const again = await turnAs(edgePort, own ?? {});
  await expect(again.client.allocate()).rejects.toEqual(new TurnRefused(401));
  again.socket.destroy();
  socket.close();
});

type Asked = { path: string; token?: string; body: object };

/** Sends a POST from this local address; returns the status of the response. */
async function postedFrom(localAddress: string, { path, token, body }: Asked): Promise<number> {
  const json = JSON.stringify(body);
  const options = { host: "127.0.0.1", port: edgePort, localAddress, rejectUnauthorized: false };
  const socket = connect(options, () => {
    const signedIn = token === undefined ? "" : `authorization: Bearer ${token}\r\n`;
    const head = `POST ${path} HTTP/1.1\r\nhost: localhost:${edgePort}\r\nconnection: close\r\n${signedIn}`;
    socket.write(`${head}content-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n${json}`);
  });
  let text = "";
  socket.on("data", (data: Buffer) => {
    text += data.toString();
  });
  await closed(socket);
  return Number(text.split(" ")[1]);
}

test("[22] behind TLS, rate limits and the audit log use the client's own address", async () => {
  const people = createTestAccounts(server.runtime, server.services);
  const { token, projectId } = await people.session({ role: "OWNER" });
  const key = { path: `/v1/projects/${projectId}/api-keys`, token, body: { name: "backend" } };
  expect(await postedFrom("127.0.0.9", key)).toBe(201);
  const [entry] = server.services.audit.list(projectId, {}, "~", 1);
  expect(entry).toMatchObject({ action: "api_key.created", ipAddress: "127.0.0.9" });

  const login = { path: "/v1/auth/login", body: { email: "nobody@example.com", password: "a wrong password" } };
  const budget = server.runtime.config.RATE_LIMIT_AUTH_LOGIN;
  for (let count = 0; count < budget; count++) expect(await postedFrom("127.0.0.8", login)).toBe(401);
  expect(await postedFrom("127.0.0.8", login)).toBe(429);
  expect(await postedFrom("127.0.0.7", login)).toBe(401);
});

test("[22] an upgrade request to a path without a WebSocket is answered and its connection closed", async () => {
  const socket = await secured(edgePort);
  const asked = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n";
  socket.write(`${asked}sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
  let text = "";
  socket.on("data", (data: Buffer) => {
    text += data.toString();
  });
  await closed(socket);
  expect(text).toStartWith("HTTP/1.1 200");
  expect(text).toContain('"status":"ok"');
});
