import { afterAll, expect, test } from "bun:test";
import { chatRest, outcome } from "../features/chat/rest.ts";

const chat = await chatRest({ CHAT_REACTION_RATE_LIMIT: 1000, CHAT_SEND_RATE_LIMIT: 1000 });
afterAll(chat.close);
const { ask, key } = chat;
const room = await chat.room("secret", ["alice", "bob"]);
const message = (await chat.send(key, "secret", { text: "classified", senderId: "alice" })).body;
const attachment = (
  await ask(key, "POST", "/v1/chat/conversations/secret/attachments", {
    filename: "f",
    mimeType: "text/plain",
    size: 5,
  })
).body;

const rooms = [room.id, room.uuid, "secret"];
const ofRoom: [string, string, unknown?][] = [
  ["GET", ""],
  ["PATCH", "", { metadata: {} }],
  ["GET", "/members"],
  ["POST", "/members", { userId: "mallory" }],
  ["PATCH", "/members/bob", { mutedUntil: null }],
  ["DELETE", "/members/bob"],
  ["GET", "/messages"],
  ["POST", "/messages", { text: "x" }],
  ["GET", "/presence"],
  ["GET", "/typing"],
  ["GET", "/read-receipts"],
  ["GET", "/read-state?userId=alice"],
  ["GET", "/events"],
  ["GET", "/pins"],
  ["GET", "/search?q=classified"],
  ["POST", "/attachments", { filename: "f", mimeType: "text/plain", size: 1 }],
];
const ofMessage: [string, string, unknown?][] = [
  ["GET", ""],
  ["PATCH", "", { text: "x" }],
  ["DELETE", ""],
  ["POST", "/reactions", { emoji: "x", userId: "mallory" }],
  ["DELETE", "/reactions/x?userId=mallory"],
  ["POST", "/read", { userId: "mallory" }],
  ["GET", "/thread"],
  ["POST", "/pin"],
  ["DELETE", "/pin"],
];
const routes: [string, string, string, unknown?][] = [
  ...rooms.flatMap((reference) =>
    ofRoom.map(([method, rest, body]): [string, string, string, unknown?] => [
      method,
      `/v1/chat/conversations/${reference}${rest}`,
      "404 SVC_CONVERSATION_NOT_FOUND",
      body,
    ]),
  ),
  ...ofMessage.map(([method, rest, body]): [string, string, string, unknown?] => [
    method,
    `/v1/chat/messages/${message.id}${rest}`,
    "404 SVC_MESSAGE_NOT_FOUND",
    body,
  ]),
  ["POST", `/v1/chat/attachments/${attachment.id}/complete`, "404 SVC_ATTACHMENT_NOT_FOUND"],
  ["GET", `/v1/chat/attachments/${attachment.id}/download-url`, "404 SVC_ATTACHMENT_NOT_FOUND"],
];

async function expectNothingThere(credential: string): Promise<void> {
  for (const [method, path, expected, body] of routes) {
    const answer = await ask(credential, method, path, body);
    expect([method, path, outcome(answer)]).toEqual([method, path, expected]);
    expect(answer.text).not.toContain("classified");
  }
  expect((await ask(credential, "GET", "/v1/chat/conversations")).body).toEqual([]);
}

test("[5] another project's key finds nothing", async () => {
  await expectNothingThere((await chat.server.project()).key);
});

test("[5] the same project's key of the other environment finds nothing", async () => {
  const { runtime, services } = chat.server;
  const made = await runtime.write((unit) =>
    services.apiKeys.create(unit, chat.projectId, { name: "p", environment: "PRODUCTION" }),
  );
  await expectNothingThere(made.key);
});

test("[contract 2] a user who is not a member finds nothing", async () => {
  await expectNothingThere(await chat.token("mallory"));
});

test("[contract 13] a member whose token names other conversations finds nothing", async () => {
  await chat.room("elsewhere", []);
  await expectNothingThere(await chat.token("alice", { conversations: ["elsewhere"] }));
});

test("[2] a member of the same name in another project finds nothing", async () => {
  const other = await chat.server.project();
  const { body } = await ask(other.key, "POST", "/v1/chat/tokens", { userId: "alice" });
  await expectNothingThere(body.token);
});

const refused: Record<string, string>[] = [{}, { authorization: "Bearer nonsense" }, { authorization: "Basic YTpi" }];

test("[5] without a credential, or with an invalid one, every route responds with 401 and nothing else", async () => {
  for (const [method, path, , body] of routes) {
    for (const headers of refused) {
      const answer = await chat.server.call(method, path, { body, headers });
      expect([method, path, answer.status, answer.body.code]).toEqual([method, path, 401, "SVC_AUTH_ERROR"]);
    }
  }
});

test("[5] the requests of outsiders have changed nothing", async () => {
  expect((await ask(key, "GET", `/v1/chat/messages/${message.id}`)).body).toMatchObject({
    text: "classified",
    reactions: [],
  });
  expect((await ask(key, "GET", "/v1/chat/conversations/secret")).body.lastSeq).toBe(message.seq);
});
