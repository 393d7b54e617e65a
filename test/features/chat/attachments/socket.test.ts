import { afterAll, expect, test } from "bun:test";
import { ChatClient } from "../client.ts";
import { attachmentWorld } from "./attachment-world.ts";

const world = await attachmentWorld();
const { alice, bob, room, server, ask, key, clock } = world;
const clients: ChatClient[] = [];
afterAll(async () => {
  for (const client of clients) client.drop();
  await world.close();
});
const connect = async (token: string) => {
  const client = await ChatClient.open(server.url, token);
  clients.push(client);
  return client;
};

test("[contract 8] an attachment sent over the socket reaches the other members, and is removed with its message", async () => {
  const [sender, reader] = await Promise.all([connect(alice), connect(bob)]);
  await Promise.all([sender.ask("room.join", { room }), reader.ask("room.join", { room })]);

  const { id: pending } = await world.request(5);
  const early = await sender.ask("message.send", { room, messageType: "attachment", attachmentId: pending });
  expect(early).toMatchObject({ type: "error", code: "ATTACHMENT_NOT_READY" });

  const uploaded = await world.upload("hello");
  const stolen = await reader.ask("message.send", { room, messageType: "attachment", attachmentId: uploaded.id });
  expect(stolen).toMatchObject({ type: "error", code: "ATTACHMENT_NOT_FOUND" });
  const ack = await sender.ask("message.send", { room, messageType: "attachment", attachmentId: uploaded.id });
  expect(ack).toMatchObject({ type: "ack", message: { type: "attachment", text: null, attachment: uploaded } });
  const { id: messageId } = ack.message as { id: string };
  const frame = await reader.frame(({ type }) => type === "message");
  expect(frame).toMatchObject({ message: { id: messageId, attachment: uploaded } });

  await sender.ask("message.delete", { messageId });
  const deletion = await reader.frame(({ type }) => type === "message.deleted");
  expect(JSON.stringify(deletion)).not.toContain(uploaded.id);
  while (world.files().length > 0) await Bun.sleep(2);
  const replay = await (await connect(bob)).ask("room.join", { room, since: 0 });
  expect(replay).toMatchObject({ recovered: true });
  expect(JSON.stringify(replay)).not.toContain(uploaded.id);
});

test("[contract 8] a client that resumes from before the retained events has to read the history again", async () => {
  const members = [{ userId: "alice" }];
  const created = await ask("POST", "/v1/chat/conversations", {
    as: key,
    body: { name: "short-lived", retentionDays: 1, members },
  });
  const short = created.body.id;
  const say = (text: string) =>
    ask("POST", `/v1/chat/conversations/${short}/messages`, { as: key, body: { text } }).then(({ body }) => body);
  await say("old");
  const { seq: before } = await say("older than a day soon");
  clock.set(clock.now() + 24 * 3_600_000 + 1);
  const { seq: after } = await say("young");
  expect(await server.services.retention.removeDue()).toBe(2);

  const join = async (since: number) => {
    const client = await connect(await world.token("alice"));
    const { recovered, seq, events } = await client.ask("room.join", { room: short, since });
    return { recovered, seq, events: (events as { seq: number }[]).map((event) => event.seq) };
  };
  expect(after).toBe(before + 1);
  expect(await join(0)).toEqual({ recovered: false, seq: after, events: [] });
  expect(await join(before - 1)).toEqual({ recovered: false, seq: after, events: [] });
  expect(await join(before)).toEqual({ recovered: true, seq: after, events: [after] });
  expect(await join(after)).toEqual({ recovered: true, seq: after, events: [] });
});
