import { afterAll, describe, expect, test } from "bun:test";
import { rtcServer, settled } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { clock } = server;
const session = await server.session({ projectId: server.projectId, role: "DEVELOPER" });
// Events are stored only while a webhook endpoint subscribes to them.
const hook = { key: session.token, body: { url: "https://example.com/hook" } };
await server.call("POST", `/v1/projects/${server.projectId}/webhooks`, hook);

type Event = { type: string; data: Record<string, unknown>; createdAt: string };

/** The events of a room's calls in the outbox, in order. */
function told(roomId: string): Event[] {
  return server.runtime.db.$client
    .query<{ body: string }, []>("SELECT body FROM webhook_events WHERE type LIKE 'call.%' ORDER BY seq")
    .all()
    .map(({ body }) => JSON.parse(body) as Event)
    .filter(({ data }) => data.roomId === roomId);
}
const types = (roomId: string) => told(roomId).map(({ type }) => type.replace("call.", ""));

const key = server.key;
const calls = async (query = "") => (await server.call("GET", `/v1/calls${query}`, { key })).body as unknown as Call[];
type Call = {
  id: string;
  status: string;
  durationMs: number;
  participantCount: number;
  peakParticipants: number;
  endedAt: string | null;
  participants?: Record<string, unknown>[];
};

describe("[17] calls", () => {
  test("a call lasts from the first join to the last leave", async () => {
    const roomId = await server.room();
    expect(await calls(`?roomId=${roomId}`)).toEqual([]);
    const ada = await server.joined(roomId, "ada");
    clock.advance(1_000);
    const bob = await server.joined(roomId, "bob");
    clock.advance(1_000);
    await ada.ask("room.leave");
    await settled();
    const [live] = await calls(`?roomId=${roomId}&status=LIVE`);
    expect(live).toMatchObject({
      status: "LIVE",
      participantCount: 2,
      peakParticipants: 2,
      durationMs: 2_000,
      endedAt: null,
    });
    clock.advance(1_000);
    await bob.ask("room.leave");
    await settled();
    const [ended] = await calls(`?roomId=${roomId}&status=ENDED`);
    const { name } = (await server.call("GET", `/v1/rooms/${roomId}`, { key })).body;
    expect(told(roomId).at(-1)).toMatchObject({ type: "call.ended", data: { roomName: name } });
    expect(ended).toMatchObject({ id: live?.id, status: "ENDED", durationMs: 3_000, participantCount: 2 });
    expect(types(roomId)).toEqual([
      "started",
      "participant_joined",
      "participant_joined",
      "participant_left",
      "participant_left",
      "ended",
    ]);
    const { body } = await server.call("GET", `/v1/calls/${ended?.id}`, { key });
    expect(body.participants).toMatchObject([
      { identity: "ada", leaveReason: "left" },
      { identity: "bob", leaveReason: "left" },
    ]);
    expect(told(roomId).at(-1)?.data).toMatchObject({
      callId: ended?.id,
      durationMs: 3_000,
      participantCount: 2,
      peakParticipants: 2,
    });
  });

  test("a call outlasts a dropped socket, and ends when the resume window is over", async () => {
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    await settled();
    ada.cut();
    clock.advance(19_999);
    await settled();
    expect(types(roomId)).toEqual(["started", "participant_joined"]);
    clock.advance(1);
    await settled();
    expect(types(roomId)).toEqual(["started", "participant_joined", "participant_left", "ended"]);
    expect(told(roomId)[2]?.data).toMatchObject({ identity: "ada", reason: "timeout", durationMs: 20_000 });
  });

  test("a call does not end when a client replaces another, and counts its identity once", async () => {
    const roomId = await server.room();
    const first = await server.joined(roomId, "ada");
    await server.joined(roomId, "ada", { join: { connectionId: "another" } });
    await settled();
    expect(first.closed).toMatchObject({ code: 4409 });
    expect(types(roomId)).toEqual(["started", "participant_joined", "participant_left", "participant_joined"]);
    expect(await calls(`?roomId=${roomId}`)).toMatchObject([
      { status: "LIVE", participantCount: 1, peakParticipants: 1 },
    ]);
  });

  test("a call does not end when a client that is still joining is replaced itself", async () => {
    const roomId = await server.room();
    const join = async (connectionId: string) => {
      const { token } = await server.mint(roomId, "ada");
      return { answer: server.connect(token).join({ connectionId }) };
    };
    await (await join("first")).answer;
    const { node } = server;
    const { addParticipant } = node;
    const [entering, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    node.addParticipant = async (participant) => {
      entering.resolve();
      await held.promise;
      return addParticipant(participant);
    };
    const second = await join("second");
    await entering.promise;
    node.addParticipant = addParticipant;
    expect(await (await join("third")).answer).toMatchObject({ type: "ack", mode: "replaced" });
    held.resolve();
    expect((await second.answer).type).toBe("error");
    await settled();
    expect(types(roomId)).toEqual(["started", "participant_joined", "participant_left", "participant_joined"]);
  });

  test("closing a room ends its call and all participations", async () => {
    const roomId = await server.room();
    await server.joined(roomId, "ada");
    await server.joined(roomId, "bob");
    expect((await server.call("DELETE", `/v1/rooms/${roomId}`, { key })).status).toBe(200);
    await settled();
    expect(types(roomId).slice(-3)).toEqual(["participant_left", "participant_left", "ended"]);
    expect(types(roomId).filter((type) => type === "ended")).toHaveLength(1);
  });

  test("other projects cannot read a call, and an unknown call is not found", async () => {
    const roomId = await server.room();
    await server.joined(roomId, "ada");
    await settled();
    const [call] = await calls(`?roomId=${roomId}`);
    const other = await server.project();
    expect((await server.call("GET", `/v1/calls/${call?.id}`, { key: other.key })).body.code).toBe(
      "SVC_CALL_NOT_FOUND",
    );
    expect((await server.call("GET", "/v1/calls?status=OVER", { key })).status).toBe(400);
    expect((await server.call("GET", "/v1/calls?roomId=nobody", { key })).body.code).toBe("SVC_ROOM_NOT_FOUND");
  });

  test("after a crash, an unfinished call and its participations are ended once, with the time at which the call was last seen", async () => {
    const roomId = await server.room();
    await server.joined(roomId, "ada");
    await settled();
    const { db, write } = server.runtime;
    const [call] = await calls(`?roomId=${roomId}`);
    const seenAt = clock.now() + 7_000;
    await write(
      () => void db.$client.run("UPDATE calls SET last_seen_at = ? WHERE public_id = ?", [seenAt, call?.id ?? ""]),
    );
    clock.advance(60_000);
    const { createCalls } = await import("../../../src/features/sessions/calls/calls.ts");
    const after = createCalls(server.runtime, {
      cpuOf: () => null,
      minutesIn: () => 0,
      isEncrypted: () => false,
      recordingsOf: () => [],
      roomMessages: () => [],
      connectionHistory: () => ({ events: [], errors: [] }),
    });
    after.log.recover();
    await after.log.settle();
    const [ended] = (await calls(`?roomId=${roomId}`)) as [Call];
    expect(ended.endedAt).toBe(new Date(seenAt).toISOString());
    expect(types(roomId)).toEqual(["started", "participant_joined", "participant_left", "ended"]);
    await after.log.settle();
    expect(types(roomId)).toHaveLength(4);
  });
});
