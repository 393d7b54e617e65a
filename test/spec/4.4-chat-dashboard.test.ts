import { afterAll, expect, test } from "bun:test";
import { chatWorld } from "../features/chat/world.ts";

const world = await chatWorld({ CHAT_CONNECTION_RATE_LIMIT: 1000 });
afterAll(world.close);
const { call, key, people, projectId } = world;
const viewer = await people.session({ projectId, role: "VIEWER" });
const dashboard = (path: string, token = viewer.token) => call("GET", `/v1/projects/${projectId}/chat/${path}`, token);

/** Appears in everything that a user may write. */
const WORD = "xylophonist";
await world.room("general", ["alice", "bob"]);
const alice = await world.joined("alice", "general");
const sent = await alice.ask("message.send", { room: "general", text: `${WORD} said`, metadata: { WORD } });
const first = (sent as { message?: { id?: string } }).message?.id;
await call("POST", "/v1/chat/conversations/general/messages", key, {
  text: `${WORD} again`,
  senderId: "bob",
  replyTo: first,
});
await call("POST", `/v1/chat/messages/${first}/reactions`, key, { emoji: "👍", userId: "bob" });
const edited = await call("POST", "/v1/chat/conversations/general/messages", key, { text: WORD, senderId: "bob" });
await call("PATCH", `/v1/chat/messages/${edited.body.id}`, key, { text: `${WORD} edited` });
const deleted = await call("POST", "/v1/chat/conversations/general/messages", key, { text: WORD });
await call("DELETE", `/v1/chat/messages/${deleted.body.id}`, key);

const paths = [
  "overview",
  "connections",
  "conversations",
  "conversations/general",
  "conversations/general/members",
  "conversations/general/messages",
  "conversations/general/presence",
];

test("[4.4] no dashboard route ever contains message text", async () => {
  for (const path of paths) {
    const { status, text } = await dashboard(path);
    expect([path, status]).toEqual([path, 200]);
    expect([path, text.includes(WORD)]).toEqual([path, false]);
    expect(text).not.toContain('"text":');
  }
});

test("[4.4] the overview counts the records of its environment", async () => {
  expect((await dashboard("overview")).body).toEqual({
    conversations: 1,
    activeConversations: 1,
    messages: 3,
    messagesToday: 4,
    members: 2,
    connections: 1,
    reactions: 1,
    attachments: 0,
    attachmentBytes: 0,
  });
  expect((await dashboard("overview?environment=PRODUCTION")).body).toMatchObject({ conversations: 0, messages: 0 });
  expect((await dashboard("overview?environment=STAGING")).status).toBe(400);
});

test("[4.4] connections are listed newest first, with their open conversations and how they ended", async () => {
  const bob = await world.joined("bob", "general");
  const gone = await world.client("alice");
  await gone.close(1000);
  const { body } = await dashboard("connections");
  expect(
    body.map(({ userId, messagesSent }: { userId: string; messagesSent: number }) => [userId, messagesSent]),
  ).toEqual([
    ["alice", 0],
    ["bob", 0],
    ["alice", 1],
  ]);
  const [ended, open] = body;
  expect(ended).toMatchObject({ closeCode: 1000, conversations: [], ipAddress: "127.0.0.1" });
  expect(Date.parse(ended.disconnectedAt)).toBeGreaterThanOrEqual(Date.parse(ended.connectedAt));
  expect(open).toMatchObject({
    disconnectedAt: null,
    closeCode: null,
    conversations: [expect.stringMatching(/^conv_/)],
  });
  await bob.close();
  const page = await dashboard("connections?limit=1");
  expect([page.body.length, page.headers.get("link")]).toEqual([1, expect.stringContaining('rel="next"')]);
});

test("[4.4] conversations are listed with counts and last activity, and one is shown with its members and presence", async () => {
  const [listed] = (await dashboard("conversations")).body;
  expect(listed).toMatchObject({ name: "general", messageCount: 3, memberCount: 2 });
  expect(Date.parse(listed.lastActivityAt)).toBeGreaterThan(0);
  expect((await dashboard("conversations/general")).body).toEqual(listed);
  expect((await dashboard(`conversations/${listed.id}`)).body).toEqual(listed);
  const members = (await dashboard("conversations/general/members")).body;
  expect(members.map(({ userId }: { userId: string }) => userId).sort()).toEqual(["alice", "bob"]);
  const present = (await dashboard("conversations/general/presence")).body;
  expect(present).toContainEqual({ userId: "alice", status: "online", at: expect.any(String) });
});

test("[4.4] messages show id, sender, times and status only", async () => {
  const { body } = await dashboard("conversations/general/messages");
  expect(body.map(({ senderId, status }: { senderId: string; status: string }) => [senderId, status])).toEqual([
    [null, "deleted"],
    ["bob", "edited"],
    ["bob", "sent"],
    ["alice", "sent"],
  ]);
  expect(body[3]).toEqual({
    id: first,
    seq: expect.any(Number),
    senderId: "alice",
    type: "text",
    status: "sent",
    threadRootId: null,
    replyCount: 1,
    reactionCount: 1,
    hasAttachment: false,
    createdAt: expect.any(String),
    editedAt: null,
    deletedAt: null,
  });
});

test("[4.4] every role can read, other users find no project, and keys and chat tokens are refused", async () => {
  for (const role of ["OWNER", "ADMIN", "DEVELOPER", "VIEWER"] as const) {
    const { token } = await people.session({ projectId, role });
    for (const path of paths) expect((await dashboard(path, token)).status).toBe(200);
  }
  const stranger = await people.session();
  const token = await world.token("alice");
  for (const path of paths) {
    const refused = await dashboard(path, stranger.token);
    expect([path, refused.status, refused.body.code]).toEqual([path, 404, "SVC_PROJECT_NOT_FOUND"]);
    expect((await dashboard(path, key)).status).toBe(401);
    expect((await dashboard(path, token)).status).toBe(401);
  }
  for (const path of paths.filter((path) => path.startsWith("conversations/"))) {
    const other = await dashboard(`${path}?environment=PRODUCTION`);
    expect([path, other.status, other.body.code]).toEqual([path, 404, "SVC_CONVERSATION_NOT_FOUND"]);
  }
});
