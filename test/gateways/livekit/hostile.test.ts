import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { gzipSync } from "node:zlib";
import {
  AddTrackRequest,
  ClientInfo,
  JoinRequest,
  ListRoomsRequest,
  SignalRequest,
  SignalResponse,
  TrackSource,
  TrackType,
  UpdateParticipantMetadata,
  UpdateSubscription,
  VideoLayer,
  WorkerMessage,
  WrappedJoinRequest,
  WrappedJoinRequest_Compression,
} from "@livekit/protocol";
import { SignJWT } from "jose";
import type { IngressSettings } from "../../../src/gateways/livekit/ingress/ingress.store.ts";
import { readJoinParameters } from "../../../src/gateways/livekit/join-request.ts";
import { MAX_FRAME_BYTES } from "../../../src/gateways/livekit/livekit-session.ts";
import type { ApiKeyCaller } from "../../../src/kernel/http/callers.ts";
import { BYTES, writeField } from "../../../src/protocol/media/protobuf.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { RawClient } from "./harness/raw-client.ts";
import { RawWorker } from "./harness/raw-worker.ts";

let server: RealServer;
let wsUrl = "";
let key = { publicId: "", secret: "" };
beforeAll(async () => {
  server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000 });
  wsUrl = server.url.replace(/^http/, "ws");
  const { apiKeys } = server.services;
  const { publicId } = await server.runtime.write((unit) =>
    apiKeys.create(unit, server.projectId, { name: "livekit", environment: "DEVELOPMENT" }),
  );
  key = { publicId, secret: apiKeys.signingSecret(publicId) };
});
afterAll(() => server.close());

const tokenOf = (identity: string, grant: object = { roomJoin: true, room: "hall" }, secret = key.secret) =>
  new SignJWT({ video: grant })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuer(key.publicId)
    .setSubject(identity)
    .setExpirationTime("10m")
    .sign(Buffer.from(secret));

const wrapped = (bytes: Uint8Array) =>
  Buffer.from(
    new WrappedJoinRequest({
      compression: WrappedJoinRequest_Compression.GZIP,
      joinRequest: new Uint8Array(gzipSync(bytes)),
    }).toBinary(),
  ).toString("base64url");

/** 140 KB of empty tracks: 70,000 objects when decoded, and some hundred bytes compressed. */
const BOMB = wrapped(Buffer.alloc(140_000).fill(Buffer.of((5 << 3) | 2, 0)));

test("the join request of a client with an invalid token is not parsed", async () => {
  const validate = async (token: string, joining: string) => {
    const answer = await fetch(`${server.url}/rtc/v1/validate?access_token=${token}&join_request=${joining}`);
    return `${answer.status} ${await answer.text()}`;
  };
  const forged = await tokenOf("eve", undefined, "x".repeat(43));
  for (const joining of [BOMB, "no-join-request"]) {
    expect(await validate(forged, joining)).toStartWith("401 ");
    expect(await validate("none", joining)).toStartWith("401 ");
  }
  const good = await tokenOf("ann");
  expect(await validate(good, "no-join-request")).toBe("400 join_request cannot be read");
  // With a valid token it is parsed, and refused when it is larger than any description.
  expect(await validate(good, wrapped(Buffer.alloc(200_000).fill(Buffer.of((5 << 3) | 2, 0))))).toStartWith("400 ");
  expect(await validate(good, BOMB)).toBe("400 join_request cannot be read");
});

