import { afterAll, describe, expect, test } from "bun:test";
import { type Frame, type RtcClient, rtcServer, settled, until } from "../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { key, node, clock } = server;
const call = (method: string, path: string, body?: object, as = key) => server.call(method, path, { key: as, body });
const stranger = await server.project();

async function scene() {
  const roomId = await server.room();
  const ada = await server.joined(roomId, "ada", { join: { connectionId: "mine" } });
  const bob = await server.joined(roomId, "bob");
  clock.advance(5_000);
  const offer = await ada.ask("media.offer", {
    sdp: "v=0",
    publish: [{ mid: "0", clientTrackId: "mic", kind: "audio", source: "microphone" }],
    subscribe: [],
  });
  node.connect(String(ada.ack.sessionId));
  const [{ trackId }] = offer.tracks as [{ trackId: string }];
  return { roomId, ada, bob, trackId, path: `/v1/rooms/${roomId}/participants` };
}
const list = async (path: string) => JSON.parse((await call("GET", path)).text) as Record<string, unknown>[];
const refused = async (client: RtcClient) => {
  await until(() => client.closed !== null);
  return [client.frames.at(-1)?.code, client.closed?.code];
};

describe("[4.1] GET /v1/rooms/{id}/participants", () => {
  test("lists the participants and their tracks as the media node reports them", async () => {
    const { path, trackId } = await scene();
    const [ada, bob] = await list(path);
    expect(ada).toEqual({
      identity: "ada",
      name: null,
      kind: "standard",
      attributes: {},
      connectionId: "mine",
      state: "CONNECTED",
      permissions: expect.objectContaining({ publish: true }),
      metadata: null,
      joinedAt: expect.any(String),
      quality: null,
      tracks: [
        { id: trackId, kind: "audio", source: "microphone", name: null, muted: false, simulcast: false, codec: "opus" },
      ],
    });
    expect(bob).toMatchObject({ identity: "bob", tracks: [] });
  });

  test("counts are current, and null when the node does not respond", async () => {
    const { roomId, path, bob } = await scene();
    const count = async () => (await call("GET", `/v1/rooms/${roomId}`)).body.participantCount;
    expect(await count()).toBe(2);
    expect((await list("/v1/rooms")).find(({ id }) => id === roomId)?.participantCount).toBe(2);
    await bob.ask("room.leave");
    await settled();
    expect(await count()).toBe(1);
    node.reachable = false;
    expect(await count()).toBeNull();
    const { status, body } = await call("GET", path);
    expect([status, body.code]).toEqual([503, "SVC_RTC_SERVER_UNREACHABLE"]);
    node.reachable = true;
    expect(await count()).toBe(1);
  });
});

describe("[signaling] DELETE …/participants/{identity}", () => {
  test("removes a participant with 4410; neither the old token nor a resume works, but a new token does", async () => {
    const { roomId, path } = await scene();
    const { token } = await server.mint(roomId, "carol");
    const { token: spare } = await server.mint(roomId, "carol");
    const carol = server.connect(token);
    const ack = await carol.join({ connectionId: "carols" });
    const { status, text } = await call("DELETE", `${path}/carol`);
    expect([status, text]).toEqual([204, ""]);
    expect(carol.of("bye")).toMatchObject([{ reason: "removed", action: "stop" }]);
    expect(carol.closed?.code).toBe(4410);
    const resume = { sessionId: ack.sessionId, resumeToken: ack.resumeToken, lastSeq: 0 };
    for (const [credential, fields] of [
      [token, { connectionId: "carols", resume }],
      [token, {}],
      [spare, {}],
    ] as const) {
      const client = server.connect(credential);
      client.send({ type: "room.join", id: "1", connectionId: "x", ...fields });
      expect(await refused(client)).toEqual(["TOKEN_REVOKED", 4401]);
    }
    expect((await server.joined(roomId, "carol")).ack.type).toBe("ack");
  });

  test("removes a participant whose socket is disconnected or whose token has expired", async () => {
    const { ada, bob, path } = await scene();
    ada.cut();
    clock.advance(19_000);
    expect((await call("DELETE", `${path}/ada`)).status).toBe(204);
    expect(bob.of("participant.left")).toMatchObject([{ identity: "ada", reason: "removed" }]);
    clock.advance(700_000);
    expect((await call("DELETE", `${path}/bob`)).status).toBe(204);
    expect(bob.closed?.code).toBe(4410);
  });

  test("an unknown identity is 404", async () => {
    const { path } = await scene();
    expect((await call("DELETE", `${path}/nobody`)).body.code).toBe("SVC_PARTICIPANT_NOT_FOUND");
  });
});

