import { afterEach, beforeEach, expect, test } from "bun:test";
import { type ChatRest, chatRest } from "../rest.ts";
import { fakeNetwork } from "./fake-socket.ts";

let chat: ChatRest;
beforeEach(async () => {
  chat = await chatRest();
});
afterEach(() => chat.close());

test("[contract 8] the acks of one commit leave a socket in one write, in order", async () => {
  await chat.room("general", ["alice"]);
  const alice = await fakeNetwork(chat).connect("alice");
  await alice.say("room.join", { room: "general" });
  const writes: number[] = [];
  Object.assign(alice.socket, {
    cork(send: () => void) {
      const before = alice.socket.frames.length;
      send();
      writes.push(alice.socket.frames.length - before);
    },
  });

  const say = (id: string, fields: object) => {
    const text = JSON.stringify({ type: "message.send", id, room: "general", ...fields });
    alice.events.received(text, text.length);
  };
  const unknown = { replyTo: "msg_00000000000000000000000000" };
  const said: [string, object][] = [
    ...["1", "2", "3"].map((text): [string, object] => [text, { text }]),
    // Refused, between others.
    ["4", { text: "4", ...unknown }],
    ...["5", "6"].map((text): [string, object] => [text, { text }]),
  ];
  for (const [id, fields] of said) say(id, fields);
  await chat.server.runtime.writer.drain();
  await Promise.resolve();

  const answers = alice.socket.frames.filter(({ type }) => type === "ack" || type === "error").slice(1);
  expect(answers.map(({ id, type }) => `${type} ${id}`)).toEqual([
    ...["ack 1", "ack 2", "ack 3", "error 4", "ack 5", "ack 6"],
  ]);
  expect(writes).toEqual([3, 2]);
});

test("[contract 8] a socket that is closed right after a commit has received its ack", async () => {
  await chat.room("general", ["alice"]);
  const network = fakeNetwork(chat);
  const alice = await network.connect("alice");
  await alice.say("room.join", { room: "general" });
  const closeAll = () => {
    for (const socket of [...network.chatSockets.hub.sockets]) socket.end(4500, "restarting");
  };
  chat.server.runtime.bus.on("chatEvent", ({ event }) => {
    // This runs after the answer is made and before it is sent.
    if (event.type === "message") queueMicrotask(() => queueMicrotask(closeAll));
  });
  const text = JSON.stringify({ type: "message.send", id: "last", room: "general", text: "the last one" });
  alice.events.received(text, text.length);
  await chat.server.runtime.writer.drain();
  await Promise.resolve();
  expect(alice.socket.closed).toBe(4500);
  expect(alice.socket.frames.at(-1)).toMatchObject({ type: "ack", id: "last" });
});
