import { afterAll, expect, test } from "bun:test";
import { chatRest, outcome } from "../features/chat/rest.ts";

const chat = await chatRest({ CHAT_SEND_RATE_LIMIT: 1000 });
afterAll(chat.close);
const { ask, key, send } = chat;
await chat.room("general", ["alice", "bob", { userId: "max", role: "MODERATOR" }]);
await chat.room("side", ["alice"]);
const alice = await chat.token("alice");
const bob = await chat.token("bob");
const max = await chat.token("max");
const message = (id: string) => `/v1/chat/messages/${id}`;

test("[4.3] a message from a server and from a user has every field", async () => {
  const expected = {
    id: expect.stringMatching(/^msg_[A-Za-z0-9]{24}$/),
    seq: expect.any(Number),
    conversationId: expect.stringMatching(/^conv_/),
    senderId: "alice",
    senderName: "alice",
    type: "text",
    text: "hello",
    replyTo: null,
    threadRootId: null,
    replyCount: 0,
    clientMessageId: null,
    attachment: null,
    metadata: { k: [1, { deep: true }] },
    reactions: [],
    mentions: [],
    pinned: false,
    edited: false,
    editedAt: null,
    deleted: false,
    deletedAt: null,
    createdAt: "2026-03-01T12:00:00.000Z",
    updatedAt: "2026-03-01T12:00:00.000Z",
    cursor: expect.any(String),
    deduplicated: false,
  };
  const metadata = { k: [1, { deep: true }] };
  const byServer = await send(key, "general", { text: "hello", senderId: "alice", metadata });
  expect([byServer.status, byServer.body]).toEqual([201, expected]);
  const byUser = await send(alice, "general", { text: "hello", metadata, clientSentAt: 1 });
  expect([byUser.status, byUser.body]).toEqual([201, expected]);
  expect(byUser.body.seq).toBe(byServer.body.seq + 1);

  for (const credential of [key, alice, bob]) {
    const { deduplicated: _, ...record } = byUser.body;
    expect((await ask(credential, "GET", message(byUser.body.id))).body).toEqual(record);
  }
});

test("[2] a user always sends as themselves, whatever senderId is; a server can send as any user, or as itself", async () => {
  expect((await send(alice, "general", { text: "x", senderId: "bob" })).body.senderId).toBe("alice");
  expect((await send(key, "general", { text: "x", senderId: "stranger" })).body.senderId).toBe("stranger");
  expect((await send(key, "general", { text: "x" })).body.senderId).toBeNull();
  expect((await send(key, "general", { text: "x", senderId: "" })).body.senderId).toBeNull();
  expect(outcome(await send(key, "general", { text: "x", senderId: "has space" }))).toBe("400 SVC_VALIDATION_FAILED");
});

test("[2] text is required and counted in code points", async () => {
  expect(outcome(await send(alice, "general", {}))).toBe("400 SVC_VALIDATION_FAILED");
  expect(outcome(await send(alice, "general", { text: "" }))).toBe("400 SVC_VALIDATION_FAILED");
  expect((await send(alice, "general", "x")).status).toBe(201);
  expect((await send(alice, "general", "x".repeat(4000))).status).toBe(201);
  expect(outcome(await send(alice, "general", "x".repeat(4001)))).toBe("400 SVC_VALIDATION_FAILED");
  // 4000 characters of two UTF-16 units, and of four bytes, each.
  expect((await send(alice, "general", "😀".repeat(4000))).body.text).toBe("😀".repeat(4000));
  expect(outcome(await send(alice, "general", "😀".repeat(4001)))).toBe("400 SVC_VALIDATION_FAILED");
});

test("[2] text from a client is stored exactly and never interpreted", async () => {
  const texts = [
    "<script>alert(1)</script>",
    "'; DROP TABLE messages; --",
    "{{7*7}} %s %n $(id) `id`",
    "\u0000\u001b[31m",
    "‮txt.exe",
  ];
  for (const text of texts) {
    const sent = (await send(alice, "general", { text, metadata: { proto: text, constructor: text } })).body;
    const read = (await ask(bob, "GET", message(sent.id))).body;
    expect([read.text, read.metadata]).toEqual([text, { proto: text, constructor: text }]);
  }
  // Half a surrogate pair is no text: what is answered is what will be read.
  const half = (await send(alice, "general", "a\ud800b")).body;
  expect(half.text).toBe("a\ufffdb");
  expect((await ask(bob, "GET", message(half.id))).body.text).toBe("a\ufffdb");
});

