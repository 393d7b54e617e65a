import { afterAll, expect, test } from "bun:test";
import { chatRest, outcome } from "../features/chat/rest.ts";

const chat = await chatRest();
afterAll(chat.close);
const { ask, key } = chat;
const CONVERSATIONS = "/v1/chat/conversations";
const create = (body: unknown, headers?: Record<string, string>) => ask(key, "POST", CONVERSATIONS, body, headers);

test("[4.3] a server creates a conversation; the record has exactly the fields of the API", async () => {
  const { status, body } = await create({
    name: "general",
    retentionDays: 30,
    members: [{ userId: "alice", role: "ADMIN", metadata: { a: 1 } }, { userId: "bob" }],
    metadata: { topic: "all" },
  });
  expect(status).toBe(201);
  expect(body).toEqual({
    id: expect.stringMatching(/^conv_[A-Za-z0-9]{24}$/),
    uuid: expect.stringMatching(/^[0-9a-f-]{36}$/),
    name: "general",
    type: "CHANNEL",
    status: "ACTIVE",
    roomId: null,
    retentionDays: 30,
    metadata: { topic: "all" },
    slowModeSeconds: 0,
    memberCount: 2,
    lastSeq: 2,
    lastMessageAt: null,
    createdAt: "2026-03-01T12:00:00.000Z",
    updatedAt: "2026-03-01T12:00:00.000Z",
  });
});

test("[4.3] a chat token cannot create a conversation", async () => {
  const answer = await ask(await chat.token("alice"), "POST", CONVERSATIONS, { name: "mine" });
  expect(outcome(answer)).toBe("403 SVC_PERMISSION_DENIED");
  expect(outcome(await ask(key, "GET", `${CONVERSATIONS}/mine`))).toBe("404 SVC_CONVERSATION_NOT_FOUND");
});

test("[2] a conversation's name has 1-128 characters of its alphabet, is unique in its environment, and never looks like an id", async () => {
  expect(outcome(await create({}))).toBe("400 SVC_VALIDATION_FAILED");
  for (const name of ["", "a".repeat(129), "has space", "ü", "a/b", ".", "..", "conv_x", crypto.randomUUID()]) {
    expect([name, outcome(await create({ name }))]).toEqual([name, "400 SVC_VALIDATION_FAILED"]);
  }
  for (const name of ["a", "a".repeat(128), "A-z_0.9", "..."]) expect((await create({ name })).status).toBe(201);
  expect(outcome(await create({ name: "a" }))).toBe("409 SVC_CONFLICT");

  const elsewhere = await chat.server.project();
  expect((await ask(elsewhere.key, "POST", CONVERSATIONS, { name: "a" })).status).toBe(201);
});

test("[2] retentionDays is 1-3650, type one of its set, and metadata an object of at most 4096 bytes", async () => {
  const tries: [Record<string, unknown>, number][] = [
    [{ retentionDays: 0 }, 400],
    [{ retentionDays: 1 }, 201],
    [{ retentionDays: 3650 }, 201],
    [{ retentionDays: 3651 }, 400],
    [{ retentionDays: 1.5 }, 400],
    [{ type: "GROUP" }, 400],
    [{ type: "DIRECT" }, 201],
    [{ metadata: "text" }, 400],
    [{ metadata: [] }, 400],
    // {"k":"…"} is 8 bytes around its value; é is two bytes of UTF-8.
    [{ metadata: { k: "x".repeat(4088) } }, 201],
    [{ metadata: { k: "x".repeat(4089) } }, 400],
    [{ metadata: { k: "é".repeat(2044) } }, 201],
    [{ metadata: { k: "é".repeat(2045) } }, 400],
    [{ members: [{ userId: "has space" }] }, 400],
    [{ members: [{ userId: "x", role: "OWNER" }] }, 400],
  ];
  for (const [index, [input, expected]] of tries.entries()) {
    const { status } = await create({ name: `bounds-${index}`, ...input });
    expect([JSON.stringify(input).slice(0, 40), status]).toEqual([JSON.stringify(input).slice(0, 40), expected]);
  }
});

