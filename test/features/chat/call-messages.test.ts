import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { callText, durationText } from "../../../src/features/chat/calls/call-note.ts";
import { type RtcServer, rtcServer, settled } from "../../harness/rtc.ts";
import { type ChatRest, chatRestOf } from "./rest.ts";
import type { Body } from "./world.ts";

let server: RtcServer;
let chat: ChatRest;
beforeAll(async () => {
  server = await rtcServer();
  chat = chatRestOf(server, server);
});
afterAll(() => server.close());

/** A room with a conversation of these members attached to it. */
async function attached(...members: string[]): Promise<{ roomId: string; id: string }> {
  const roomId = await server.room();
  const { id } = await chat.room(`chat-${roomId.slice(-12)}`, members, { roomId });
  return { roomId, id };
}
const callMessages = async (room: string): Promise<Body[]> =>
  (await chat.history(chat.key, room)).body.data.filter(({ type }: Body) => type === "event");

describe("a call in the conversation of its room", () => {
  test("is one message that is updated at each join and at the end, each time with an event", async () => {
    const { roomId, id } = await attached("ada", "bob", "cy");
    const ada = await server.joined(roomId, "ada");
    await settled();
    const [begun] = await callMessages(id);
    expect(begun).toMatchObject({ senderId: null, text: "Call started: ada joined", edited: false });
    const bob = await server.joined(roomId, "bob");
    await settled();
    expect((await callMessages(id)).map(({ text }) => text)).toEqual(["Call started: ada and bob joined"]);
    server.clock.advance(12 * 60_000);
    for (const client of [ada, bob]) await client.ask("room.leave");
    await settled();
    const [ended, ...others] = await callMessages(id);
    expect(others).toEqual([]);
    expect(ended).toMatchObject({
      id: begun.id,
      text: "Call ended, 12 min",
      edited: false,
      metadata: { call: { status: "ENDED", durationMs: 720_000, participants: ["ada", "bob"], missed: ["cy"] } },
    });
    const events = (await chat.events(id)).filter(({ message }) => message?.id === begun.id);
    expect(events.map(({ type }) => type)).toEqual(["message", ...Array(3).fill("message.updated")]);
    // Unread counts and search come with being a message.
    const cy = await chat.token("cy");
    expect((await chat.ask(cy, "GET", "/v1/chat/unread")).body).toMatchObject({ total: 1, mentions: 0 });
    const found = await chat.ask(cy, "GET", `/v1/chat/conversations/${id}/search?q=ended`);
    expect(found.body.map((one: Body) => one.id)).toEqual([begun.id]);
  });

  test("has a second message at its end when others were sent during it, with a sender name that can be displayed", async () => {
    const { roomId, id } = await attached("ada", "bob");
    const ada = await server.joined(roomId, "ada");
    const bob = await server.joined(roomId, "bob");
    await settled();
    const words = await chat.token("bob");
    await chat.ask(words, "POST", `/v1/chat/conversations/${id}/messages`, { text: "Do you hear me?" });
    server.clock.advance(60_000);
    for (const client of [ada, bob]) await client.ask("room.leave");
    await settled();
    const lines: Body[] = (await chat.history(chat.key, id)).body.data.toReversed();
    expect(lines.map(({ senderName, text }) => `${senderName}: ${text}`)).toEqual([
      "System: Call started: ada and bob joined",
      "bob: Do you hear me?",
      "System: Call ended, 1 min",
    ]);
    // Both know that the call is over.
    const notes = lines.flatMap(({ metadata }) => metadata?.call ?? []);
    expect(notes).toMatchObject(Array(2).fill({ status: "ENDED", durationMs: 60_000 }));

    const again = await server.joined(roomId, "ada");
    await settled();
    const [latest] = await callMessages(id);
    expect(latest).toMatchObject({ text: "Call started: ada joined", metadata: { call: { status: "LIVE" } } });
    await again.ask("room.leave");
  });

  test("is posted to a conversation that the room gets during the call", async () => {
    const fresh = await rtcServer();
    const own = chatRestOf(fresh, fresh);
    const roomId = await fresh.room();
    await fresh.joined(roomId, "ada");
    await settled();
    const { id } = await own.room("within", ["ada", "bob"], { roomId });
    await fresh.joined(roomId, "bob");
    await settled();
    const { data } = (await own.history(own.key, id)).body;
    expect(data.map(({ text }: Body) => text)).toEqual(["Call started: bob joined"]);
    await fresh.close();
  });

  test("is a missed call when no other member joined", async () => {
    const { roomId, id } = await attached("ada", "bob");
    const ada = await server.joined(roomId, "ada");
    server.clock.advance(20_000);
    await ada.ask("room.leave");
    await settled();
    expect(await callMessages(id)).toMatchObject([
      { text: "Missed call from ada", metadata: { call: { missed: ["bob"] } } },
    ]);
  });

  test("is not posted again after its message was deleted, nor to an archived conversation", async () => {
    const { roomId, id } = await attached("ada", "bob");
    const ada = await server.joined(roomId, "ada");
    await settled();
    const [message] = await callMessages(id);
    await chat.ask(chat.key, "DELETE", `/v1/chat/messages/${message.id}`);
    await server.joined(roomId, "bob");
    await ada.ask("room.leave");
    await settled();
    expect(await callMessages(id)).toEqual([]);

    const archived = await attached("ada");
    await chat.ask(chat.key, "PATCH", `/v1/chat/conversations/${archived.id}`, { status: "ARCHIVED" });
    await server.joined(archived.roomId, "ada");
    await settled();
    expect(await callMessages(archived.id)).toEqual([]);
    expect((await chat.ask(chat.key, "GET", `/v1/calls?roomId=${archived.roomId}`)).body).toHaveLength(1);
  });

  test("posts no message when it belongs to a live stream", async () => {
    const body = { title: "stage", hostIdentity: "ada" };
    const { body: stream } = await chat.ask(chat.key, "POST", "/v1/live-streams", body);
    await chat.ask(chat.key, "POST", `/v1/live-streams/${stream.id}/start`, {});
    await server.joined(stream.roomId, "ada");
    await settled();
    expect((await chat.ask(chat.key, "GET", `/v1/calls?roomId=${stream.roomId}`)).body).toHaveLength(1);
    expect(await callMessages(stream.conversationId)).toEqual([]);
  });
});

test("durations and names have a readable text", () => {
  expect([500, 59_400, 60_000, 90_000, 720_000, 3_600_000, 5_580_000].map(durationText)).toEqual([
    "1 s",
    "59 s",
    "1 min",
    "2 min",
    "12 min",
    "1 h 00 min",
    "1 h 33 min",
  ]);
  const base = {
    callId: "c",
    ringId: null,
    roomId: "r",
    callerId: null,
    startedAt: "",
    endedAt: null,
    durationMs: null,
  };
  const live = (participants: string[], participantCount = participants.length) =>
    callText({ ...base, status: "LIVE", participants, participantCount, missed: [] });
  expect([live([]), live(["a"]), live(["a", "b", "c"]), live(["a", "b", "c", "d"]), live(["a", "b", "c"], 70)]).toEqual(
    [
      "Call started",
      "Call started: a joined",
      "Call started: a, b and c joined",
      "Call started: a, b, c and 1 other joined",
      "Call started: a, b, c and 67 others joined",
    ],
  );
});
