import { afterAll, expect, test } from "bun:test";
import { rtcServer, settled } from "../../harness/rtc.ts";
import { chatRestOf } from "./rest.ts";
import type { Body } from "./world.ts";

const server = await rtcServer();
afterAll(server.close);
const chat = chatRestOf(server, server);
const { ask, key } = chat;
const members = (room: string, user = "") => `/v1/chat/conversations/${room}/members${user && `/${user}`}`;
const senders = async (room: string): Promise<string[]> =>
  (await chat.history(key, room)).body.data.map(({ senderName }: Body) => senderName);

test("a member's name is the sender's name of all their messages, until it changes", async () => {
  const { id } = await chat.room("named", [{ userId: "u-17", name: "Ada Lovelace" }, "u-18"]);
  const sent = await chat.send(await chat.token("u-17"), id, "Hello");
  expect(sent.body).toMatchObject({ senderId: "u-17", senderName: "Ada Lovelace" });
  await chat.send(await chat.token("u-18"), id, "Hello, Ada");
  await chat.send(key, id, "The doctor is here.");
  expect(await senders(id)).toEqual(["System", "u-18", "Ada Lovelace"]);
  expect((await ask(key, "GET", members(id))).body.map(({ name }: Body) => name ?? null).sort()).toEqual([
    "Ada Lovelace",
    null,
  ]);

  // Adding an active member again sets the name, as each mintJoin does; without a name it stays.
  await ask(key, "POST", members(id), { userId: "u-18", name: "Grace" });
  await ask(key, "POST", members(id), { userId: "u-18" });
  await ask(key, "PATCH", members(id, "u-17"), { name: "Ada" });
  expect(await senders(id)).toEqual(["System", "Grace", "Ada"]);
  await ask(key, "PATCH", members(id, "u-17"), { name: null });
  expect(await senders(id)).toEqual(["System", "Grace", "u-17"]);
  const updates = (await chat.events(id)).filter(({ type }) => type === "member.updated");
  expect(updates.map(({ member }) => member.name ?? null)).toEqual(["Grace", "Ada", null]);
});

test("a name has at most 128 characters, and only who manages the conversation changes one", async () => {
  const staff = [{ userId: "boss", role: "ADMIN" }, { userId: "mod", role: "MODERATOR" }, "mia"];
  const { id } = await chat.room("bounded", staff);
  const longest = "🙂".repeat(128);
  expect((await ask(key, "PATCH", members(id, "mia"), { name: longest })).body.name).toBe(longest);
  expect(await ask(key, "PATCH", members(id, "mia"), { name: "a".repeat(129) })).toMatchObject({
    status: 400,
    body: { details: [{ field: "name", message: "must have at most 128 characters" }] },
  });
  for (const [user, status] of [
    ["mia", 403],
    ["mod", 403],
    ["boss", 200],
  ] as const) {
    expect((await ask(await chat.token(user), "PATCH", members(id, "mia"), { name: "Mia" })).status).toBe(status);
  }
});

test("messages about calls and the record of a call use the names; a replay gets them by identity", async () => {
  const roomId = await server.room("visit");
  const { id } = await chat.room("visit-chat", [{ userId: "p-1", name: "Pat" }], { roomId });
  const patient = await server.joined(roomId, "p-1", { mint: { name: "Pat" } });
  const recording = await server.call("POST", `/v1/rooms/${roomId}/recordings`, { key, body: {} });
  const doctor = await server.joined(roomId, "d-1", { mint: { name: "Dr. Grey" } });
  await ask(key, "POST", members(id), { userId: "d-1", name: "Dr. Grey" });
  await server.joined(roomId, "guest");
  await settled();
  const [message] = (await chat.history(key, id)).body.data;
  expect(message).toMatchObject({ senderName: "System", text: "Call started: Pat, Dr. Grey and guest joined" });
  expect(message.metadata.call.participants).toEqual(["p-1", "d-1", "guest"]);

  const [call] = (await ask(key, "GET", "/v1/calls?roomId=visit")).body as unknown as Body[];
  const { participants } = (await ask(key, "GET", `/v1/calls/${call?.id}`)).body;
  expect(participants.map(({ identity, name }: Body) => [identity, name])).toEqual([
    ["p-1", "Pat"],
    ["d-1", "Dr. Grey"],
    ["guest", null],
  ]);
  const link = await server.call("POST", `/v1/recordings/${recording.body.id}/view-tokens`, { key, body: {} });
  const replay = await server.call("GET", `/v1/replays/${String(link.body.url).split("#token=")[1]}`);
  expect(replay.body.names).toEqual({ "p-1": "Pat", "d-1": "Dr. Grey" });

  await server.call("DELETE", "/v1/people/d-1", { key });
  await server.services.privacy.erasures.settled();
  const texts = (await chat.history(key, id)).body.data.map(({ text }: Body) => text);
  expect(texts.join()).not.toContain("Grey");
  expect(texts.join()).toContain("Pat");
  for (const client of [patient, doctor]) if (client.closed === null) await client.ask("room.leave");
});
