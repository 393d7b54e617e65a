import { afterAll, expect, test } from "bun:test";
import { chatRest, outcome } from "../features/chat/rest.ts";

const chat = await chatRest({ CHAT_SEND_RATE_LIMIT: 1000 });
afterAll(chat.close);
const { ask, key, send } = chat;
const members = (room: string, user = "") => `/v1/chat/conversations/${room}/members${user && `/${user}`}`;
const staff = [{ userId: "ada", role: "ADMIN" }, { userId: "max", role: "MODERATOR" }, "mia", "moe"];

test("[4.3] members are added, listed newest first, removed and re-activated", async () => {
  await chat.room("club", ["alice"]);
  chat.clock.advance(1000);
  const at = new Date(chat.clock.now()).toISOString();
  const added = await ask(key, "POST", members("club"), { userId: "bob", role: "MODERATOR", metadata: { team: 1 } });
  expect([added.status, added.body]).toEqual([
    201,
    {
      userId: "bob",
      role: "MODERATOR",
      status: "ACTIVE",
      mutedUntil: null,
      metadata: { team: 1 },
      joinedAt: at,
      leftAt: null,
    },
  ]);
  const again = await ask(key, "POST", members("club"), { userId: "bob" });
  expect([again.status, again.body]).toEqual([200, added.body]);
  expect((await ask(key, "GET", "/v1/chat/conversations/club")).body.memberCount).toBe(2);
  for (const credential of [key, await chat.token("alice")]) {
    const { body } = await ask(credential, "GET", members("club"));
    expect(body.map(({ userId }: { userId: string }) => userId)).toEqual(["bob", "alice"]);
  }

  const sent = (await send(await chat.token("bob"), "club", "still mine")).body;
  const token = await chat.token("bob");
  chat.clock.advance(1000);
  expect((await ask(key, "DELETE", members("club", "bob"))).status).toBe(204);
  expect((await ask(key, "GET", members("club"))).body).toHaveLength(1);
  expect((await ask(key, "GET", `/v1/chat/messages/${sent.id}`)).body.senderId).toBe("bob");
  expect(outcome(await ask(token, "GET", "/v1/chat/conversations/club"))).toBe("404 SVC_CONVERSATION_NOT_FOUND");
  expect(outcome(await ask(key, "DELETE", members("club", "bob")))).toBe("404 SVC_MEMBER_NOT_FOUND");
  expect(outcome(await ask(key, "DELETE", members("club", "nobody")))).toBe("404 SVC_MEMBER_NOT_FOUND");

  chat.clock.advance(1000);
  const back = await ask(key, "POST", members("club"), { userId: "bob" });
  expect([back.status, back.body]).toMatchObject([
    201,
    { role: "MODERATOR", status: "ACTIVE", leftAt: null, metadata: { team: 1 } },
  ]);
  expect((await ask(token, "GET", "/v1/chat/conversations/club")).status).toBe(200);
  const types = (await chat.events("club")).map(({ type, userId }) => `${type} ${userId ?? ""}`.trim());
  expect(types).toEqual([
    "member.joined alice",
    "member.joined bob",
    "message",
    "member.left bob",
    "member.joined bob",
  ]);
});

test("[contract 4] managing members requires ADMIN, leaving does not", async () => {
  await chat.room("staffed", staff);
  const by = async (user: string, method: string, path: string, body?: unknown) =>
    outcome(await ask(await chat.token(user), method, path, body));
  for (const user of ["mia", "max"]) {
    expect(await by(user, "POST", members("staffed"), { userId: "new" })).toBe("403 SVC_PERMISSION_DENIED");
    expect(await by(user, "DELETE", members("staffed", "moe"))).toBe("403 SVC_PERMISSION_DENIED");
    expect(await by(user, "PATCH", members("staffed", "moe"), { role: "ADMIN" })).toBe("403 SVC_PERMISSION_DENIED");
  }
  expect(await by("ada", "POST", members("staffed"), { userId: "new" })).toBe("201");
  expect(await by("ada", "PATCH", members("staffed", "new"), { role: "MODERATOR", metadata: { a: 1 } })).toBe("200");
  expect(await by("ada", "DELETE", members("staffed", "new"))).toBe("204");
  expect(await by("mia", "DELETE", members("staffed", "mia"))).toBe("204");
  expect(await by("mia", "DELETE", members("staffed", "mia"))).toBe("404 SVC_CONVERSATION_NOT_FOUND");
});

test("[contract 13] a muted member can read but not send, edit or react until the mute ends; a server still can for them", async () => {
  await chat.room("muted", staff);
  const mia = await chat.token("mia");
  const sent = (await send(mia, "muted", "before")).body;
  const until = new Date(chat.clock.now() + 60_000).toISOString();
  const { body } = await ask(await chat.token("max"), "PATCH", members("muted", "mia"), { mutedUntil: until });
  expect(body.mutedUntil).toBe(until);
  const answer = await send(mia, "muted", "now?");
  expect([outcome(answer), answer.body.retryAfterSeconds]).toEqual(["403 SVC_MUTED", 60]);
  expect(outcome(await ask(mia, "PATCH", `/v1/chat/messages/${sent.id}`, { text: "x" }))).toBe("403 SVC_MUTED");
  expect(outcome(await ask(mia, "POST", `/v1/chat/messages/${sent.id}/reactions`, { emoji: "x" }))).toBe(
    "403 SVC_MUTED",
  );
  expect((await chat.history(mia, "muted")).status).toBe(200);
  expect((await send(key, "muted", { text: "for her", senderId: "mia" })).status).toBe(201);
  chat.clock.advance(60_000);
  expect((await send(mia, "muted", "again")).status).toBe(201);

  await ask(key, "PATCH", members("muted", "mia"), { mutedUntil: "2099-01-01T00:00:00.000Z" });
  expect((await ask(key, "PATCH", members("muted", "mia"), { mutedUntil: null })).body.mutedUntil).toBeNull();
  expect((await send(mia, "muted", "free")).status).toBe(201);
  expect(outcome(await ask(key, "PATCH", members("muted", "mia"), { mutedUntil: "soon" }))).toBe(
    "400 SVC_VALIDATION_FAILED",
  );
});

