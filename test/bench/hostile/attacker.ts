/** One attacker in a network of its own: every attack at once until its time is over; what it managed goes to stdout. */
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { deflateRawSync } from "node:zlib";
import { SignalRequest, UpdateSubscription } from "@livekit/protocol";
import { SignJWT } from "jose";
import { SignalingClient } from "../../../src/rtc-client/signaling-client.ts";
import { HostileParticipant, PARTICIPANT_ATTACKS } from "../../security/hostile-participant.ts";
import { FRAMING } from "../../security/hostile-stranger.ts";
import type { Attack } from "./attacks.ts";

type Arms = {
  url: string;
  mediaPort: number;
  tlsPort: number;
  livekit: { issuer: string; secret: string };
  seconds: number;
  rtcToken: string;
  idleToken: string;
  /** The participants who receive what it sends in the room. */
  listeners: string[];
  chatToken: string;
  /** The API key of a tenant of its own. */
  apiKey: string;
  account: { email: string; password: string };
  room: string;
  thread: string;
  ownRoom: string;
  only: string[] | null;
};
const arms = JSON.parse(process.argv[2] ?? "{}") as Arms;
const { url, mediaPort, chatToken, room } = arms;
const until = Date.now() + arms.seconds * 1000;
const counts: Record<string, number> = {};
const UPLOAD = "x".repeat(1_048_576);
const HEAVY = `[${"[],".repeat(349_524)}[]]`;
/** To the port of the media, and to that of the server. */
const IDLE_CONNECTIONS = { media: 2_000, server: 300 };

const request = (method: string, path: string, body?: string, token?: string) =>
  fetch(`${url}${path}`, {
    method,
    body,
    headers: {
      ...(body && { "content-type": "application/json" }),
      ...(token && { authorization: `Bearer ${token}` }),
    },
    signal: AbortSignal.timeout(10_000),
  }).then((answer) => answer.arrayBuffer());

/** Repeats an attack, `atOnce` at a time. It expects refusals. */
const attack = (name: Attack, atOnce: number, pauseMs: number, once: () => Promise<unknown>) =>
  Promise.all(
    Array.from({ length: arms.only && !arms.only.includes(name) ? 0 : atOnce }, async () => {
      while (Date.now() < until) {
        await once().catch(() => {});
        counts[name] = (counts[name] ?? 0) + 1;
        await Bun.sleep(pauseMs);
      }
    }),
  );

/** 1.5 KB that inflate to half a megabyte. */
const bomb = () => {
  const formats = Array.from({ length: 16_000 }, (_, n) => `a=rtpmap:${n % 128} VP8/90000`).join("\r\n");
  const feedback = "a=rtcp-fb:* nack\r\n".repeat(17_000);
  return `v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n${formats}\r\n${feedback}`;
};
const sdpDeflate = deflateRawSync(bomb()).toString("base64");
const sections = (from: number) =>
  `v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n${Array.from({ length: 200 }, (_, n) => `m=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:${from + n}\r\na=recvonly\r\n`).join("")}`;

async function descriptions(): Promise<void> {
  const client = new SignalingClient({ url, token: arms.rtcToken });
  await client.join();
  await client.request("media.offer", { sdpDeflate, publish: [], subscribe: [] }).catch(() => {});
  for (let from = 0; from < 1_000; from += 200) await client.negotiate({ sdp: sections(from) }).catch(() => {});
  await client.leave();
  await fetch(`${url}/whep/${arms.ownRoom}`, {
    method: "POST",
    headers: { "content-type": "application/sdp", authorization: `Bearer ${arms.rtcToken}` },
    body: bomb(),
  });
}