describe("[signaling] PATCH …/participants/{identity}", () => {
  test("merges permissions at once: tracks that are no longer permitted end, and all participants are notified", async () => {
    const { ada, bob, path, trackId } = await scene();
    const { status, body } = await call("PATCH", `${path}/ada`, { permissions: { publish: false } });
    expect(status).toBe(200);
    const permissions = { join: true, subscribe: true, publish: false, publishData: true };
    expect(body).toMatchObject({ identity: "ada", permissions, tracks: [] });
    expect(ada.of("permissions.changed")).toMatchObject([{ permissions }]);
    expect(bob.of("track.unpublished")).toMatchObject([{ identity: "ada", trackId }]);
    expect(bob.of("participant.updated").at(-1)).toMatchObject({ participant: { permissions } });
    const publish = [{ mid: "0", clientTrackId: "again", kind: "audio", source: "microphone" }];
    expect((await ada.ask("media.offer", { sdp: "v=0", publish, subscribe: [] })).code).toBe("PERMISSION_DENIED");
  });

  test("[contract 16] a changed permission applies to the identity with any of its tokens", async () => {
    const roomId = await server.room();
    const { token } = await server.mint(roomId, "ada");
    const ada = server.connect(token);
    await ada.join();
    await call("PATCH", `/v1/rooms/${roomId}/participants/ada`, { permissions: { publish: false } });
    await ada.ask("room.leave");
    expect((await server.connect(token).join()).permissions).toMatchObject({ publish: false, publishData: true });
    // A token minted afterwards counts too, except for what was changed.
    const later = { mint: { permissions: { publish: true, subscribe: false } } };
    const permissions = { publish: false, publishData: false, subscribe: false };
    expect((await server.joined(roomId, "ada", later)).ack.permissions).toMatchObject(permissions);
    expect((await server.joined(roomId, "bob")).ack.permissions).toMatchObject({ publish: true });
    await call("PATCH", `/v1/rooms/${roomId}/participants/ada`, { permissions: { publish: true } });
    expect((await server.joined(roomId, "ada")).ack.permissions).toMatchObject({ publish: true });
    expect((await server.joined(await server.room(), "ada")).ack.permissions).toMatchObject({ publish: true });
  });

  test("a refused change has no effect, now or at the next join", async () => {
    const roomId = await server.room();
    const { token } = await server.mint(roomId, "ada");
    const ada = server.connect(token);
    await ada.join();
    const change = { permissions: { publish: false }, metadata: "m".repeat(1025) };
    expect((await call("PATCH", `/v1/rooms/${roomId}/participants/ada`, change)).status).toBe(400);
    expect(ada.of("permissions.changed")).toEqual([]);
    await ada.ask("room.leave");
    expect((await server.connect(token).join()).permissions).toMatchObject({ publish: true });
  });

  test("sets metadata of 0-1024 characters, null clears it, and nothing else changes", async () => {
    const { bob, path } = await scene();
    const patch = (metadata: unknown) => call("PATCH", `${path}/ada`, { metadata });
    expect((await patch("hello")).body).toMatchObject({ metadata: "hello", permissions: { publish: true } });
    expect(bob.of("participant.updated").at(-1)).toMatchObject({ participant: { metadata: "hello" } });
    expect((await patch("m".repeat(1024))).status).toBe(200);
    expect((await patch("m".repeat(1025))).status).toBe(400);
    expect((await patch(null)).body.metadata).toBeNull();
    expect((await call("PATCH", `${path}/nobody`, { metadata: "x" })).body.code).toBe("SVC_PARTICIPANT_NOT_FOUND");
  });
});

