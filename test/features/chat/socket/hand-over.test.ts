import { afterEach, beforeEach, expect, test } from "bun:test";
import { CHAT_CLOSE_CODES } from "../../../../src/protocol/close-codes.ts";
import { type ChatRest, chatRest } from "../rest.ts";
import { fakeNetwork } from "./fake-socket.ts";

let chat: ChatRest;
beforeEach(async () => {
  chat = await chatRest();
});
afterEach(() => chat.close());

test("a handover waits for messages, not for the clients, who are told one after another", async () => {
  await chat.room("general", ["alice", "bob"]);
  const network = fakeNetwork(chat);
  const [alice, bob] = [await network.connect("alice"), await network.connect("bob")];
  for (const { say } of [alice, bob]) await say("room.join", { room: "general" });
  const send = (id: string) => {
    const text = JSON.stringify({ type: "message.send", id, room: "general", text: id });
    alice.events.received(text, text.length);
  };

  send("before");
  await network.chatSockets.handOver();
  expect(alice.socket.frames.at(-1)).toMatchObject({ type: "ack", id: "before" });
  expect(bob.socket.frames.at(-1)).toMatchObject({ type: "message", message: { text: "before" } });
  expect([alice.socket.closed, bob.socket.closed]).toEqual([null, null]);

  // The newer process has the data now.
  send("after");
  await chat.server.runtime.writer.drain();
  expect(alice.socket.frames.at(-1)).toMatchObject({ id: "before" });
  const { body } = await chat.history(await chat.token("bob"), "general");
  expect(body.data.map(({ text }: { text: string }) => text)).toEqual(["before"]);

  chat.clock.advance(10);
  expect([alice.socket.closed, bob.socket.closed]).toEqual([CHAT_CLOSE_CODES.restart, CHAT_CLOSE_CODES.restart]);
});
