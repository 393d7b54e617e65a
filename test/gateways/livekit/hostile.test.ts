import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { gzipSync } from "node:zlib";
import {
  AddTrackRequest,
  ClientInfo,
  JoinRequest,
  ListRoomsRequest,
  SignalRequest,
  TrackSource,
  TrackType,
  UpdateSubscription,
  VideoLayer,
  WorkerMessage,
  WrappedJoinRequest,
  WrappedJoinRequest_Compression,
} from "@livekit/protocol";
import { SignJWT } from "jose";
import { readJoinParameters } from "../../../src/gateways/livekit/join-request.ts";
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

  const bob = await RawClient.open(wsUrl, await tokenOf("bob"));
  await bob.hears("join");
  const layers = Array.from({ length: 400 }, () => new VideoLayer({ width: 1 }));
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