test("a client's description of itself and its tracks is truncated before others get it", async () => {
  const joining = new JoinRequest({
    clientInfo: new ClientInfo({
      os: "x".repeat(50_000),
      version: "y".repeat(50_000),
      capabilities: new Array(2_000).fill(1),
    }),
  });
  const address = `http://localhost/rtc/v1?join_request=${wrapped(joining.toBinary())}`;
  expect(readJoinParameters(new Request(address), "one").client.toBinary().length).toBeLessThan(1_000);
  const query = `version=${"y".repeat(50_000)}&os=${"x".repeat(50_000)}&browser=${"z".repeat(50_000)}`;
  const asked = readJoinParameters(new Request(`http://localhost/rtc?${query}`), "two");
  expect(asked.client.toBinary().length).toBeLessThan(1_000);

  const bob = await RawClient.open(wsUrl, await tokenOf("bob"));
  await bob.hears("join");
  const layers = Array.from({ length: 400 }, () => new VideoLayer({ width: 1 }));
  layers[0] = new VideoLayer({ width: 1, rid: "r".repeat(10_000) });
  // A field that no version of the protocol has.
  layers[1] = VideoLayer.fromBinary(writeField(1_000, BYTES, Buffer.alloc(10_000)));
  const value = new AddTrackRequest({
    cid: "c",
    type: TrackType.VIDEO,
    source: TrackSource.CAMERA,
    name: "n".repeat(50_000),
    layers,
    simulcastCodecs: [{ codec: "vp8", layers }],
    audioFeatures: new Array(1_000).fill(1),
  });
  bob.send({ case: "addTrack", value });
  const { track } = await bob.hears("trackPublished");
  expect(track?.toBinary().length).toBeLessThan(2_000);
  bob.close();
});

test("numbers and names in the query that protobuf cannot encode are as if they were not sent", async () => {
  for (const query of [
    ...["1.5", "5000000000", "-5000000000", "1e999", "x"].flatMap((n) => [`client_protocol=${n}`, `protocol=${n}`]),
    ...["constructor", "__proto__", "toString"].map((name) => `sdk=${name}`),
  ]) {
    const { client } = readJoinParameters(new Request(`http://localhost/rtc?${query}`), "two");
    expect([query, client.toBinary().length, client.toJson()]).toEqual([query, 0, {}]);
  }
  // The whole room is notified of this number, and each notification would throw, in a timer too, which ends the server.
  const ann = await RawClient.open(wsUrl, await tokenOf("ann", { roomJoin: true, room: "numbers" }));
  const eve = await RawClient.open(
    wsUrl,
    await tokenOf("eve", { roomJoin: true, room: "numbers" }),
    "&client_protocol=1.5",
  );
  expect(eve.heard[0]?.case).toBe("join");
  const isEve = ({ identity }: { identity: string }) => identity === "eve";
  await ann.hears("update", ({ participants }) => participants.some(isEve));
  for (const client of [ann, eve]) client.close();
}, 20_000);

test("JSON with a number for an enum that protobuf cannot encode is malformed", async () => {
  for (const message of [
    '{"addTrack":{"cid":"c","type":"AUDIO","audioFeatures":[1000000000000]}}',
    '{"addTrack":{"cid":"c","type":"VIDEO","layers":[{"quality":1000000000000}]}}',
    '{"simulate":{"switchCandidateProtocol":1000000000000}}',
  ]) {
    const eve = await RawClient.open(wsUrl, await tokenOf("eve"));
    await eve.hears("join");
    eve.sendRaw(message);
    expect([message, await eve.isClosed()]).toEqual([message, 4400]);
  }
});

test("what a socket sends before its join is done is kept up to the size of one frame", async () => {
  const { connections } = server.services.livekitClients;
  const request = { ipAddress: "127.0.0.1", userAgent: null, origin: null };
  const parameters = () => readJoinParameters(new Request("http://localhost/rtc?sdk=go"), "two");
  const admitted = await connections.admit(await tokenOf("early"), request, parameters);
  const last = 1_000;
  const answers: number[] = [];
  const joined = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  const network = {
    bufferedBytes: 0,
    sendBytes(data: Uint8Array) {
      const { message } = SignalResponse.fromBinary(data);
      if (message.case === "join") joined.resolve();
      if (message.case !== "requestResponse") return;
      answers.push(message.value.requestId);
      if (message.value.requestId === last) answered.resolve();
    },
    close() {},
  };
  const events = connections.connect(network as never, admitted);
  const ask = (requestId: number, metadata: string) => {
    const value = new UpdateParticipantMetadata({ requestId, metadata });
    const frame = Buffer.from(new SignalRequest({ message: { case: "updateMetadata", value } }).toBinary());
    events.received(null, frame.length, frame);
  };
  // The metadata is too long, so each of these gets an answer.
  for (let n = 1; n <= 20; n++) ask(n, "m".repeat(MAX_FRAME_BYTES / 2));
  await joined.promise;
  ask(last, "m".repeat(2_000));
  await answered.promise;
  expect(answers).toEqual([1, last]);
  events.closed(1000);
});