test("[contract 13] a banned member is refused as banned, is not re-added by POST, and returns by PATCH", async () => {
  await chat.room("banned", staff);
  const mia = await chat.token("mia");
  expect(
    (await ask(await chat.token("max"), "PATCH", members("banned", "mia"), { status: "BANNED" })).body.status,
  ).toBe("BANNED");
  expect(outcome(await send(mia, "banned", "x"))).toBe("403 SVC_BANNED");
  expect(outcome(await chat.history(mia, "banned"))).toBe("403 SVC_BANNED");
  expect((await ask(mia, "GET", "/v1/chat/conversations")).text).not.toContain('"name":"banned"');
  expect(outcome(await ask(key, "POST", members("banned"), { userId: "mia" }))).toBe("403 SVC_BANNED");
  const listed = await ask(key, "GET", `${members("banned")}?status=BANNED`);
  expect(listed.body.map(({ userId }: { userId: string }) => userId)).toEqual(["mia"]);
  expect(outcome(await ask(await chat.token("moe"), "GET", `${members("banned")}?status=BANNED`))).toBe(
    "403 SVC_PERMISSION_DENIED",
  );

  expect((await ask(key, "PATCH", members("banned", "mia"), { status: "ACTIVE" })).body.status).toBe("ACTIVE");
  expect((await send(mia, "banned", "back")).status).toBe(201);
  const types = (await chat.events("banned", 4)).map(({ type, member }) => `${type} ${member?.status ?? ""}`.trim());
  expect(types).toEqual(["member.left BANNED", "member.joined ACTIVE", "message"]);
  expect(outcome(await ask(key, "PATCH", members("banned", "ghost"), { status: "BANNED" }))).toBe(
    "404 SVC_MEMBER_NOT_FOUND",
  );
});

test("[contract 4] a moderator can act only on members of a lower role", async () => {
  await chat.room("ranks", [...staff, { userId: "mod2", role: "MODERATOR" }]);
  const max = await chat.token("max");
  for (const user of ["ada", "mod2", "max"]) {
    const answer = await ask(max, "PATCH", members("ranks", user), { status: "BANNED" });
    expect([user, outcome(answer)]).toEqual([user, "403 SVC_PERMISSION_DENIED"]);
  }
  expect((await ask(max, "PATCH", members("ranks", "mia"), { status: "BANNED" })).status).toBe(200);
  expect((await ask(await chat.token("ada"), "PATCH", members("ranks", "mod2"), { status: "BANNED" })).status).toBe(
    200,
  );
});

test("[contract 13] slow mode allows one message per interval; moderators and servers are exempt", async () => {
  await chat.room("slow", staff);
  await ask(key, "PATCH", "/v1/chat/conversations/slow", { slowModeSeconds: 10 });
  const mia = await chat.token("mia");
  expect((await send(mia, "slow", "1")).status).toBe(201);
  chat.clock.advance(3500);
  const answer = await send(mia, "slow", "2");
  expect([outcome(answer), answer.body.retryAfterSeconds, answer.headers.get("retry-after")]).toEqual([
    "429 SVC_SLOW_MODE",
    7,
    "7",
  ]);
  for (const [credential, input] of [
    [await chat.token("moe"), "other user"],
    [await chat.token("max"), "moderator"],
    [await chat.token("max"), "moderator again"],
    [key, { text: "server", senderId: "mia" }],
  ] as const) {
    expect((await send(credential, "slow", input)).status).toBe(201);
  }
  chat.clock.advance(10_000);
  expect((await send(mia, "slow", "3")).status).toBe(201);
});

test("[8] messages are limited per user and window over all conversations, with retry headers; servers are exempt", async () => {
  const limited = await chatRest({ CHAT_SEND_RATE_LIMIT: 3, RATE_LIMIT_WINDOW_SECONDS: 60 });
  try {
    await limited.room("a", ["x", "y"]);
    await limited.room("b", ["x"]);
    const x = await limited.token("x");
    for (const room of ["a", "b", "a"]) expect((await limited.send(x, room, "hi")).status).toBe(201);
    limited.clock.advance(20_000);
    const refused = await limited.send(await limited.token("x"), "b", "fourth");
    expect([outcome(refused), refused.body.retryAfterSeconds, refused.headers.get("retry-after")]).toEqual([
      "429 SVC_RATE_LIMITED",
      40,
      "40",
    ]);
    expect((await limited.send(await limited.token("y"), "a", "hi")).status).toBe(201);
    for (let i = 0; i < 5; i += 1)
      expect((await limited.send(limited.key, "a", { text: "s", senderId: "x" })).status).toBe(201);
    limited.clock.advance(40_000);
    expect((await limited.send(x, "a", "next window")).status).toBe(201);
  } finally {
    await limited.close();
  }
});
