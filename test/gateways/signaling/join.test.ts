import { afterAll, describe, expect, test } from "bun:test";
import { Value } from "@sinclair/typebox/value";
import { JoinAck, Pushes } from "../../../src/protocol/signaling.ts";
import { type Frame, rtcServer, settled } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { node, clock } = server;
const sessionOf = (client: { ack: Frame }) => String(client.ack.sessionId);

describe("[signaling] room.join", () => {
  test("is acknowledged with the room, the participant, everyone else, and the limits", async () => {
    const roomId = await server.room("stage");
    const ada = await server.joined(roomId, "ada", { mint: { metadata: "m" }, join: { sdk: "test/1" } });
    expect(Value.Check(JoinAck, ada.ack)).toBe(true);
    expect(ada.ack).toEqual({
      type: "ack",
      id: "r1",
      mode: "new",
      sessionId: expect.any(String),
      resumeToken: expect.stringMatching(/^[\w-]{43}$/),
      resumeWindowSeconds: 20,
      seq: 0,
      state: { version: 0, spotlight: [], locked: false, lobby: false, captions: false },
      room: { id: roomId, name: "stage", recording: false, encrypted: false },
      participant: {
        identity: "ada",
        name: null,
        attributes: {},
        kind: "standard",
        connectionId: expect.any(String),
        state: "CONNECTED",
        permissions: ada.ack.permissions,
        metadata: "m",
        joinedAt: "2026-03-01T12:00:00.000Z",
        tracks: [],
      },
      roster: "all",
      participants: [],
      participantCount: 1,
      serverName: "n1",
      region: "local",
      iceServers: [],
      permissions: {
        join: true,
        subscribe: true,
        publish: true,
        publishAudio: false,
        publishVideo: false,
        publishData: true,
        updateMetadata: true,
      },
      limits: { maxMessageBytes: 16_384, messagesPerWindow: 100, windowSeconds: 60, maxParticipants: 50 },
    });
    expect(node.peers()).toMatchObject([{ roomId, identity: "ada", participantId: ada.ack.sessionId }]);
    await ada.ask("room.leave");
  });

  test("a second room.join on the same socket is an error without effect", async () => {
    const ada = await server.joined(await server.room(), "ada");
    expect(await ada.join()).toMatchObject({ type: "error", code: "INVALID_MESSAGE" });
    expect(ada.closed).toBeNull();
  });

  test("before it has joined, a client may only ping", async () => {
    const { token } = await server.mint(await server.room(), "ada");
    const client = server.connect(token);
    expect(await client.ask("track.unpublish", { trackId: "x" })).toMatchObject({ type: "error", code: "NOT_IN_ROOM" });
    expect(await client.ask("ping")).toEqual({ type: "pong", id: "r2" });
    client.send({ type: "ping" });
    expect(client.frames.at(-1)).toEqual({ type: "pong" });
    expect((await client.join()).type).toBe("ack");
  });
});

describe("[signaling] participant.joined", () => {
  test("comes when media is connected, not before", async () => {
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const bob = await server.joined(roomId, "bob");
    await bob.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] });
    clock.advance(60_000);
    await settled();
    expect(ada.of("participant.joined")).toEqual([]);
    node.connect(sessionOf(bob));
    const [joined] = ada.of("participant.joined");
    expect(Value.Check(Pushes["participant.joined"], joined)).toBe(true);
    expect(joined).toMatchObject({ seq: 1, participant: { identity: "bob", state: "CONNECTED" } });
    expect(bob.of("participant.joined").map((frame) => frame.participant)).not.toContainEqual(
      expect.objectContaining({ identity: "bob" }),
    );
  });

  test("comes after 5 s for a participant without media", async () => {
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    await server.joined(roomId, "bob");
    clock.advance(4_999);
    expect(ada.of("participant.joined")).toHaveLength(0);
    clock.advance(1);
    expect(ada.of("participant.joined")).toHaveLength(1);
    const carol = await server.joined(roomId, "carol");
    expect(carol.ack.participants).toMatchObject([{ identity: "ada" }, { identity: "bob" }]);
  });

  test("a participant that was never announced leaves unannounced", async () => {
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const bob = await server.joined(roomId, "bob");
    await bob.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] });
    await bob.ask("room.leave");
    expect(bob.closed).toEqual({ code: 1000, reason: "left" });
    clock.advance(60_000);
    expect(ada.frames).toEqual([ada.ack]);
  });

  test("participant.left names the reason", async () => {
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const bob = await server.joined(roomId, "bob");
    clock.advance(5_000);
    expect((await bob.ask("room.leave")).type).toBe("ack");
    expect(ada.of("participant.left")).toEqual([{ seq: 2, type: "participant.left", identity: "bob", reason: "left" }]);
    expect(node.peers().map(({ identity }) => identity)).toContain("ada");
    expect(node.peers().filter((peer) => peer.roomId === roomId)).toHaveLength(1);
  });
});