describe("[signaling] POST …/tracks/{trackId}/mute", () => {
  test("mutes for all participants including the publisher, and only the publisher can unmute", async () => {
    const { ada, bob, path, trackId } = await scene();
    const mute = (body: object, track = trackId, who = "ada") =>
      call("POST", `${path}/${who}/tracks/${track}/mute`, body);
    expect((await mute({ muted: false })).status).toBe(400);
    expect((await mute({})).status).toBe(400);
    expect(bob.of("track.muted")).toEqual([]);
    const { status, body } = await mute({ muted: true });
    expect([status, body]).toMatchObject([200, { id: trackId, muted: true }]);
    for (const client of [ada, bob]) expect(client.of("track.muted")).toMatchObject([{ identity: "ada", trackId }]);
    expect((await list(path))[0]).toMatchObject({ tracks: [{ muted: true }] });
    expect((await ada.ask("track.mute", { trackId, muted: false })).type).toBe("ack");
    expect(bob.of("track.unmuted")).toHaveLength(1);
    expect((await mute({ muted: true }, "none")).body.code).toBe("SVC_TRACK_NOT_FOUND");
    expect((await mute({ muted: true }, trackId, "bob")).body.code).toBe("SVC_TRACK_NOT_FOUND");
    expect((await mute({ muted: true }, trackId, "nobody")).body.code).toBe("SVC_PARTICIPANT_NOT_FOUND");
  });
});

describe("[signaling] POST /v1/rooms/{id}/data", () => {
  const got = (client: { of(type: string): Frame[] }) =>
    client.of("data").map(({ from, topic, payload }) => [from, topic, payload]);

  test("reaches all participants or the named ones, without a sender", async () => {
    const { ada, bob, roomId } = await scene();
    const data = (body: object) => call("POST", `/v1/rooms/${roomId}/data`, body);
    expect((await data({ payload: "hi", topic: "news" })).status).toBe(200);
    expect((await data({ payload: "you", to: ["bob"] })).status).toBe(200);
    expect(got(ada)).toEqual([[null, "news", "hi"]]);
    expect(got(bob)).toEqual([
      [null, "news", "hi"],
      [null, undefined, "you"],
    ]);
    expect((await data({ payload: "x".repeat(8_192) })).status).toBe(200);
    expect((await data({ payload: "x".repeat(8_193) })).status).toBe(400);
    expect((await data({ payload: "é".repeat(4_097) })).status).toBe(400);
    expect((await data({ payload: "x", to: [] })).status).toBe(400);
    expect((await data({})).status).toBe(400);
  });

  test("an empty room accepts data, a closed room does not", async () => {
    const roomId = await server.room();
    expect((await call("POST", `/v1/rooms/${roomId}/data`, { payload: "x" })).status).toBe(200);
    await call("DELETE", `/v1/rooms/${roomId}`);
    expect((await call("POST", `/v1/rooms/${roomId}/data`, { payload: "x" })).body.code).toBe("SVC_ROOM_CLOSED");
  });
});

test("[5] another project finds no room to moderate", async () => {
  const { roomId, trackId, ada } = await scene();
  for (const [method, tail, body] of [
    ["DELETE", "participants/ada", undefined],
    ["PATCH", "participants/ada", { metadata: "x" }],
    ["POST", `participants/ada/tracks/${trackId}/mute`, { muted: true }],
    ["POST", "data", { payload: "x" }],
  ] as const) {
    const path = `/v1/rooms/${roomId}/${tail}`;
    expect((await call(method, path, body, stranger.key)).body.code).toBe("SVC_ROOM_NOT_FOUND");
    expect((await server.call(method, path, { body })).status).toBe(401);
  }
  expect(ada.closed).toBeNull();
});

test("[4.2] the dashboard reads a room with its participants and tracks, and counts them in its list", async () => {
  const { roomId, trackId } = await scene();
  const { token } = await server.session({ projectId: server.projectId, role: "VIEWER" });
  const path = `/v1/projects/${server.projectId}/rooms`;
  const { body } = await call("GET", `${path}/${roomId}`, undefined, token);
  expect(body).toMatchObject({
    participantCount: 2,
    serverName: "n1",
    participants: [{ identity: "ada", tracks: [{ id: trackId }] }, { identity: "bob" }],
  });
  const rooms = JSON.parse((await call("GET", path, undefined, token)).text) as {
    id: string;
    participantCount: number;
  }[];
  expect(rooms.find(({ id }) => id === roomId)?.participantCount).toBe(2);
  node.reachable = false;
  const lost = await call("GET", `${path}/${roomId}`, undefined, token);
  expect([lost.status, lost.body.participantCount]).toEqual([200, null]);
  node.reachable = true;
});