async function flood(): Promise<void> {
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/chat/ws?token=${chatToken}`);
  const closed = new Promise<void>((done) => {
    socket.onclose = () => done();
  });
  socket.onopen = () => {
    for (let n = 0; n < 5_000; n++) socket.send(JSON.stringify({ type: "room.leave", room, id: String(n) }));
  };
  await Promise.race([closed, Bun.sleep(3_000)]);
  socket.close();
}

const ears: SignalingClient[] = [];

/** Sends as much as one participant can to fifteen others in a room. */
async function shout(): Promise<void> {
  while (ears.length < arms.listeners.length) {
    const ear = new SignalingClient({ url, token: arms.listeners[ears.length] ?? "" });
    ears.push(ear);
    await ear.join();
  }
  const client = new SignalingClient({ url, token: arms.rtcToken });
  await client.join();
  const payload = "x".repeat(8_000);
  for (let n = 0; n < 200; n++) await client.request("data.send", { payload }).catch(() => {});
  await client.leave();
}

/** Endpoints that do not answer, and messages for all of them. */
async function endpoints(): Promise<void> {
  const { hostname } = new URL(url);
  const target = { url: `https://${hostname.replaceAll(".", "-")}.example.com/hook`, events: ["message.created"] };
  await request("POST", "/v1/webhooks", json(target), arms.apiKey);
  await request("POST", "/v1/chat/conversations", json({ name: "endless" }), arms.apiKey);
  await request("POST", "/v1/chat/conversations/endless/messages", json({ text: "x" }), arms.apiKey);
  await request("GET", "/v1/diagnostics", undefined, arms.apiKey);
}

/** Makes the requests that a backend makes for a participant who joins, for invented users and rooms. */
async function mintedJoin(): Promise<void> {
  const name = crypto.randomUUID();
  const { id: roomId } = await post("/v1/rooms", { name });
  await post(`/v1/rooms/${roomId}/rtc-tokens`, { participantIdentity: name });
  await post("/v1/chat/conversations", { name, type: "ROOM", roomId, members: [{ userId: name }] });
  await post("/v1/chat/tokens", { userId: name });
}

/** Answers that are kept to be given again, and tokens that are remembered as void. */
async function revokedMint(): Promise<void> {
  const headers = { authorization: `Bearer ${arms.apiKey}` };
  const minted = await fetch(`${url}/v1/chat/tokens`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json", "idempotency-key": crypto.randomUUID() },
    body: json({ userId: "nobody" }),
  });
  const { tokenId } = (await minted.json()) as { tokenId: string };
  await fetch(`${url}/v1/chat/tokens/${tokenId}`, { method: "DELETE", headers });
}

/** Takes as much of the disk as it is given. */
async function upload(): Promise<void> {
  const asked = await fetch(`${url}/v1/chat/conversations/${room}/attachments`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${chatToken}` },
    body: json({ filename: "f", mimeType: "a/b", size: UPLOAD.length }),
  });
  const { uploadUrl, uploadHeaders } = (await asked.json()) as { uploadUrl: string; uploadHeaders: HeadersInit };
  await fetch(new URL(uploadUrl, url), { method: "PUT", headers: uploadHeaders, body: UPLOAD });
}

/** Asks for the whole reference, and takes nothing of it. */
async function neverRead(): Promise<void> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  socket.pause();
  socket.write(`GET /openapi.json HTTP/1.1\r\nhost: ${hostname}:${port}\r\n\r\n`);
  await Bun.sleep(2_000);
  socket.destroy();
}

/** One refresh token, used ten times at once. */
async function refreshes(): Promise<void> {
  const signedIn = await fetch(`${url}/v1/auth/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: json(arms.account),
  });
  const cookie = /^[^;]+/.exec(signedIn.headers.get("set-cookie") ?? "")?.[0] ?? "";
  const headers = { cookie };
  await Promise.all(Array.from({ length: 10 }, () => fetch(`${url}/v1/auth/refresh`, { method: "POST", headers })));
}

const post = async (path: string, body: object) => {
  const answer = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${arms.apiKey}` },
    body: json(body),
  });
  return (await answer.json()) as Record<"id" | "token", string>;
};

const recorded = { roomId: "" };

/** Sends every kind of packet that a participant can send to a recorded room of its own, as fast as the kernel takes it. */
async function packets(): Promise<void> {
  if (recorded.roomId === "") {
    recorded.roomId = (await post("/v1/rooms", { name: crypto.randomUUID() })).id;
    await post(`/v1/rooms/${recorded.roomId}/recordings`, {});
  }
  const permissions = { publish: true, publishData: true };
  const participantIdentity = crypto.randomUUID();
  const { token } = await post(`/v1/rooms/${recorded.roomId}/rtc-tokens`, { participantIdentity, permissions });
  const participant = await HostileParticipant.join(url, token);
  for (const send of Object.values(PARTICIPANT_ATTACKS)) {
    for (let round = 0; round < 400; round++) {
      send(participant, round);
      if (round % 50 === 0) await Bun.sleep(1);
    }
  }
  await participant.leave();
}

/** The most expensive message that is decoded, and 140 KB of empty fields, which would be 70,000 objects if they were decoded. */
const value = new UpdateSubscription({ trackSids: new Array<string>(2_000).fill("x".repeat(60)) });
const SUBSCRIPTION = new Uint8Array(new SignalRequest({ message: { case: "subscription", value } }).toBinary());
const FIELDS = Buffer.alloc(140_000).fill(Buffer.of((5 << 3) | 2, 0));

/** Messages that cost by their fields, from a participant of a room of its own: a room takes a limited number. */
async function livekit(): Promise<void> {
  const { issuer, secret } = arms.livekit;
  const identity = crypto.randomUUID();
  const token = await new SignJWT({ video: { roomJoin: true, room: identity } })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuer(issuer)
    .setSubject(identity)
    .setIssuedAt()
    .setExpirationTime("10m")
    .sign(Buffer.from(secret));
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/rtc?access_token=${token}&protocol=16`);
  const closed = new Promise<void>((done) => {
    socket.onclose = () => done();
  });
  // Messages that arrive before the join is answered are not read.
  socket.onmessage = () => {
    socket.onmessage = null;
    for (let n = 0; n < 100; n++) socket.send(SUBSCRIPTION);
    socket.send(FIELDS);
  };
  await Promise.race([closed, Bun.sleep(3_000)]);
  socket.close();
}