describe("[15] one identity, one participant", () => {
  test("another connectionId replaces: the old socket 4409, others see left and joined", async () => {
    const roomId = await server.room();
    const watcher = await server.joined(roomId, "watcher");
    const first = await server.joined(roomId, "ada");
    clock.advance(5_000);
    const second = await server.joined(roomId, "ada");
    expect(second.ack.mode).toBe("replaced");
    expect(second.ack.sessionId).not.toBe(first.ack.sessionId);
    expect(first.of("bye")).toMatchObject([{ reason: "replaced", action: "stop" }]);
    expect(first.closed).toEqual({ code: 4409, reason: "replaced" });
    clock.advance(5_000);
    const seen = watcher.frames.filter(({ type }) => type.startsWith("participant.")).map(({ type }) => type);
    expect(seen).toEqual(["participant.joined", "participant.left", "participant.joined"]);
    expect(watcher.of("participant.left")).toMatchObject([{ identity: "ada", reason: "replaced" }]);
    expect(node.peers().filter((peer) => peer.roomId === roomId && peer.identity === "ada")).toHaveLength(1);
  });

  test("the same connectionId without a resume takes over unnoticed by others", async () => {
    const roomId = await server.room();
    const watcher = await server.joined(roomId, "watcher");
    const first = await server.joined(roomId, "ada", { join: { connectionId: "same" } });
    await first.ask("media.offer", {
      sdp: "v=0",
      publish: [{ mid: "0", clientTrackId: "mic", kind: "audio", source: "microphone" }],
      subscribe: [],
    });
    node.connect(sessionOf(first));
    clock.advance(1_000);
    const second = await server.joined(roomId, "ada", { join: { connectionId: "same" } });
    expect(second.ack.mode).toBe("replaced");
    expect((second.ack.participant as { joinedAt: string }).joinedAt).toBe(
      (first.ack.participant as { joinedAt: string }).joinedAt,
    );
    expect(first.closed?.code).toBe(4409);
    await second.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] });
    node.connect(sessionOf(second));
    clock.advance(60_000);
    expect(watcher.of("participant.left")).toEqual([]);
    expect(watcher.of("participant.joined")).toHaveLength(1);
    // Events about packets are still sent.
    expect(watcher.of("track.unpublished")).toHaveLength(1);
    expect(node.peers().filter((peer) => peer.roomId === roomId)).toHaveLength(2);
  });
});

describe("[2] placement", () => {
  test("a room is placed at its first join and released with its last participant", async () => {
    const roomId = await server.room();
    const serverName = async () =>
      (await server.call("GET", `/v1/rooms/${roomId}`, { key: server.key })).body.serverName;
    expect(await serverName()).toBeNull();
    const ada = await server.joined(roomId, "ada");
    expect(await serverName()).toBe("n1");
    await ada.ask("room.leave");
    await settled();
    expect(await serverName()).toBeNull();
    expect((await node.rooms()).map((room) => room.roomId)).not.toContain(roomId);
    expect((await server.joined(roomId, "ada")).ack.serverName).toBe("n1");
  });

  test("joins at the same moment share one placement", async () => {
    const roomId = await server.room();
    node.calls.length = 0;
    await Promise.all(["a", "b", "c"].map((identity) => server.joined(roomId, identity)));
    expect(node.calls.filter((name) => name === "openRoom")).toHaveLength(1);
    expect(node.peers().filter((peer) => peer.roomId === roomId)).toHaveLength(3);
  });

  test("a join during the last participant's leave keeps the room", async () => {
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const { token } = await server.mint(roomId, "bob");
    const bob = server.connect(token);
    const joining = bob.join();
    await ada.ask("room.leave");
    expect((await joining).type).toBe("ack");
    expect(node.peers().filter((peer) => peer.roomId === roomId)).toMatchObject([{ identity: "bob" }]);
  });

  test("a restarted node gets the room again", async () => {
    const roomId = await server.room();
    await server.joined(roomId, "ada");
    await node.closeRoom({ roomId });
    expect((await server.joined(roomId, "bob")).ack.type).toBe("ack");
  });
});

test("[signaling] a client that disconnects before its join is complete starts neither a call nor a recording", async () => {
  const { key } = server;
  const { body: room } = await server.call("POST", "/v1/rooms", { key, body: { name: "strict", record: true } });
  const caller = await server.services.rtcTokens.verify((await server.mint(String(room.id), "twice")).token);
  const client = { ipAddress: "10.0.0.7", userAgent: null, sdk: null, openedAt: clock.now() };
  // The participant is there when the room is placed, and gone when the media node has added it.
  let asked = 0;
  const isGone = () => asked++ > 0;
  const { join } = server.services.signaling.core;
  await expect(join.join(caller, { connectionId: "strict-1" }, client, isGone)).rejects.toThrow("The client hung up.");
  await settled();
  for (const list of ["calls", "recordings"]) {
    expect((await server.call("GET", `/v1/${list}?roomId=strict`, { key })).text).toBe("[]");
  }
  expect(node.peers().filter(({ roomId }) => roomId === room.id)).toEqual([]);
  await server.joined(String(room.id), "twice");
  await settled();
  expect(JSON.parse((await server.call("GET", "/v1/calls?roomId=strict", { key })).text)).toHaveLength(1);
});