test("[2] metadata has at most 4096 bytes of UTF-8, and the other fields of a message have limits", async () => {
  const tries: [Record<string, unknown>, number][] = [
    [{ metadata: { k: "x".repeat(4088) } }, 201],
    [{ metadata: { k: "x".repeat(4089) } }, 400],
    [{ metadata: { k: "é".repeat(2044) } }, 201],
    [{ metadata: { k: "é".repeat(2045) } }, 400],
    [{ metadata: [] }, 400],
    [{ clientMessageId: "c".repeat(128) }, 201],
    [{ clientMessageId: "c".repeat(129) }, 400],
    [{ clientMessageId: "" }, 201],
    [{ replyTo: "" }, 201],
    [{ replyTo: "r".repeat(65) }, 400],
    [{ attachmentId: "a".repeat(65) }, 400],
    [{ attachmentId: "att_none" }, 404],
    [{ clientSentAt: -1 }, 400],
    [{ clientSentAt: 0 }, 201],
    [{ type: "shout" }, 400],
    [{ type: "attachment" }, 400],
  ];
  for (const [input, expected] of tries) {
    const shown = JSON.stringify(input).slice(0, 40);
    expect([shown, (await send(alice, "general", { text: "x", ...input })).status]).toEqual([shown, expected]);
  }
});

test("[2] only servers can send the types system and event", async () => {
  for (const type of ["system", "event"]) {
    expect(outcome(await send(alice, "general", { text: "x", type }))).toBe("403 SVC_PERMISSION_DENIED");
    expect((await send(key, "general", { text: "x", type })).body.type).toBe(type);
  }
  expect((await send(key, "general", { type: "event", metadata: { kind: "poll" } })).body.text).toBeNull();
});

test("[2] a retry with the same clientMessageId returns the original message of that conversation and sender", async () => {
  const input = { text: "once", clientMessageId: "c-1" };
  const first = await send(alice, "general", input);
  const before = (await chat.events("general", first.body.seq)).length;
  const retry = await send(alice, "general", { ...input, text: "other text" });
  expect([retry.status, retry.body]).toEqual([200, { ...first.body, deduplicated: true }]);
  expect((await chat.events("general", first.body.seq)).length).toBe(before);

  const others = [
    await send(bob, "general", input),
    await send(alice, "side", input),
    await send(key, "general", { ...input }),
    await send(key, "general", { ...input, senderId: "bob2" }),
  ];
  for (const { status, body } of others) expect([status, body.deduplicated]).toEqual([201, false]);
  expect((await send(key, "general", { ...input, senderId: "alice" })).body.id).toBe(first.body.id);
  expect((await send(key, "general", input)).body.id).toBe(others[2]?.body.id);
});

test("[1] Idempotency-Key replays a send, and after the message is deleted the replay is deleted too", async () => {
  const path = "/v1/chat/conversations/general/messages";
  for (const credential of [key, alice]) {
    const headers = { "idempotency-key": `send-${credential.slice(0, 8)}` };
    const first = await ask(credential, "POST", path, { text: "replayed secret" }, headers);
    const again = await ask(credential, "POST", path, { text: "replayed secret" }, headers);
    expect([again.status, again.text]).toEqual([201, first.text]);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(outcome(await ask(credential, "POST", path, { text: "other" }, headers))).toBe(
      "422 SVC_IDEMPOTENCY_KEY_REUSED",
    );

    await ask(key, "DELETE", message(first.body.id));
    const late = await ask(credential, "POST", path, { text: "replayed secret" }, headers);
    expect([late.body.id, late.body.deleted]).toEqual([first.body.id, true]);
    expect(late.text).not.toContain("secret");
  }
});

test("[4.3] an edit sets edited, and only the sender or a server can edit", async () => {
  const sent = (await send(alice, "general", { text: "v1", metadata: { a: 1 } })).body;
  chat.clock.advance(5000);
  const edited = await ask(alice, "PATCH", message(sent.id), { text: "v2" });
  const at = new Date(chat.clock.now()).toISOString();
  expect([edited.status, edited.body]).toEqual([
    200,
    {
      ...edited.body,
      text: "v2",
      metadata: { a: 1 },
      edited: true,
      editedAt: at,
      updatedAt: at,
      createdAt: sent.createdAt,
      seq: sent.seq,
    },
  ]);
  expect((await ask(key, "PATCH", message(sent.id), { metadata: { b: 2 } })).body).toMatchObject({
    text: "v2",
    metadata: { b: 2 },
  });
  expect((await ask(key, "PATCH", message(sent.id), { metadata: null })).body.metadata).toBeNull();
  for (const other of [bob, max]) {
    expect(outcome(await ask(other, "PATCH", message(sent.id), { text: "mine" }))).toBe("403 SVC_PERMISSION_DENIED");
  }
  for (const bad of [{}, { text: "" }, { text: "x".repeat(4001) }, { metadata: { k: "x".repeat(4089) } }]) {
    expect(outcome(await ask(alice, "PATCH", message(sent.id), bad))).toBe("400 SVC_VALIDATION_FAILED");
  }
  expect(outcome(await ask(alice, "PATCH", message("msg_none"), { text: "x" }))).toBe("404 SVC_MESSAGE_NOT_FOUND");
});