const framings = Object.values(FRAMING);
let framing = 0;

/** A request that has no end, or two of them, to the thread of all connections over TLS. */
async function misframed(): Promise<void> {
  const { hostname } = new URL(url);
  const rest = framings[framing++ % framings.length];
  const socket = connectTls({ host: hostname, port: arms.tlsPort, rejectUnauthorized: false });
  const closed = new Promise<void>((done) => {
    socket.on("close", () => done());
  });
  socket.on("error", () => {});
  socket.resume();
  socket.write(`POST /v1/rooms HTTP/1.1\r\nhost: ${hostname}\r\n${rest}`, "latin1");
  await Promise.race([closed, Bun.sleep(3_000)]);
  socket.destroy();
}

const json = (value: object) => JSON.stringify(value);
const idle: Socket[] = [];
function holdOpen(port: number, count: number): void {
  const { hostname } = new URL(url);
  for (let n = 0; n < count; n++) {
    const socket = connect(port, hostname);
    socket.on("error", () => {});
    idle.push(socket);
  }
}

if (!arms.only || arms.only.includes("idle connections")) {
  holdOpen(mediaPort, IDLE_CONNECTIONS.media);
  holdOpen(Number(new URL(url).port), IDLE_CONNECTIONS.server);
}
let telemetry = 0;
await Promise.all([
  attack("bodies without a credential", 4, 0, () => request("POST", "/v1/rooms", HEAVY)),
  attack("bodies at the sign-in", 1, 50, () => request("POST", "/v1/auth/login", HEAVY)),
  attack("session descriptions", 1, 200, descriptions),
  attack("floods of frames", 1, 200, flood),
  attack("data to everybody", 1, 100, shout),
  attack("webhook endpoints", 1, 20, endpoints),
  attack("refresh races", 1, 100, refreshes),
  attack("the reference's viewer", 4, 0, () => request("GET", "/docs/viewer.js")),
  attack("long threads", 1, 0, () => request("GET", `/v1/chat/messages/${arms.thread}/thread`, undefined, chatToken)),
  attack("attachments", 1, 20, upload),
  attack("sentences in a character", 1, 20, () =>
    request("POST", `/v1/chat/conversations/${room}/messages`, json({ text: "\uFDFA".repeat(4000) }), chatToken),
  ),
  attack("connections by telemetry", 1, 5, () =>
    request(
      "POST",
      "/v1/telemetry/events",
      json({ connectionId: `c${telemetry++}`, type: "connected" }),
      arms.idleToken,
    ),
  ),
  attack("minted joins", 2, 0, mintedJoin),
  attack("replays and revocations", 2, 0, revokedMint),
  attack("readers who never read", 100, 0, neverRead),
  attack("SCTP and AV1 of a participant", 2, 0, packets),
  attack("LiveKit messages", 2, 0, livekit),
  attack("framing over TLS", 2, 0, misframed),
  attack("guesses", 2, 0, () =>
    request("GET", "/v1/project", undefined, `svk_dev_${crypto.randomUUID().slice(0, 16)}.x`),
  ),
]);
if (idle.length > 0) await Bun.sleep(until - Date.now());
for (const socket of idle) socket.destroy();
console.log(JSON.stringify(counts));
process.exit();
