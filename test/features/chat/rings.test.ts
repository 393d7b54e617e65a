import { afterAll, beforeAll, expect, test } from "bun:test";
import { type RtcServer, rtcServer, settled } from "../../harness/rtc.ts";
import { type ChatRest, chatRestOf, outcome } from "./rest.ts";
import { type Fake, fakeNetwork } from "./socket/fake-socket.ts";
import type { Body } from "./world.ts";

let server: RtcServer;
let chat: ChatRest;
let network: ReturnType<typeof fakeNetwork>;
beforeAll(async () => {
  server = await rtcServer({ CHAT_RING_RATE_LIMIT: 1000, CHAT_CONNECTION_RATE_LIMIT: 1000 });
  chat = chatRestOf(server, server);
  network = fakeNetwork(chat);
});
afterAll(() => server.close());

let rooms = 0;
async function attached(...members: string[]): Promise<{ roomId: string; id: string }> {
  const roomId = await server.room();
  const { id } = await chat.room(`ring-room-${++rooms}`, members, { roomId });
  return { roomId, id };
}
const seen = ({ socket }: Fake, type: string): Body[] => socket.frames.filter((frame) => frame.type === type);
const ring = (credential: string, room: string, body: object = {}) =>
  chat.ask(credential, "POST", `/v1/chat/conversations/${room}/rings`, body);
const callTexts = async (room: string): Promise<string[]> =>
  (await chat.history(chat.key, room)).body.data
    .filter(({ type }: Body) => type === "event")
    .map(({ text }: Body) => text);
const statuses = ({ members }: Body): string[] => members.map(({ userId, status }: Body) => `${userId} ${status}`);
async function pass(ms: number): Promise<void> {
  server.clock.advance(ms);
  await server.runtime.writer.drain();
}

test("a ring reaches all sockets of the rung members, joined or not, and an answer ends it on all of them", async () => {
  const { id } = await attached("ada", "bob");
  const [ada, phone, laptop] = [
    await network.connect("ada"),
    await network.connect("bob"),
    await network.connect("bob"),
  ];
  const begun: Body = (await ada.say("call.ring", { room: id, metadata: { video: true } })).ring;
  expect(begun).toMatchObject({ callerId: "ada", status: "RINGING", metadata: { video: true }, endedAt: null });
  for (const device of [phone, laptop])
    expect(seen(device, "call.ringing")).toMatchObject([{ ring: { id: begun.id } }]);
  // Ringing again during the ring returns the same ring and notifies no member twice.
  expect((await ada.say("call.ring", { room: id })).ring).toMatchObject({ id: begun.id });
  const answered = await phone.say("call.answer", { ringId: begun.id });
  expect(answered.ring).toMatchObject({ status: "ANSWERED" });
  for (const device of [ada, laptop]) {
    expect(seen(device, "call.ring_updated")).toMatchObject([{ ring: { status: "ANSWERED" } }]);
  }
  expect(seen(laptop, "call.ringing")).toHaveLength(1);
  // A second device that answers the same hears the same; one that declines comes too late.
  expect((await laptop.say("call.answer", { ringId: begun.id })).type).toBe("ack");
  expect(await laptop.say("call.decline", { ringId: begun.id })).toMatchObject({ type: "error", code: "RING_OVER" });
  expect(await callTexts(id)).toEqual([]);
});

test("an unanswered ring is missed and posts a message, a declined one does not", async () => {
  const { id } = await attached("ada", "bob", "cy");
  const token = await chat.token("ada");
  const { status, body } = await ring(token, id, { timeoutSeconds: 10 });
  expect(status).toBe(201);
  await chat.ask(await chat.token("bob"), "POST", `/v1/chat/rings/${body.id}/decline`, {});
  await pass(9_999);
  expect((await chat.ask(token, "GET", `/v1/chat/rings/${body.id}`)).body.status).toBe("RINGING");
  await pass(1);
  const over = (await chat.ask(token, "GET", `/v1/chat/rings/${body.id}`)).body;
  expect([over.status, ...statuses(over)]).toEqual(["MISSED", "bob DECLINED", "cy MISSED"]);
  expect(await callTexts(id)).toEqual(["Missed call from ada"]);

  const second = (await ring(token, id, { userIds: ["bob"] })).body;
  await chat.ask(await chat.token("bob"), "POST", `/v1/chat/rings/${second.id}/decline`, {});
  expect((await chat.ask(token, "GET", `/v1/chat/rings/${second.id}`)).body.status).toBe("DECLINED");
  expect(await callTexts(id)).toHaveLength(1);
});

