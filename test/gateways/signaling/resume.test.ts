import { afterAll, describe, expect, test } from "bun:test";
import type { RtcConnectionEvent } from "../../../src/features/sessions/events.ts";
import { type Frame, type RtcClient, rtcServer, settled, until } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { clock, node } = server;

type Joined = RtcClient & { ack: Frame };
const resumeOf = ({ ack }: { ack: Frame }, lastSeq: number, changes = {}) => ({
  connectionId: "mine",
  resume: { sessionId: ack.sessionId, resumeToken: ack.resumeToken, lastSeq, ...changes },
});

/** Ada, who can come back, and a watcher who knows her. */
async function scene() {
  const roomId = await server.room();
  const watcher = await server.joined(roomId, "watcher");
  const { token, tokenId } = await server.mint(roomId, "ada");
  const first = server.connect(token);
  const ada: Joined = Object.assign(first, { ack: await first.join({ connectionId: "mine" }) });
  clock.advance(5_000);
  const back = (fields: object) => {
    const client = server.connect(token);
    return client.join(fields).then((ack) => Object.assign(client, { ack }));
  };
  return { roomId, watcher, ada, token, tokenId, back, path: `/v1/rooms/${roomId}` };
}
const speak = (roomId: string, level: number) =>
  node.emit({ type: "speakersChanged", roomId, speakers: [{ identity: "watcher", level }] });

describe("[signaling] resume", () => {
  test("keeps participant and media for 20 s, unnoticed by others", async () => {
    const { ada, watcher, back, roomId } = await scene();
    const before = watcher.frames.length;
    ada.cut();
    clock.advance(19_999);
    const again = await back(resumeOf(ada, ada.ack.seq as number));
    expect(again.ack).toMatchObject({ type: "ack", mode: "resumed", sessionId: ada.ack.sessionId });
    clock.advance(60_000);
    expect(watcher.frames.slice(before)).toEqual([]);
    expect(node.peers().filter((peer) => peer.roomId === roomId)).toHaveLength(2);
  });

  test("after the resume window the participant has left", async () => {
    const { ada, watcher, back } = await scene();
    ada.cut();
    clock.advance(19_999);
    expect(watcher.of("participant.left")).toEqual([]);
    clock.advance(1);
    expect(watcher.of("participant.left")).toMatchObject([{ identity: "ada", reason: "timeout" }]);
    const again = await back(resumeOf(ada, 0));
    expect(again.ack.mode).toBe("new");
    expect(again.ack.sessionId).not.toBe(ada.ack.sessionId);
  });

  test("replays exactly the missed pushes, in order, and continues", async () => {
    const { ada, back, roomId } = await scene();
    speak(roomId, 0.1);
    const seen = ada.frames.at(-1)?.seq as number;
    ada.cut();
    for (const level of [0.2, 0.3]) speak(roomId, level);
    const again = await back(resumeOf(ada, seen));
    expect(again.ack.seq).toBe(seen);
    speak(roomId, 0.4);
    const pushes = again.of("speakers.changed") as unknown as { seq: number; speakers: [{ level: number }] }[];
    expect(pushes.map(({ seq, speakers }) => [seq, speakers[0].level])).toEqual([
      [seen + 1, 0.2],
      [seen + 2, 0.3],
      [seen + 3, 0.4],
    ]);
  });

  test("sends a snapshot when too much was missed or the number is unknown", async () => {
    const { ada, back, roomId, watcher } = await scene();
    ada.cut();
    for (let times = 0; times < 257; times++) speak(roomId, 0.5);
    const again = await back(resumeOf(ada, 0));
    expect(again.ack).toMatchObject({ mode: "resumed", seq: 258, participants: [{ identity: "watcher" }] });
    expect(again.frames).toHaveLength(1);
    again.cut();
    const odd = await back(resumeOf(again, 9_999));
    expect(odd.ack).toMatchObject({ mode: "resumed", seq: 258 });
    expect(watcher.of("participant.left")).toEqual([]);
  });

  test("its token works once and changes each time", async () => {
    const { ada, back } = await scene();
    ada.cut();
    const again = await back(resumeOf(ada, 0));
    expect(again.ack.resumeToken).not.toBe(ada.ack.resumeToken);
    again.cut();
    const replayed = await back(resumeOf(ada, 0));
    expect(replayed.ack.mode).toBe("replaced");
    expect(replayed.ack.sessionId).not.toBe(ada.ack.sessionId);
  });

  test("only the same client with the same identity resumes", async () => {
    const { ada, back, roomId } = await scene();
    ada.cut();
    const guesses = [{ resumeToken: "x".repeat(43) }, { sessionId: "unknown" }, { resumeToken: "" }];
    for (const guess of guesses) expect((await back(resumeOf(ada, 0, guess))).ack.mode).not.toBe("resumed");
    const { ada: victim } = await scene();
    victim.cut();
    const thief = await server.joined(roomId, "eve", { join: resumeOf(victim, 0) });
    expect(thief.ack).toMatchObject({ mode: "new", participant: { identity: "eve" } });
  });

  test("takes over from a socket that still looks open to the server", async () => {
    const { ada, back, roomId } = await scene();
    const again = await back(resumeOf(ada, ada.ack.seq as number));
    expect(again.ack.mode).toBe("resumed");
    expect(ada.closed?.code).toBe(4409);
    await settled();
    speak(roomId, 0.7);
    expect(again.of("speakers.changed")).toHaveLength(1);
    clock.advance(60_000);
    expect(again.closed).toBeNull();
  });

  test("needs no unexpired token; without a session an expired one is refused", async () => {
    const { ada, back, token } = await scene();
    clock.advance(700_000);
    ada.cut();
    expect((await back(resumeOf(ada, 0))).ack.mode).toBe("resumed");
    const other = server.connect(token);
    expect(await other.join({ connectionId: "another" })).toMatchObject({ type: "error", code: "TOKEN_EXPIRED" });
    expect(other.closed?.code).toBe(4440);
  });

  test("any close without room.leave begins the resume window, even after a protocol violation", async () => {
    const { ada, back, watcher } = await scene();
    ada.raw("x".repeat(16_385));
    expect(ada.closed?.code).toBe(4413);
    await settled();
    expect((await back(resumeOf(ada, 0))).ack.mode).toBe("resumed");
    expect(watcher.of("participant.left")).toEqual([]);
  });

  test("room.leave leaves nothing to resume", async () => {
    const { ada, back } = await scene();
    await ada.ask("room.leave");
    expect((await back(resumeOf(ada, 0))).ack.mode).toBe("new");
  });
});