test("a participant who was removed can use the server API no more with its token, not even for a request that it began before", async () => {
  const admin = { roomAdmin: true, room: "club" };
  const asking = async (token: string, body: BodyInit = '{"room":"club"}') => {
    const answer = await fetch(`${server.url}/twirp/livekit.RoomService/ListParticipants`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body,
    });
    return answer.status;
  };
  const signed = await new SignJWT({ video: { ...admin, roomJoin: true } })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuer(key.publicId)
    .setSubject("mallory")
    .setIssuedAt(Math.floor(Date.now() / 1_000) - 5)
    .setExpirationTime("10m")
    .sign(Buffer.from(key.secret));
  const mallory = await RawClient.open(wsUrl, signed);
  await mallory.hears("join");
  const part = Promise.withResolvers<ReadableStreamDefaultController>();
  const begun = asking(signed, new ReadableStream({ start: part.resolve }));
  (await part.promise).enqueue(Buffer.from('{"room":'));
  expect(await asking(signed)).toBe(200);
  const removal = await fetch(`${server.url}/twirp/livekit.RoomService/RemoveParticipant`, {
    method: "POST",
    headers: { authorization: `Bearer ${await tokenOf("", admin)}`, "content-type": "application/json" },
    body: JSON.stringify({ room: "club", identity: "mallory" }),
  });
  expect(removal.status).toBe(200);
  await mallory.isClosed();
  expect(await asking(signed)).toBe(401);
  const rest = await part.promise;
  rest.enqueue(Buffer.from('"club"}'));
  rest.close();
  expect(await begun).toBe(401);
  // Backends name nobody in their tokens.
  expect(await asking(await tokenOf("", admin))).toBe(200);
});

test("simultaneous requests give a project no more than 1,000 ingresses", async () => {
  const { ingresses } = server.services.livekitClients;
  const signer = server.services.apiKeys.signer(key.publicId) as ApiKeyCaller;
  const settings = { name: "", roomName: "in", participantIdentity: "cam" } as IngressSettings;
  const author = { actor: null, request: null, environment: signer.environment };
  const create = () => ingresses.create(signer, "whip", "", settings, author);
  const outcomes = await Promise.allSettled(Array.from({ length: 1_010 }, create));
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1_000);
});

test("a flood of frames, pings included, closes the socket", async () => {
  for (const kind of ["ping", "trickle"] as const) {
    const client = await RawClient.open(wsUrl, await tokenOf(`flood-${kind}`));
    await client.hears("join");
    for (let n = 0; n < 2_000; n++) {
      if (kind === "ping") client.send({ case: "ping", value: 1n });
      else client.send({ case: "trickle", value: {} as never });
    }
    expect([kind, await client.isClosed()]).toEqual([kind, 4429]);
    expect(client.heard.filter((one) => one.case === "pong").length).toBeLessThan(700);
  }
});

