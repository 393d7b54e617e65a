import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mentionsIn, withoutMention } from "../../../src/features/chat/messages/mentions.ts";
import { compileList, screen } from "../../../src/features/chat/moderation/word-list.ts";
import { type ChatRest, chatRest, outcome } from "./rest.ts";
import type { Body } from "./world.ts";

let chat: ChatRest;
let tokens: Record<"ada" | "bob" | "cy", string>;
beforeAll(async () => {
  chat = await chatRest({ CHAT_SEND_RATE_LIMIT: 1000, CHAT_REPORT_RATE_LIMIT: 1000 });
  await chat.room("general", ["ada", "bob", "cy"]);
  const token = (userId: string) => chat.token(userId, { ttlSeconds: 21_600 });
  tokens = { ada: await token("ada"), bob: await token("bob"), cy: await token("cy") };
});
afterAll(() => chat.close());

const send = async (by: string, text: string, room = "general"): Promise<Body> =>
  (await chat.send(by, room, text)).body;
const unread = async (by: string): Promise<Body> => (await chat.ask(by, "GET", "/v1/chat/unread")).body;

describe("mentions", () => {
  test("are members that the text names, listed in the message and counted as unread mentions", async () => {
    const message = await send(tokens.ada, "@bob, ask @nobody or mail ada@bob.example. @ada @bob");
    expect(message.mentions).toEqual(["bob"]);
    expect(await unread(tokens.bob)).toMatchObject({ total: 1, mentions: 1 });
    expect(await unread(tokens.cy)).toMatchObject({ total: 1, mentions: 0 });
    const edited = await chat.ask(tokens.ada, "PATCH", `/v1/chat/messages/${message.id}`, { text: "@cy rather" });
    expect(edited.body.mentions).toEqual(["cy"]);
    expect([(await unread(tokens.bob)).mentions, (await unread(tokens.cy)).mentions]).toEqual([0, 1]);
    const state = await chat.ask(tokens.cy, "POST", `/v1/chat/messages/${message.id}/read`, {});
    expect(state.body).toMatchObject({ unreadCount: 0, mentionCount: 0 });
    const second = await send(tokens.ada, "and @cy again");
    expect((await unread(tokens.cy)).mentions).toBe(1);
    await chat.ask(tokens.ada, "DELETE", `/v1/chat/messages/${second.id}`);
    expect((await unread(tokens.cy)).mentions).toBe(0);
  });

  test("exclude the punctuation at the end of a sentence, and are bounded", () => {
    const all = () => true;
    expect(
      mentionsIn("(@a.b) @c: @d@x.example, @e...", (name) => ["a.b", "c", "d@x.example", "e"].includes(name)),
    ).toEqual(["a.b", "c", "d@x.example", "e"]);
    expect(mentionsIn("no names at all", all)).toEqual([]);
    expect(mentionsIn(Array.from({ length: 500 }, (_, n) => `@u${n}`).join(" "), all)).toHaveLength(20);
    let asked = 0;
    mentionsIn(Array.from({ length: 500 }, (_, n) => `@u${n}`).join(" "), () => ++asked < 0);
    expect(asked).toBe(40);
    expect(withoutMention("@zoe and @zoe. not @zoey", "zoe", "(x)")).toBe("@(x) and @(x). not @zoey");
  });
});

describe("word lists", () => {
  const list = { refuse: ["badword"], mask: ["damn", "very rude phrase"], report: ["meetup"] };

  test("refuse, mask and report messages of users, but not of the server", async () => {
    expect(outcome(await chat.ask(tokens.ada, "PUT", "/v1/chat/word-list", list))).toBe("401 SVC_AUTH_ERROR");
    expect((await chat.ask(chat.key, "PUT", "/v1/chat/word-list", list)).body).toEqual(list);
    expect(outcome(await chat.send(tokens.ada, "general", "such a BadWord!"))).toBe("403 SVC_MESSAGE_REFUSED");
    expect((await send(tokens.ada, "Damn, a very  RUDE phrase, not badwords")).text).toBe(
      "****, a ****  **** ******, not badwords",
    );
    expect(
      (await chat.ask(chat.key, "POST", "/v1/chat/conversations/general/messages", { text: "badword" })).status,
    ).toBe(201);
    const said = await send(tokens.ada, "a meetup?");
    const { body: reports } = await chat.ask(chat.key, "GET", "/v1/chat/reports?status=OPEN");
    expect(reports).toMatchObject([{ messageId: said.id, reporterId: null, senderId: "ada" }]);
    const edit = await chat.ask(tokens.ada, "PATCH", `/v1/chat/messages/${said.id}`, { text: "badword" });
    expect(outcome(edit)).toBe("403 SVC_MESSAGE_REFUSED");
    await chat.ask(chat.key, "PUT", "/v1/chat/word-list", { refuse: [], mask: [], report: [] });
    expect((await chat.send(tokens.ada, "general", "badword")).status).toBe(201);
  });

  test("match all forms of a letter, but not parts of other words", () => {
    const compiled = compileList({ refuse: ["ass"], mask: [], report: [] });
    const refused = (text: string) => compiled !== null && screen(compiled, text).refused;
    expect(["an ASS", "ａｓｓ", "class", "assess", "ass_"].map(refused)).toEqual([true, true, false, false, false]);
    expect(compileList({ refuse: ["!!"], mask: [" "], report: [] })).toBeNull();
  });
});

