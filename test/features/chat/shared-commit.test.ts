import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Frame } from "./client.ts";
import { type ChatRest, chatRest } from "./rest.ts";
import { type Fake, fakeNetwork } from "./socket/fake-socket.ts";

let chat: ChatRest;
let network: ReturnType<typeof fakeNetwork>;
beforeEach(async () => {
  chat = await chatRest();
  network = fakeNetwork(chat);
});
afterEach(() => chat.close());

/** A conversation of its own for each reason to refuse, with the frame that runs into it. */
const REFUSALS: Record<string, (room: string) => Promise<object>> = {
  async MUTED(room) {
    const mutedUntil = new Date(chat.clock.now() + 60_000).toISOString();
    await chat.ask(chat.key, "PATCH", `/v1/chat/conversations/${room}/members/bob`, { mutedUntil });
    return { text: "muted" };
  },
  async SLOW_MODE(room) {
    await chat.ask(chat.key, "PATCH", `/v1/chat/conversations/${room}`, { slowModeSeconds: 30 });
    await chat.send(await chat.token("bob"), room, "first");
    return { text: "too soon" };
  },
  async CONVERSATION_ARCHIVED(room) {
    await chat.ask(chat.key, "PATCH", `/v1/chat/conversations/${room}`, { status: "ARCHIVED" });
    return { text: "over" };
  },
  async MESSAGE_DELETED(room) {
    const { body } = await chat.send(chat.key, room, "gone in a moment");
    await chat.ask(chat.key, "DELETE", `/v1/chat/messages/${body.id}`);
    return { text: "to what?", replyTo: body.id };
  },
  MESSAGE_NOT_FOUND: async () => ({ text: "to what?", replyTo: "msg_00000000000000000000000000" }),
  ATTACHMENT_NOT_FOUND: async () => ({ attachmentId: "att_00000000000000000000000000" }),
  async ATTACHMENT_NOT_READY(room) {
    const file = { filename: "a.txt", mimeType: "text/plain", size: 3 };
    const asked = await chat.ask(await chat.token("bob"), "POST", `/v1/chat/conversations/${room}/attachments`, file);
    return { attachmentId: asked.body.id };
  },
};

async function member(user: string, room: string): Promise<Fake> {
  const fake = await network.connect(user);
  await fake.say("room.join", { room });
  return fake;
}

test("[4.3] a refused message that shares a commit with others does not affect them", async () => {
  const refused: { code: string; say: () => Promise<Frame> }[] = [];
  for (const [code, prepare] of Object.entries(REFUSALS)) {
    const room = code.toLowerCase().replaceAll("_", "-");
    await chat.room(room, ["alice", "bob"]);
    const bob = await member("bob", room);
    const fields = await prepare(room);
    refused.push({ code, say: () => bob.say("message.send", { room, ...fields }) });
  }
  await chat.room("general", ["alice"]);
  const alice = await member("alice", "general");
  const send = (text: string) => alice.say("message.send", { room: "general", text });

  // All of it arrives before the next commit begins: every refusal stands between two messages.
  const answers = await Promise.all([send("0"), ...refused.flatMap(({ say }, n) => [say(), send(String(n + 1))])]);

  const codes = answers.filter((_, index) => index % 2 === 1).map(({ code }) => code);
  expect(codes).toEqual(refused.map(({ code }) => code));
  const acks = answers.filter((_, index) => index % 2 === 0);
  expect(acks.map(({ type }) => type)).toEqual(acks.map(() => "ack"));
  const { body } = await chat.history(chat.key, "general");
  const texts = body.data
    .toSorted((a: { seq: number }, b: { seq: number }) => a.seq - b.seq)
    .map(({ text }: { text: string }) => text);
  expect(texts).toEqual(acks.map((_, n) => String(n)));
});