describe("[2] what ends a session ends its resume", () => {
  test("a revoked token disconnects with 4401 and cannot resume", async () => {
    const { ada, tokenId, token, path, watcher } = await scene();
    await server.call("DELETE", `${path}/rtc-tokens/${tokenId}`, { key: server.key });
    expect(ada.of("bye")).toMatchObject([{ reason: "revoked", action: "stop" }]);
    expect(ada.closed?.code).toBe(4401);
    expect(watcher.of("participant.left")).toMatchObject([{ identity: "ada", reason: "revoked" }]);
    for (const fields of [resumeOf(ada, 0), { connectionId: "new" }]) {
      const client = server.connect(token);
      client.send({ type: "room.join", id: "1", ...fields });
      await until(() => client.closed !== null);
      expect([client.frames.at(-1)?.code, client.closed?.code]).toEqual(["TOKEN_REVOKED", 4401]);
    }
  });

  test("a token that is revoked while the socket is away ends the resume window at once", async () => {
    const { ada, tokenId, token, path, watcher } = await scene();
    ada.cut();
    await server.call("DELETE", `${path}/rtc-tokens/${tokenId}`, { key: server.key });
    expect(watcher.of("participant.left")).toMatchObject([{ identity: "ada", reason: "revoked" }]);
    const client = server.connect(token);
    await until(() => client.closed !== null);
    expect(client.closed?.code).toBe(4401);
  });

  test("a closed room cannot be resumed", async () => {
    const { ada, path, back } = await scene();
    ada.cut();
    await server.call("DELETE", path, { key: server.key });
    expect((await back(resumeOf(ada, 0))).ack).toMatchObject({ type: "error", code: "ROOM_CLOSED" });
  });
});

test("[15] a connection's changes are emitted as events", async () => {
  const events: RtcConnectionEvent[] = [];
  const stop = server.runtime.bus.on("rtcConnection", (event) => events.push(event));
  const { ada, back, roomId } = await scene();
  const sessionId = String(ada.ack.sessionId);
  await ada.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] });
  clock.advance(250);
  node.connect(sessionId);
  ada.cut();
  const again = await back(resumeOf(ada, 0));
  node.emit({ type: "participantFailed", roomId, participantId: sessionId, identity: "ada", reason: "ice_timeout" });
  await again.ask("room.leave");
  stop();
  const hers = events.filter((event) => event.sessionId === sessionId);
  expect(hers.map(({ type }) => type)).toEqual([
    "started",
    "connected",
    "reconnecting",
    "reconnected",
    "mediaFailed",
    "left",
  ]);
  expect(hers[1]).toMatchObject({ joinTimeMs: 5_250, transport: "udp" });
  expect(hers[0]).toMatchObject({
    connectionId: "mine",
    projectId: server.projectId,
    environment: "DEVELOPMENT",
    roomId,
    roomName: expect.any(String),
    participantIdentity: "ada",
    tokenId: expect.any(String),
    serverName: "n1",
    sdk: null,
    userAgent: "test",
    ipAddress: "127.0.0.1",
    startedAt: expect.any(Number),
    at: expect.any(Number),
  });
  expect(hers.at(-1)).toMatchObject({ type: "left", reason: "left" });
});