describe("reports", () => {
  const report = (by: string, messageId: string, body: object = { reason: "spam" }) =>
    chat.ask(by, "POST", `/v1/chat/messages/${messageId}/reports`, body);

  test("are made once per user and are resolved together with an action", async () => {
    const message = await send(tokens.ada, "buy now");
    const first = await report(tokens.bob, message.id, { reason: "spam", note: "again" });
    expect([first.status, first.body]).toMatchObject([201, { status: "OPEN", note: "again", reporterId: "bob" }]);
    expect((await report(tokens.bob, message.id)).status).toBe(200);
    expect((await report(tokens.cy, message.id)).status).toBe(201);
    expect(outcome(await report(tokens.ada, message.id))).toBe("400 SVC_VALIDATION_FAILED");
    expect(outcome(await chat.ask(tokens.bob, "GET", "/v1/chat/reports"))).toBe("401 SVC_AUTH_ERROR");
    const resolved = await chat.ask(chat.key, "POST", `/v1/chat/reports/${first.body.id}/resolve`, {
      action: "delete_message",
    });
    expect(resolved.body).toMatchObject({ status: "RESOLVED", action: "delete_message", message: { text: null } });
    const open = (await chat.ask(chat.key, "GET", "/v1/chat/reports?status=OPEN")).body;
    expect(open.filter(({ messageId }: Body) => messageId === message.id)).toEqual([]);
    const again = await chat.ask(chat.key, "POST", `/v1/chat/reports/${first.body.id}/resolve`, { action: "none" });
    expect(outcome(again)).toBe("409 SVC_CONFLICT");
  });

  test("show the text to moderators in the dashboard, and are audited without it", async () => {
    const message = await send(tokens.cy, "something unkind");
    const { id } = (await report(tokens.bob, message.id, { reason: "abuse" })).body;
    const developer = await chat.server.session({ projectId: chat.projectId, role: "DEVELOPER" });
    const viewer = await chat.server.session({ projectId: chat.projectId, role: "VIEWER" });
    const at = `/v1/projects/${chat.projectId}/chat/reports`;
    expect(outcome(await chat.ask(viewer.token, "GET", at))).toBe("403 SVC_PERMISSION_DENIED");
    const [shown] = (await chat.ask(developer.token, "GET", at)).body;
    expect(shown).toMatchObject({ id, message: { text: "something unkind" } });
    const muted = await chat.ask(developer.token, "POST", `${at}/${id}/resolve`, { action: "mute_sender" });
    expect(muted.body.action).toBe("mute_sender");
    expect(outcome(await chat.send(tokens.cy, "general", "more"))).toBe("403 SVC_MUTED");
    const admin = await chat.server.session({ projectId: chat.projectId, role: "ADMIN" });
    const log = await chat.ask(admin.token, "GET", `/v1/projects/${chat.projectId}/audit-logs?action=report.resolved`);
    expect(log.body[0]).toMatchObject({ resourceId: id, resourceType: "report", metadata: { action: "mute_sender" } });
    expect(log.text).not.toContain("unkind");
    await chat.ask(chat.key, "PATCH", "/v1/chat/conversations/general/members/cy", { mutedUntil: null });
  });
});

test("a blocked user cannot send direct messages, and their mentions do not count", async () => {
  await chat.room("pair", ["ada", "bob"], { type: "DIRECT" });
  const earlier = await send(tokens.ada, "before the block", "pair");
  const edit = (text: string) => chat.ask(tokens.ada, "PATCH", `/v1/chat/messages/${earlier.id}`, { text });
  const block = (method: string) => chat.ask(tokens.bob, method, "/v1/chat/blocks/ada");
  expect([(await block("PUT")).status, (await block("PUT")).status]).toEqual([201, 200]);
  expect((await chat.ask(tokens.bob, "GET", "/v1/chat/blocks")).body).toMatchObject([{ userId: "ada" }]);
  expect((await chat.ask(tokens.ada, "GET", "/v1/chat/blocks")).body).toEqual([]);
  expect(outcome(await chat.send(tokens.ada, "pair", "hello"))).toBe("403 SVC_BLOCKED");
  expect(outcome(await edit("something new"))).toBe("403 SVC_BLOCKED");
  expect((await chat.send(tokens.bob, "pair", "hello")).status).toBe(201);
  expect((await send(tokens.ada, "@bob @cy")).mentions).toEqual(["cy"]);
  expect(outcome(await chat.ask(tokens.bob, "PUT", "/v1/chat/blocks/bob"))).toBe("400 SVC_VALIDATION_FAILED");
  expect((await block("DELETE")).status).toBe(204);
  expect((await chat.send(tokens.ada, "pair", "hello")).status).toBe(201);
  expect((await edit("welcome again")).status).toBe(200);
});