test("[contract 13] a DIRECT conversation has at most two active members", async () => {
  const three = [{ userId: "a" }, { userId: "b" }, { userId: "c" }];
  expect(outcome(await create({ name: "dm3", type: "DIRECT", members: three }))).toBe("409 SVC_CONFLICT");
  expect(outcome(await ask(key, "GET", `${CONVERSATIONS}/dm3`))).toBe("404 SVC_CONVERSATION_NOT_FOUND");

  await chat.room("dm", ["a", "b"], { type: "DIRECT" });
  const members = `${CONVERSATIONS}/dm/members`;
  expect(outcome(await ask(key, "POST", members, { userId: "c" }))).toBe("409 SVC_CONFLICT");
  await ask(key, "DELETE", `${members}/a`);
  expect((await ask(key, "POST", members, { userId: "c" })).status).toBe(201);
  expect(outcome(await ask(key, "POST", members, { userId: "a" }))).toBe("409 SVC_CONFLICT");
});

test("[4.3] a conversation attached to an RTC room has the type ROOM, whatever type is requested, and there is one per room", async () => {
  const room = (await ask(key, "POST", "/v1/rooms", { name: "stage" })).body;
  const { body } = await create({ name: "stage-chat", type: "DIRECT", roomId: room.id });
  expect([body.type, body.roomId]).toEqual(["ROOM", room.id]);
  expect(outcome(await create({ name: "second", roomId: room.id }))).toBe("409 SVC_CONFLICT");
  expect(outcome(await create({ name: "typed", type: "ROOM" }))).toBe("400 SVC_VALIDATION_FAILED");
  expect(outcome(await create({ name: "none", roomId: crypto.randomUUID() }))).toBe("404 SVC_ROOM_NOT_FOUND");

  const other = await chat.server.project();
  const theirs = (await ask(other.key, "POST", "/v1/rooms", { name: "theirs" })).body;
  expect(outcome(await create({ name: "foreign", roomId: theirs.id }))).toBe("404 SVC_ROOM_NOT_FOUND");

  const closed = (await ask(key, "POST", "/v1/rooms", { name: "closed" })).body;
  await ask(key, "DELETE", `/v1/rooms/${closed.id}`);
  expect(outcome(await create({ name: "late", roomId: closed.id }))).toBe("409 SVC_ROOM_CLOSED");
});

test("[4.3] {room} is a conv_ id, a uuid, an RTC room id or a name", async () => {
  const room = (await ask(key, "POST", "/v1/rooms", { name: "ways" })).body;
  const made = (await create({ name: "four-ways", roomId: room.id, members: [{ userId: "alice" }] })).body;
  const token = await chat.token("alice");
  for (const credential of [key, token]) {
    for (const reference of [made.id, made.uuid, made.uuid.toUpperCase(), room.id, "four-ways"]) {
      const { status, body } = await ask(credential, "GET", `${CONVERSATIONS}/${reference}`);
      expect([status, body.id]).toEqual([200, made.id]);
    }
  }
  for (const reference of ["nope", "conv_nope", crypto.randomUUID()]) {
    expect(outcome(await ask(key, "GET", `${CONVERSATIONS}/${reference}`))).toBe("404 SVC_CONVERSATION_NOT_FOUND");
  }
});

