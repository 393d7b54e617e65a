import { afterEach, describe, expect, test } from "bun:test";
import type { RtcRefusedEvent } from "../../../src/features/sessions/events.ts";
import { type RtcClient, type RtcServer, rtcServer, settled, until } from "../../harness/rtc.ts";

let server: RtcServer;
const start = async (overrides = {}) => {
  server = await rtcServer(overrides);
  return server;
};
afterEach(() => server.close());

/** The error that came before the close, and the close. */
const ending = async (client: RtcClient) => {
  await until(() => client.closed !== null);
  const error = client.frames.at(-1);
  expect(error?.message).toBeString();
  return [error?.code, client.closed?.code];
};

describe("[signaling] the socket is accepted, gets an error and is closed with its code", () => {
  test("a socket without a token, or with a bad or a revoked one, is closed with 4401", async () => {
    await start();
    const { token, tokenId, roomId } = await server.mint(await server.room(), "ada");
    expect(await ending(server.connect(null))).toEqual(["AUTH_ERROR", 4401]);
    expect(await ending(server.connect("nonsense"))).toEqual(["AUTH_ERROR", 4401]);
    expect(await ending(server.connect(`${token}x`))).toEqual(["AUTH_ERROR", 4401]);
    await server.call("DELETE", `/v1/rooms/${roomId}/rtc-tokens/${tokenId}`, { key: server.key });
    expect(await ending(server.connect(token))).toEqual(["TOKEN_REVOKED", 4401]);
  });

  test("a socket with an expired token is closed with 4440", async () => {
    await start();
    const { token } = await server.mint(await server.room(), "ada", { ttlSeconds: 30 });
    server.clock.advance(30_000);
    expect(await ending(server.connect(token))).toEqual(["TOKEN_EXPIRED", 4440]);
  });

  test("an origin that the project does not allow, and a token that may not join, are closed with 4403", async () => {
    await start();
    const roomId = await server.room();
    const { token } = await server.mint(roomId, "ada");
    server.runtime.db.$client.run(`UPDATE projects SET allowed_origins = '["https://good.example"]'`);
    server.runtime.bus.emit("projectChanged", { projectId: server.projectId });
    expect(await ending(server.connect(token, { origin: "https://evil.example" }))).toEqual([
      "ORIGIN_NOT_ALLOWED",
      4403,
    ]);
    expect((await server.connect(token, { origin: "https://good.example" }).join()).type).toBe("ack");
    expect((await server.connect(token, { origin: "http://localhost:5173" }).join()).type).toBe("ack");
    expect((await server.connect(token, { origin: null }).join()).type).toBe("ack");
    const { token: barred } = await server.mint(roomId, "eve", { permissions: { join: false } });
    const client = server.connect(barred);
    expect(await client.join()).toMatchObject({ type: "error", id: "r1", code: "PERMISSION_DENIED" });
    expect(client.closed?.code).toBe(4403);
  });

  test("an archived project closes its sockets with 4401, before the join and in a room, and no others", async () => {
    await start();
    const other = await server.project();
    const { body } = await server.call("POST", "/v1/rooms", { key: other.key, body: { name: "theirs" } });
    const minted = await server.call("POST", `/v1/rooms/${body.id}/rtc-tokens`, {
      key: other.key,
      body: { participantIdentity: "eve" },
    });
    const eve = server.connect(String(minted.body.token));
    await eve.join();
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const { token } = await server.mint(roomId, "bob");

    const owner = await server.session({ projectId: server.projectId, role: "OWNER" });
    await server.call("DELETE", `/v1/projects/${server.projectId}`, { key: owner.token });
    await until(() => ada.closed !== null);
    expect([ada.of("bye"), ada.closed?.code]).toEqual([[expect.objectContaining({ action: "stop" })], 4401]);
    expect(await ending(server.connect(token))).toEqual(["AUTH_ERROR", 4401]);
    expect(eve.closed).toBeNull();
  });

  test("a socket for a room that does not exist is closed with 4404", async () => {
    await start();
    const { token, roomId } = await server.mint(await server.room(), "ada");
    server.runtime.db.$client.run("PRAGMA foreign_keys = OFF");
    server.runtime.db.$client.run("DELETE FROM rooms WHERE id = ?", [roomId]);
    const client = server.connect(token);
    expect((await client.join()).code).toBe("ROOM_NOT_FOUND");
    expect(client.closed?.code).toBe(4404);
  });

  test("a socket without room.join within 10 s is closed with 4408", async () => {
    await start();
    const { token } = await server.mint(await server.room(), "ada");
    const client = server.connect(token);
    await settled();
    server.clock.advance(9_999);
    expect(client.closed).toBeNull();
    server.clock.advance(1);
    expect(await ending(client)).toEqual(["JOIN_TIMEOUT", 4408]);
  });

  test("a join in time cancels the timeout", async () => {
    await start();
    const ada = await server.joined(await server.room(), "ada");
    server.clock.advance(60_000);
    await settled();
    expect(ada.closed).toBeNull();
  });

  test("a room that is closed closes its sockets with 4410, before the join and while in it", async () => {
    await start();
    const roomId = await server.room();
    const { token } = await server.mint(roomId, "late");
    const ada = await server.joined(roomId, "ada");
    await server.call("DELETE", `/v1/rooms/${roomId}`, { key: server.key });
    expect(ada.of("bye")).toMatchObject([{ reason: "room_closed", action: "stop" }]);
    expect(ada.closed?.code).toBe(4410);
    const late = server.connect(token);
    expect((await late.join()).code).toBe("ROOM_CLOSED");
    expect(late.closed?.code).toBe(4410);
    await settled();
    expect(await server.node.rooms()).toEqual([]);
  });

  test("the end of a stream closes the sockets of its room with 4410 and stream_ended", async () => {
    await start();
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const ref = { projectId: server.projectId, roomId };
    await server.runtime.write((unit) => void server.services.rooms.close(unit, ref, "stream_ended"));
    expect(ada.of("bye")).toMatchObject([{ reason: "stream_ended", action: "stop" }]);
    expect(ada.closed?.code).toBe(4410);
  });

  test("a frame over the size limit is closed with 4413, and one at the limit is not", async () => {
    await start();
    const ada = await server.joined(await server.room(), "ada");
    const sized = (bytes: number) => {
      const head = '{"type":"ping","pad":"';
      return `${head}${"x".repeat(bytes - head.length - 2)}"}`;
    };
    ada.raw(sized(16_384));
    expect(ada.frames.at(-1)).toEqual({ type: "pong" });
    ada.raw(sized(16_385));
    expect(await ending(ada)).toEqual(["PAYLOAD_TOO_LARGE", 4413]);
  });

  test("4413 counts the bytes of a frame, not its characters", async () => {
    await start({ SIGNALING_MAX_MESSAGE_BYTES: 1024 });
    const ada = await server.joined(await server.room(), "ada");
    ada.raw(JSON.stringify({ type: "ping", pad: "é".repeat(600) }));
    expect(await ending(ada)).toEqual(["PAYLOAD_TOO_LARGE", 4413]);
  });

  test("one participant too many is closed with 4423, and a rejoining participant does not count twice", async () => {
    await start({ SIGNALING_MAX_PARTICIPANTS_PER_ROOM: 2 });
    const roomId = await server.room();
    await server.joined(roomId, "a");
    const b = await server.joined(roomId, "b");
    const { token } = await server.mint(roomId, "c");
    const c = server.connect(token);
    expect((await c.join()).code).toBe("ROOM_FULL");
    expect(c.closed?.code).toBe(4423);
    expect((await server.joined(roomId, "a")).ack.type).toBe("ack");
    await b.ask("room.leave");
    expect((await server.connect(token).join()).type).toBe("ack");
  });

  test("a room's own limit closes with 4423 and counts within the server's; other rooms have none", async () => {
    await start({ SIGNALING_MAX_PARTICIPANTS_PER_ROOM: 3 });
    const { key } = await server.project();
    const roomOf = async (maxParticipants: number) => {
      const { body } = await server.call("POST", "/v1/rooms", {
        key,
        body: { name: `r${maxParticipants}`, maxParticipants },
      });
      expect(body.maxParticipants).toBe(maxParticipants);
      return body.id as string;
    };
    const join = async (roomId: string, participantIdentity: string) => {
      const minted = await server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, {
        key,
        body: { participantIdentity },
      });
      const client = server.connect(minted.body.token as string);
      const reply = await client.join();
      return { reply, client };
    };
    const pair = await roomOf(2);
    const first = await join(pair, "a");
    expect(first.reply.limits).toMatchObject({ maxParticipants: 2 });
    expect((await join(pair, "b")).reply.type).toBe("ack");
    const { reply, client } = await join(pair, "c");
    expect([reply.code, reply.message]).toEqual(["ROOM_FULL", "The room is full: it takes at most 2 participants."]);
    expect(client.closed?.code).toBe(4423);
    await first.client.ask("room.leave");
    expect((await join(pair, "c")).reply.type).toBe("ack");

    const large = await roomOf(10_000);
    expect((await join(large, "a")).reply.limits).toMatchObject({ maxParticipants: 3 });
  });

  test("an address with too many attempts is closed with 4429, whatever its tokens, and no other address", async () => {
    await start({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 3 });
    const { token } = await server.mint(await server.room(), "ada");
    for (let attempt = 0; attempt < 3; attempt++) server.connect(attempt === 1 ? "bad" : token);
    const client = server.connect(token);
    expect(await ending(client)).toEqual(["RATE_LIMITED", 4429]);
    expect(client.frames[0]?.retryAfterSeconds).toBe(60);
    expect((await server.connect(token, { ipAddress: "10.0.0.9" }).join()).type).toBe("ack");
    server.clock.advance(60_000);
    expect((await server.connect(token).join()).type).toBe("ack");
  });

  test("the third malformed frame is closed with 4400, and each before gets an error", async () => {
    await start();
    for (const bad of ["{", "[]", '"text"', "7", "null", '{"id":"x"}', '{"type":7}', null]) {
      const ada = await server.joined(await server.room(), "ada");
      for (let times = 0; times < 2; times++) {
        ada.raw(bad);
        expect(ada.frames.at(-1)).toMatchObject({ type: "error", code: "INVALID_MESSAGE" });
        expect(ada.closed).toBeNull();
      }
      ada.raw(bad);
      expect(await ending(ada)).toEqual(["INVALID_MESSAGE", 4400]);
    }
  });

  test("an unknown type or an invalid field is an error with its id, as often as it comes", async () => {
    await start();
    const ada = await server.joined(await server.room(), "ada");
    for (let times = 0; times < 10; times++) {
      expect(await ada.ask("room.dance")).toMatchObject({ type: "error", code: "UNKNOWN_TYPE" });
      expect(await ada.ask("track.mute", { trackId: "t" })).toMatchObject({ type: "error", code: "VALIDATION_FAILED" });
    }
    for (const type of ["__proto__", "constructor", "toString"])
      expect((await ada.ask(type)).code).toBe("UNKNOWN_TYPE");
    expect(ada.closed).toBeNull();
  });

  test("a join is closed with 4503 when no node can take the room", async () => {
    await start();
    const roomId = await server.room();
    const { token } = await server.mint(roomId, "ada");
    await server.runtime.write((unit) => void server.services.fleet.drain(unit, "n1"));
    const drained = server.connect(token);
    expect((await drained.join()).code).toBe("NO_RTC_CAPACITY");
    expect(drained.closed?.code).toBe(4503);
    await server.runtime.write((unit) => void server.services.fleet.undrain(unit, "n1"));
    server.node.reachable = false;
    const unreachable = server.connect(token);
    expect((await unreachable.join()).code).toBe("NO_RTC_CAPACITY");
    server.node.reachable = true;
    server.clock.advance(3_600_000);
    const { token: fresh } = await server.mint(roomId, "ada");
    expect((await server.connect(fresh).join()).code).toBe("NO_RTC_CAPACITY");
    await server.runtime.write(
      (unit) => void server.services.fleet.beat(unit, "n1", { activeRooms: 0, activeParticipants: 0 }),
    );
    expect((await server.connect(fresh).join()).type).toBe("ack");
  });

  test("a draining node keeps its rooms, and participants can still join them", async () => {
    await start();
    const roomId = await server.room();
    await server.joined(roomId, "ada");
    await server.runtime.write((unit) => void server.services.fleet.drain(unit, "n1"));
    expect((await server.joined(roomId, "bob")).ack.serverName).toBe("n1");
  });

  test("open and new sockets are closed with 4500 when the server stops", async () => {
    await start();
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const { token } = await server.mint(roomId, "late");
    server.services.signaling.drain();
    expect(ada.of("bye")).toMatchObject([{ reason: "restart", action: "rejoin", retryAfterMs: expect.any(Number) }]);
    expect(ada.closed?.code).toBe(4500);
    expect(await ending(server.connect(token))).toEqual(["SHUTTING_DOWN", 4500]);
  });

  test("sockets are closed with 4500 when the worker of the room dies; rejoining works at once", async () => {
    await start();
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    server.node.crash();
    expect(ada.of("bye")).toMatchObject([{ reason: "node_lost", action: "rejoin" }]);
    expect(ada.closed?.code).toBe(4500);
    expect((await server.joined(roomId, "ada")).ack.mode).toBe("new");
  });

  test("only the sockets on the worker that died are closed with 4500 when the room was on others too", async () => {
    await start();
    const roomId = await server.room();
    const [ada, bob] = [await server.joined(roomId, "ada"), await server.joined(roomId, "bob")];
    await server.joined(await server.room(), "carol");
    const participantIds = [String(bob.ack.sessionId)];
    for (const { ack } of [ada, bob]) server.node.connect(String(ack.sessionId));
    server.node.emit({ type: "workerCrashed", worker: 1, rooms: [{ roomId, participantIds, remains: true }] });
    await settled();
    expect(bob.of("bye")).toMatchObject([{ reason: "node_lost", action: "rejoin" }]);
    expect(bob.closed?.code).toBe(4500);
    expect(ada.of("bye")).toEqual([]);
    expect(ada.of("participant.left")).toMatchObject([{ identity: "bob", reason: "node_lost" }]);
    expect((await server.joined(roomId, "bob")).ack.participants).toMatchObject([{ identity: "ada" }]);
  });
});

test("[15] every refusal is emitted as an event without the token", async () => {
  await start();
  const events: RtcRefusedEvent[] = [];
  server.runtime.bus.on("rtcRefused", (event) => events.push(event));
  const { token, tokenId, roomId } = await server.mint(await server.room(), "ada", { permissions: { join: false } });
  await server.connect(token).join({ connectionId: "mine", sdk: "sdk/1" });
  server.connect("bad", { ipAddress: "10.1.1.1" });
  await settled();
  expect(events).toEqual([
    {
      code: "PERMISSION_DENIED",
      message: expect.any(String),
      closeCode: 4403,
      projectId: server.projectId,
      environment: "DEVELOPMENT",
      roomId,
      participantIdentity: "ada",
      tokenId,
      connectionId: "mine",
      sdk: "sdk/1",
      userAgent: "test",
      ipAddress: "127.0.0.1",
      startedAt: server.clock.now(),
      at: server.clock.now(),
    },
    expect.objectContaining({ code: "AUTH_ERROR", closeCode: 4401, projectId: null, ipAddress: "10.1.1.1" }),
  ]);
  expect(JSON.stringify(events)).not.toContain(token);
});