test("joining the room answers the ring, and the end of the call ends it with one message", async () => {
  const { roomId, id } = await attached("ada", "bob", "cy");
  const begun = (await ring(await chat.token("ada"), id)).body;
  const ada = await server.joined(roomId, "ada");
  const bob = await server.joined(roomId, "bob");
  await settled();
  const going = (await chat.ask(chat.key, "GET", `/v1/chat/rings/${begun.id}`)).body;
  expect([going.status, ...statuses(going)]).toEqual(["RINGING", "bob ANSWERED", "cy RINGING"]);
  for (const client of [ada, bob]) await client.ask("room.leave");
  await settled();
  const over = (await chat.ask(chat.key, "GET", `/v1/chat/rings/${begun.id}`)).body;
  expect([over.status, ...statuses(over)]).toEqual(["ANSWERED", "bob ANSWERED", "cy MISSED"]);
  expect(await callTexts(id)).toEqual(["Call ended, 0 s"]);
});

test("a socket that opens during a ring receives it, and the caller can cancel it", async () => {
  const { id } = await attached("ada", "bob");
  const token = await chat.token("ada");
  const begun = (await ring(token, id)).body;
  const late = await network.connect("bob");
  expect(seen(late, "call.ringing")).toMatchObject([{ ring: { id: begun.id } }]);
  const bob = await chat.token("bob");
  expect(outcome(await chat.ask(bob, "POST", `/v1/chat/rings/${begun.id}/cancel`, {}))).toContain("PERMISSION_DENIED");
  const cancelled = await chat.ask(token, "POST", `/v1/chat/rings/${begun.id}/cancel`, {});
  expect(cancelled.body).toMatchObject({ status: "CANCELLED", members: [{ userId: "bob", status: "MISSED" }] });
  expect(seen(late, "call.ring_updated")).toHaveLength(1);
  expect(await callTexts(id)).toEqual(["Missed call from ada"]);
  // No timer of the ring is left.
  await pass(400_000);
  expect(await callTexts(id)).toHaveLength(1);
});

test("a ring continues after a restart, and one that expired meanwhile is missed", async () => {
  const { id } = await attached("ada", "bob");
  const { rings } = server.services.chat;
  const begun = (await ring(await chat.token("ada"), id, { timeoutSeconds: 30 })).body;
  // The first process forgets its timers; the next one finds what is due.
  rings.start()();
  await pass(31_000);
  expect((await chat.ask(chat.key, "GET", `/v1/chat/rings/${begun.id}`)).body.status).toBe("RINGING");
  const stop = rings.start();
  await pass(0);
  expect((await chat.ask(chat.key, "GET", `/v1/chat/rings/${begun.id}`)).body.status).toBe("MISSED");
  stop();
});

test("invalid rings are refused with a reason, and non-members get 404", async () => {
  const { id } = await attached("ada", "bob");
  const plain = await chat.room("no-room", ["ada", "bob"]);
  const token = await chat.token("ada");
  expect(outcome(await ring(token, plain.id))).toBe("409 SVC_CONFLICT");
  expect(outcome(await ring(token, id, { userIds: ["nobody"] }))).toBe("404 SVC_MEMBER_NOT_FOUND");
  expect(outcome(await ring(token, id, { userIds: ["ada"] }))).toBe("400 SVC_VALIDATION_FAILED");
  expect(outcome(await ring(token, id, { timeoutSeconds: 4 }))).toBe("400 SVC_VALIDATION_FAILED");
  const begun = (await ring(token, id)).body;
  const stranger = await chat.token("mallory");
  expect(outcome(await chat.ask(stranger, "GET", `/v1/chat/rings/${begun.id}`))).toBe("404 SVC_RING_NOT_FOUND");
  const other = await server.project();
  expect(outcome(await chat.ask(other.key, "GET", `/v1/chat/rings/${begun.id}`))).toBe("404 SVC_RING_NOT_FOUND");
});