test("[4.3] a server lists all conversations, a user their own, with unread counts", async () => {
  const fresh = await chatRest();
  try {
    for (const name of ["one", "two", "three"]) await fresh.room(name, name === "two" ? [] : ["zoe"]);
    await fresh.send(fresh.key, "one", { text: "hello", senderId: "adam" });
    const all = await fresh.ask(fresh.key, "GET", CONVERSATIONS);
    expect(all.body.map((row: { name: string }) => row.name)).toEqual(["three", "two", "one"]);
    expect(all.body[0]).not.toHaveProperty("unreadCount");

    const mine = await fresh.ask(await fresh.token("zoe"), "GET", CONVERSATIONS);
    expect(mine.body.map((row: { name: string; unreadCount: number }) => [row.name, row.unreadCount])).toEqual([
      ["three", 0],
      ["one", 1],
    ]);
    const narrowed = await fresh.ask(
      await fresh.token("zoe", { conversations: ["three", "two"] }),
      "GET",
      CONVERSATIONS,
    );
    expect(narrowed.body.map((row: { name: string }) => row.name)).toEqual(["three"]);

    await fresh.ask(fresh.key, "PATCH", `${CONVERSATIONS}/one`, { status: "ARCHIVED" });
    const archived = await fresh.ask(fresh.key, "GET", `${CONVERSATIONS}?status=ARCHIVED`);
    expect(archived.body.map((row: { name: string }) => row.name)).toEqual(["one"]);
  } finally {
    await fresh.close();
  }
});

test("[1] lists are paged by an opaque cursor; a cursor of another list, or an invalid one, is 400", async () => {
  const fresh = await chatRest();
  try {
    for (let i = 0; i < 5; i += 1) await fresh.room(`r${i}`, ["zoe"]);
    for (const credential of [fresh.key, await fresh.token("zoe")]) {
      const seen: string[] = [];
      let path: string | undefined = `${CONVERSATIONS}?limit=2`;
      while (path !== undefined) {
        const { headers, body } = await fresh.ask(credential, "GET", path);
        seen.push(...body.map((row: { name: string }) => row.name));
        path = /<([^>]+)>; rel="next"/.exec(headers.get("link") ?? "")?.[1];
      }
      expect(seen).toEqual(["r4", "r3", "r2", "r1", "r0"]);
    }
    for (const limit of ["0", "201", "x", "1.5"]) {
      expect(outcome(await fresh.ask(fresh.key, "GET", `${CONVERSATIONS}?limit=${limit}`))).toBe(
        "400 SVC_VALIDATION_FAILED",
      );
    }
    const members = await fresh.ask(fresh.key, "GET", `${CONVERSATIONS}/r0/members?cursor=bm9uc2Vuc2U`);
    expect(outcome(members)).toBe("400 SVC_INVALID_CURSOR");
  } finally {
    await fresh.close();
  }
});

test("[4.3] PATCH renames, archives, sets retention, slow mode and metadata; each change is one event", async () => {
  const made = await chat.room("patchable", ["alice"]);
  const path = `${CONVERSATIONS}/${made.id}`;
  chat.clock.advance(1000);
  const { status, body } = await ask(key, "PATCH", path, {
    name: "patched",
    retentionDays: 7,
    slowModeSeconds: 5,
    metadata: { v: 2 },
    type: "DIRECT",
  });
  expect(status).toBe(200);
  expect(body).toMatchObject({
    name: "patched",
    retentionDays: 7,
    slowModeSeconds: 5,
    metadata: { v: 2 },
    type: "CHANNEL",
  });
  expect(body.updatedAt).not.toBe(made.updatedAt);
  expect(await chat.events("patched", made.lastSeq)).toEqual([
    {
      type: "conversation.updated",
      seq: made.lastSeq + 1,
      conversationId: made.id,
      at: body.updatedAt,
      conversation: body,
    },
  ]);

  // Nothing changed: no event, nothing written.
  const again = await ask(key, "PATCH", path, { name: "patched", retentionDays: 7 });
  expect(again.body).toEqual(body);
  expect((await ask(key, "PATCH", path, {})).body).toEqual(body);
  expect(await chat.events("patched", body.lastSeq)).toEqual([]);

  const cleared = await ask(key, "PATCH", path, { retentionDays: null, metadata: null });
  expect(cleared.body).toMatchObject({ retentionDays: null, metadata: null });
  await chat.room("taken");
  expect(outcome(await ask(key, "PATCH", path, { name: "taken" }))).toBe("409 SVC_CONFLICT");
  for (const bad of [{ slowModeSeconds: -1 }, { slowModeSeconds: 121 }, { retentionDays: 0 }, { status: "CLOSED" }]) {
    expect(outcome(await ask(key, "PATCH", path, bad))).toBe("400 SVC_VALIDATION_FAILED");
  }
  for (const good of [{ slowModeSeconds: 0 }, { slowModeSeconds: 120 }]) {
    expect((await ask(key, "PATCH", path, good)).status).toBe(200);
  }
});