/** Counts how often a message is decoded while `work` runs. */
async function decodings(type: { fromBinary: unknown; fromJsonString: unknown }, work: () => Promise<unknown>) {
  const spies = [spyOn(type as never, "fromBinary" as never), spyOn(type as never, "fromJsonString" as never)];
  try {
    await work();
    return spies.reduce((sum, spy) => sum + spy.mock.calls.length, 0);
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

const EMPTY_FIELDS = (field: number) => Buffer.alloc(140_000).fill(Buffer.of((field << 3) | 2, 0));

test("70,000 empty fields are refused before they are decoded: join request, frames, workers, server API", async () => {
  const admin = { roomList: true, roomAdmin: true, agent: true, room: "hall" };
  const asked = await decodings(JoinRequest, async () => {
    const token = await tokenOf("ann");
    const { status } = await fetch(`${server.url}/rtc/v1/validate?access_token=${token}&join_request=${BOMB}`);
    expect(status).toBe(400);
  });
  // The subscription of 70,000 tracks is nested in the request; the unknown fields of the JSON form are values as well.
  const nested = Buffer.concat([Buffer.of((6 << 3) | 2, ...[0xe0, 0xc5, 0x08]), EMPTY_FIELDS(1)]);
  const frames: (Buffer<ArrayBuffer> | string)[] = [EMPTY_FIELDS(100), nested, `{"x":[${"0,".repeat(60_000)}0]}`];
  const framed = await decodings(SignalRequest, async () => {
    for (const [n, frame] of frames.entries()) {
      const client = await RawClient.open(wsUrl, await tokenOf(`bomb-${n}`));
      await client.hears("join");
      client.sendRaw(frame);
      expect([n, await client.isClosed()]).toEqual([n, 4400]);
    }
  });
  const token = await tokenOf("w", admin);
  const worked = await decodings(WorkerMessage, async () => {
    const worker = await RawWorker.open(wsUrl, token);
    worker.sendRaw(EMPTY_FIELDS(100).subarray(0, 60_000));
    await worker.until(() => worker.closed !== null, "the close");
    expect(worker.closed?.code).toBe(4400);
  });
  const called = await decodings(ListRoomsRequest, async () => {
    for (const [type, body] of [
      ["application/protobuf", EMPTY_FIELDS(1).subarray(0, 120_000)],
      ["application/json", `{"names":[${'"",'.repeat(30_000)}""]}`],
    ] as const) {
      const headers = { authorization: `Bearer ${token}`, "content-type": type };
      const { status } = await fetch(`${server.url}/twirp/livekit.RoomService/ListRooms`, {
        method: "POST",
        headers,
        body,
      });
      expect(status).toBe(400);
    }
  });
  // The worker's own registration is the one message that was decoded.
  expect({ asked, framed, worked, called }).toEqual({ asked: 0, framed: 0, worked: 1, called: 0 });
});

test("a frame is charged before it is decoded", async () => {
  const client = await RawClient.open(wsUrl, await tokenOf("charged"));
  await client.hears("join");
  const value = new UpdateSubscription({ trackSids: new Array<string>(2_000).fill("x".repeat(60)) });
  const frame = Buffer.from(new SignalRequest({ message: { case: "subscription", value } }).toBinary());
  const decoded = await decodings(SignalRequest, async () => {
    for (let n = 0; n < 300; n++) client.sendRaw(frame);
    expect(await client.isClosed()).toBe(4429);
  });
  expect(decoded).toBeLessThan(60);
});

test("a JSON frame with an unknown field or an unknown message keeps the socket open", async () => {
  const client = await RawClient.open(wsUrl, await tokenOf("jay"));
  await client.hears("join");
  client.sendRaw('{"ofTomorrow":{"x":1},"also":[]}');
  client.sendRaw('{"pingReq":{"timestamp":"7","ofTomorrow":true}}');
  expect((await client.hears("pongResp")).lastPingTimestamp).toBe(7n);
  expect(client.closed).toBeNull();
  client.close();
});

test("a large frame counts as several, so that a hundred of the largest are a flood", async () => {
  const socket = new WebSocket(`${wsUrl}/rtc?access_token=${await tokenOf("large")}&protocol=16`);
  const closed = Promise.withResolvers<number>();
  socket.onclose = ({ code }) => closed.resolve(code);
  const value = new UpdateSubscription({ trackSids: new Array<string>(2_000).fill("x".repeat(60)) });
  const frame = Buffer.from(new SignalRequest({ message: { case: "subscription", value } }).toBinary());
  // Once it is in: what comes before is kept to a bound, and passed over beyond it.
  socket.onmessage = () => {
    socket.onmessage = null;
    for (let n = 0; n < 100; n++) socket.send(frame);
  };
  expect(await closed.promise).toBe(4429);
});

test("a join-only token is refused by the server API, and only methods can be called by name", async () => {
  const ask = async (path: string, grant: object, body: string) => {
    const answer = await fetch(`${server.url}/twirp/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${await tokenOf("x", grant)}`, "content-type": "application/json" },
      body,
    });
    return `${answer.status} ${((await answer.json()) as { code?: string }).code}`;
  };
  const joins = { roomJoin: true, room: "hall" };
  expect(await ask("livekit.RoomService/ListRooms", joins, "no JSON")).toBe("403 permission_denied");
  const admin = { roomList: true, roomAdmin: true, room: "hall" };
  expect(await ask("livekit.RoomService/ListRooms", admin, "no JSON")).toBe("400 malformed");
  for (const path of [
    "constructor/keys",
    "constructor/assign",
    "__proto__/constructor",
    "livekit.RoomService/toString",
  ])
    expect([path, await ask(path, admin, "{}")]).toEqual([path, "501 unimplemented"]);
});
