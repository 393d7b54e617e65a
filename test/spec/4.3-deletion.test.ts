import { afterAll, expect, test } from "bun:test";
import { chatRest, outcome } from "../features/chat/rest.ts";

const chat = await chatRest({ CHAT_SEND_RATE_LIMIT: 1000 });
afterAll(chat.close);
const { ask, key, send } = chat;
await chat.room("general", ["alice", "bob", { userId: "max", role: "MODERATOR" }]);
const alice = await chat.token("alice");
const bob = await chat.token("bob");
const max = await chat.token("max");
const message = (id: string) => `/v1/chat/messages/${id}`;

test("[3] a deleted message is a tombstone; deleting it again returns the same, and editing it is 409", async () => {
  const sent = (await send(alice, "general", { text: "to be gone", metadata: { secret: 1 }, clientMessageId: "del-1" }))
    .body;
  await ask(bob, "POST", `${message(sent.id)}/reactions`, { emoji: "👍" });
  const deleted = await ask(alice, "DELETE", message(sent.id));
  expect(deleted.status).toBe(200);
  expect(deleted.body).toMatchObject({
    id: sent.id,
    deleted: true,
    text: null,
    metadata: null,
    attachment: null,
    reactions: [],
  });
  const seq = (await chat.events("general")).at(-1)?.seq;
  expect((await ask(alice, "DELETE", message(sent.id))).body).toEqual(deleted.body);
  expect((await chat.events("general")).at(-1)?.seq).toBe(seq);
  expect((await ask(bob, "GET", message(sent.id))).body).toEqual(deleted.body);
  expect(outcome(await ask(alice, "PATCH", message(sent.id), { text: "x" }))).toBe("409 SVC_MESSAGE_DELETED");
  expect(outcome(await ask(bob, "POST", `${message(sent.id)}/reactions`, { emoji: "x" }))).toBe(
    "409 SVC_MESSAGE_DELETED",
  );
  expect(outcome(await send(bob, "general", { text: "re", replyTo: sent.id }))).toBe("409 SVC_MESSAGE_DELETED");
});

test("[contract 4] a user can delete their own messages, and with chat:moderate those of others", async () => {
  const byAlice = (await send(alice, "general", "a")).body.id;
  expect(outcome(await ask(bob, "DELETE", message(byAlice)))).toBe("403 SVC_PERMISSION_DENIED");
  const narrowed = await chat.token("max", { scopes: ["chat:read", "chat:send"] });
  expect(outcome(await ask(narrowed, "DELETE", message(byAlice)))).toBe("403 SVC_PERMISSION_DENIED");
  expect((await ask(max, "DELETE", message(byAlice))).body.deleted).toBe(true);
  expect((await chat.events("general")).at(-1)).toMatchObject({
    type: "message.deleted",
    messageId: byAlice,
    senderId: "alice",
    deletedBy: "max",
  });
  const byBob = (await send(bob, "general", "b")).body.id;
  expect((await ask(key, "DELETE", message(byBob))).status).toBe(200);
  expect((await chat.events("general")).at(-1)).toMatchObject({ messageId: byBob, deletedBy: null });
});

test("[contract 13] deleted content is removed from history, thread, events, search, replies and the database", async () => {
  const word = "zanzibarian";
  // An endpoint without a dispatcher: its events wait in the outbox.
  const owner = await chat.server.session({ projectId: chat.projectId, role: "OWNER" });
  const webhook = { url: "http://127.0.0.1:9/hook", environment: "DEVELOPMENT" };
  expect((await ask(owner.token, "POST", `/v1/projects/${chat.projectId}/webhooks`, webhook)).status).toBe(201);
  const sent = (await send(alice, "general", { text: `${word} one`, metadata: { word } })).body;
  await ask(alice, "PATCH", message(sent.id), { text: `${word} two` });
  await send(bob, "general", { text: "reply", replyTo: sent.id });
  expect(tablesHolding(word)).not.toEqual([]);
  expect((await ask(bob, "GET", `/v1/chat/conversations/general/search?q=${word}`)).text).toContain(word);
  await ask(alice, "DELETE", message(sent.id));

  const paths = [
    message(sent.id),
    `${message(sent.id)}/thread?includeDeleted=true`,
    "/v1/chat/conversations/general/messages?includeDeleted=true",
    "/v1/chat/conversations/general/events?limit=200",
    "/v1/chat/conversations/general/events?limit=200&after=100",
    "/v1/chat/conversations/general/pins",
    `/v1/chat/conversations/general/search?q=${word}`,
    "/v1/chat/conversations/general",
  ];
  for (const path of paths) {
    for (const credential of [key, alice, bob]) {
      expect([path, (await ask(credential, "GET", path)).text.includes(word)]).toEqual([path, false]);
    }
  }
  expect(tablesHolding(word)).toEqual([]);
});

function tablesHolding(word: string): string[] {
  const { $client: db } = chat.server.runtime.db;
  const tables = db.query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  return tables
    .map(({ name }) => name)
    .filter((name) => JSON.stringify(db.query(`SELECT * FROM "${name}"`).all()).includes(word));
}