test("[4.3] with a chat token only an ADMIN of the conversation can change it, and only if the token permits it", async () => {
  await chat.room("ruled", ["mia", { userId: "max", role: "MODERATOR" }, { userId: "ada", role: "ADMIN" }]);
  const patch = async (user: string, input = {}) =>
    outcome(await ask(await chat.token(user, input), "PATCH", `${CONVERSATIONS}/ruled`, { metadata: { by: user } }));
  expect(await patch("mia")).toBe("403 SVC_PERMISSION_DENIED");
  expect(await patch("max")).toBe("403 SVC_PERMISSION_DENIED");
  expect(await patch("ada", { scopes: ["chat:read", "chat:send"] })).toBe("403 SVC_PERMISSION_DENIED");
  expect(await patch("mia", { scopes: ["chat:manage"] })).toBe("403 SVC_PERMISSION_DENIED");
  expect(await patch("ada")).toBe("200");
});

test("[contract 4] an archived conversation can be read but not written to; PATCH status re-opens it", async () => {
  const made = await chat.room("attic", ["alice", "bob"]);
  const message = (await chat.send(key, "attic", { text: "before", senderId: "alice" })).body;
  const path = `${CONVERSATIONS}/${made.id}`;
  expect((await ask(key, "PATCH", path, { status: "ARCHIVED" })).body.status).toBe("ARCHIVED");

  const token = await chat.token("alice");
  for (const credential of [key, token]) {
    const user = credential === key ? { userId: "alice", senderId: "alice" } : {};
    const writes: [string, string, unknown][] = [
      ["POST", `${path}/messages`, { text: "late", ...user }],
      ["PATCH", `/v1/chat/messages/${message.id}`, { text: "late" }],
      ["DELETE", `/v1/chat/messages/${message.id}`, undefined],
      ["POST", `/v1/chat/messages/${message.id}/reactions`, { emoji: "👍", ...user }],
      ["DELETE", `/v1/chat/messages/${message.id}/reactions/x?userId=alice`, undefined],
    ];
    for (const [method, target, body] of writes) {
      expect([method, target, outcome(await ask(credential, method, target, body))]).toEqual([
        method,
        target,
        "409 SVC_CONVERSATION_ARCHIVED",
      ]);
    }
    expect((await chat.history(credential, "attic")).body.data).toHaveLength(1);
    expect((await ask(credential, "POST", `/v1/chat/messages/${message.id}/read`, user)).status).toBe(200);
  }
  for (const [method, target, body] of [
    ["POST", `${path}/members`, { userId: "carl" }],
    ["DELETE", `${path}/members/bob`, undefined],
    ["PATCH", `${path}/members/bob`, { role: "ADMIN" }],
    ["PATCH", path, { name: "renamed" }],
    ["PATCH", path, { status: "ACTIVE", name: "renamed" }],
  ] as const) {
    expect(outcome(await ask(key, method, target, body))).toBe("409 SVC_CONVERSATION_ARCHIVED");
  }
  expect((await ask(key, "PATCH", path, { status: "ACTIVE" })).body.status).toBe("ACTIVE");
  expect((await chat.send(token, "attic", "again")).status).toBe(201);
});

test("[1] a create repeated with the same Idempotency-Key returns the first response and creates nothing", async () => {
  const headers = { "idempotency-key": "create-once" };
  const first = await create({ name: "once" }, headers);
  const second = await create({ name: "once" }, headers);
  expect([second.status, second.text]).toEqual([201, first.text]);
  expect(second.headers.get("idempotent-replayed")).toBe("true");
  expect(outcome(await create({ name: "other" }, headers))).toBe("422 SVC_IDEMPOTENCY_KEY_REUSED");
});