test("[2] names of JavaScript's built-in properties have no special meaning", async () => {
  const path = "/v1/chat/conversations/general/messages";
  const raw = '{"text":"x","metadata":{"__proto__":{"polluted":true},"toString":"mine","constructor":{"prototype":1}}}';
  const answer = await chat.server.call("POST", path, { key: alice, raw });
  expect(answer.status).toBe(201);
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  const read = await ask(bob, "GET", message(String(answer.body.id)));
  expect(read.body.metadata).toMatchObject({ toString: "mine", constructor: { prototype: 1 } });
});

test("[8] all requests of a user, reads included, share one budget over all of their tokens; servers are exempt", async () => {
  const limited = await chatRest({ CHAT_REQUEST_RATE_LIMIT: 4 });
  try {
    await limited.room("r", ["alice", "bob"]);
    const read = async (credential: string) => {
      const { status, headers } = await limited.server.call("GET", "/v1/chat/conversations/r", { key: credential });
      return [status, headers.get("retry-after")];
    };
    const tokens = [await limited.token("alice"), await limited.token("alice")];
    for (const token of [...tokens, ...tokens]) expect(await read(token)).toEqual([200, null]);
    for (const token of tokens) expect(await read(token)).toEqual([429, "60"]);
    expect(await read(await limited.token("bob"))).toEqual([200, null]);
    for (let i = 0; i < 6; i += 1) expect(await read(limited.key)).toEqual([200, null]);
    limited.clock.advance(60_000);
    expect(await read(tokens[0] ?? "")).toEqual([200, null]);
  } finally {
    await limited.close();
  }
});

test("[17] a long response counts as several requests; servers are exempt", async () => {
  const limited = await chatRest({ CHAT_REQUEST_RATE_LIMIT: 20, CHAT_SEND_RATE_LIMIT: 1_000 });
  try {
    await limited.room("r", ["alice"]);
    const say = async (text: string, replyTo?: string) => {
      const { body } = await limited.ask(limited.key, "POST", "/v1/chat/conversations/r/messages", { text, replyTo });
      return String(body.id);
    };
    const [long, short] = [await say("long"), await say("short")];
    for (let n = 0; n < 300; n++) await say("x".repeat(4_000), long);
    await say("reply", short);
    const read = async (credential: string, id: string) =>
      (await limited.server.call("GET", `/v1/chat/messages/${id}/thread`, { key: credential })).status;
    const alice = await limited.token("alice");
    // A mebibyte less what the next message would have been: seven more each.
    for (const status of [200, 200, 200, 429]) expect(await read(alice, long)).toBe(status);
    for (let n = 0; n < 4; n++) expect(await read(limited.key, long)).toBe(200);
    limited.clock.advance(60_000);
    for (let n = 0; n < 20; n++) expect(await read(alice, short)).toBe(200);
    expect(await read(alice, short)).toBe(429);
  } finally {
    await limited.close();
  }
});

test("[8] edits, deletions and read marks have their own budgets; servers are exempt", async () => {
  const limited = await chatRest({ CHAT_EDIT_RATE_LIMIT: 2, CHAT_READ_RATE_LIMIT: 2 });
  try {
    await limited.room("r", ["alice"]);
    const token = await limited.token("alice");
    const { id } = (await limited.send(token, "r", "x")).body;
    const three = async (credential: string, method: string, path: string, body: unknown) => {
      const statuses = [];
      for (let i = 0; i < 3; i += 1) statuses.push((await limited.ask(credential, method, path, body)).status);
      return statuses;
    };
    expect(await three(token, "PATCH", message(id), { text: "y" })).toEqual([200, 200, 429]);
    expect((await limited.ask(token, "DELETE", message(id))).status).toBe(429);
    expect(await three(token, "POST", `${message(id)}/read`, {})).toEqual([200, 200, 429]);
    expect(await three(limited.key, "PATCH", message(id), { text: "y" })).toEqual([200, 200, 200]);
  } finally {
    await limited.close();
  }
});
