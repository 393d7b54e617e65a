import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { joinChat, messageTexts } from "./page-api.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

let stage: Stage;
let anna: SitePage;
let ben: SitePage;
beforeAll(async () => {
  stage = await openStage();
  const members = [{ userId: "anna" }, { userId: "ben" }];
  await stage.stoa.conversations.create({ name: "lobby", members });
  [anna, ben] = await Promise.all([stage.page(), stage.page()]);
  await joinChat(anna, await stage.chat("anna"), "lobby");
  await joinChat(ben, await stage.chat("ben"), "lobby");
}, 180_000);
afterAll(() => stage.close());

describe("[6] chat between two pages of another origin", () => {
  test("a message is shown at once, becomes sent when the server has stored it, and arrives once", async () => {
    const sent = await anna.evaluate(async () => {
      const { conversation } = window;
      const done = conversation.send("hello");
      const at = conversation.messages.at(-1);
      const first = { text: at?.text, status: at?.status, senderId: at?.senderId };
      const { seq } = await done;
      return { first, seq, after: conversation.messages.map(({ status }) => status) };
    });
    expect(sent.first).toEqual({ text: "hello", status: "sending", senderId: "anna" });
    expect(sent.after).toEqual(["sent"]);
    await ben.waitForFunction(() => window.heard.length > 0);
    expect(await ben.evaluate(() => window.heard)).toEqual(["hello"]);
    expect(await anna.evaluate(() => window.heard)).toEqual(["hello"]);
  });

  test("edits, reactions, replies and deletions reach everyone", async () => {
    await ben.evaluate(() => {
      window.seen = [];
      const { conversation, seen } = window;
      conversation.on("messageUpdated", ({ text, edited }) => seen.push(`updated ${text} ${edited}`));
      conversation.on("reactionAdded", ({ emoji, userId }) => seen.push(`added ${emoji} ${userId}`));
      conversation.on("reactionRemoved", ({ emoji, userId }) => seen.push(`removed ${emoji} ${userId}`));
      conversation.on("messageDeleted", ({ deletedBy }) => seen.push(`deleted by ${deletedBy}`));
    });
    const thread = await anna.evaluate(async () => {
      const { conversation } = window;
      const root = await conversation.send("root");
      await conversation.edit(root.id, { text: "root, mended" });
      await conversation.react(root.id, "👍");
      await conversation.unreact(root.id, "👍");
      await conversation.react(root.id, "🎉");
      const reply = await conversation.send({ text: "reply", replyTo: root.id });
      const doomed = await conversation.send("a slip");
      await conversation.delete(doomed.id);
      return {
        root: root.id,
        reply: reply.threadRootId,
        texts: (await conversation.thread(root.id)).map((m) => m.text),
      };
    });
    expect(thread.reply).toBe(thread.root);
    expect(thread.texts).toEqual(["root, mended", "reply"]);
    await ben.waitForFunction(() => window.seen.includes("deleted by anna"));
    expect(await ben.evaluate(() => window.seen)).toEqual([
      "updated root, mended true",
      "added 👍 anna",
      "removed 👍 anna",
      "added 🎉 anna",
      "deleted by anna",
    ]);
    const root = await ben.evaluate((id) => {
      const { text, reactions, replyCount } = window.conversation.messages.find((m) => m.id === id) ?? {};
      return { text, reactions, replyCount };
    }, thread.root);
    expect(root).toEqual({
      text: "root, mended",
      reactions: [{ emoji: "🎉", count: 1, userIds: ["anna"] }],
      replyCount: 1,
    });
    const slip = await ben.evaluate(() => window.conversation.messages.at(-1));
    expect(slip).toMatchObject({ deleted: true, text: null });
  });

  test("typing, presence and read receipts reach the other page, and typing ends with the message", async () => {
    await anna.evaluate(() => {
      window.seen = [];
      window.conversation.on("typingChanged", (typing) => window.seen.push(typing.map((one) => one.userId).join()));
      window.conversation.on("presenceChanged", ({ userId, status }) => window.seen.push(`${userId} ${status}`));
      window.conversation.on("read", ({ userId, messageId }) => window.seen.push(`${userId} read ${messageId}`));
    });
    await ben.evaluate(async () => {
      window.conversation.startTyping();
      window.conversation.startTyping();
      await window.conversation.send("typed");
      await window.chat.setPresence("away");
      await window.conversation.markRead();
    });
    await anna.waitForFunction(
      () => window.seen.includes("ben away") && window.seen.some((line) => line.includes(" read ")),
    );
    const last = await anna.evaluate(() => window.conversation.messages.at(-1)?.id);
    // The server batches presence, so it may arrive after the read receipt.
    const seen = await anna.evaluate(() => window.seen.filter((line) => line !== "ben online"));
    expect(seen.filter((line) => line !== "ben away")).toEqual(["ben", "", `ben read ${last}`]);
    expect(seen.filter((line) => line === "ben away")).toHaveLength(1);
    expect(await ben.evaluate(() => window.conversation.readState.unreadCount)).toBe(0);
    expect(await anna.evaluate(() => window.conversation.readState.unreadCount)).toBe(1);
    expect(await anna.evaluate(() => window.conversation.typing.length)).toBe(0);
  });

  test("history is loaded page by page without gaps or duplicates", async () => {
    await stage.stoa.conversations.create({ name: "long", members: [{ userId: "ben" }] });
    for (let n = 1; n <= 12; n++) await stage.stoa.messages.send("long", { text: String(n), senderId: "ben" });
    const steps = await ben.evaluate(async () => {
      const conversation = await window.chat.join("long", { history: 5 });
      const texts = () => conversation.messages.map(({ text }) => Number(text));
      const steps = [texts()];
      while (await conversation.loadOlder(5)) steps.push(texts());
      steps.push(texts());
      await window.chat.leave(conversation);
      return steps;
    });
    const from = (first: number) => Array.from({ length: 13 - first }, (_, n) => first + n);
    expect(steps).toEqual([from(8), from(3), from(1)]);
  });

  test("a file is uploaded with progress and shown to the other, and a cancelled one is not", async () => {
    const sent = await anna.evaluate(async () => {
      const { conversation } = window;
      const steps: number[] = [];
      const file = new File([new Uint8Array(600_000)], "zeros.bin", { type: "application/octet-stream" });
      const message = await conversation.sendFile(file, { onProgress: (part) => steps.push(part), text: "here" });
      const stop = new AbortController();
      const large = new File([new Uint8Array(20_000_000)], "large.bin");
      const cancelled = conversation.upload(large, { signal: stop.signal, onProgress: () => stop.abort() });
      const reason = await cancelled.then(
        () => "sent after all",
        (error) => `${error.name} ${error.reason}`,
      );
      return { steps, reason, type: message.type, size: message.attachment?.size };
    });
    expect(sent).toMatchObject({ reason: "StoaError cancelled", type: "attachment", size: 600_000 });
    expect(sent.steps.at(-1)).toBe(1);
    expect(sent.steps).toEqual(sent.steps.toSorted((a, b) => a - b));
    await ben.waitForFunction(() => window.heard.includes("here"));
    const bytes = await ben.evaluate(async () => {
      const { attachment } = window.conversation.messages.at(-1) ?? {};
      const response = await fetch(await window.conversation.downloadUrl(attachment?.id ?? ""));
      return (await response.arrayBuffer()).byteLength;
    });
    expect(bytes).toBe(600_000);
  });

  test("a refused message is a typed error, and the message can be retried or discarded", async () => {
    const refused = await anna.evaluate(async () => {
      const { conversation, chat } = window;
      const missing = await chat.join("nowhere").catch((error) => `${error.code} ${error.reason}`);
      const error = await conversation.send("x".repeat(4001)).catch((error) => `${error.code} ${error.reason}`);
      const failed = conversation.messages.at(-1);
      if (failed) conversation.discard(failed);
      return { missing, error, status: failed?.status, left: conversation.messages.at(-1)?.status };
    });
    expect(refused).toEqual({
      missing: "CONVERSATION_NOT_FOUND not-found",
      error: "VALIDATION_FAILED invalid",
      status: "failed",
      left: "sent",
    });
  });

  test("a wrong and a revoked token have other errors than a lost network", async () => {
    const page = await stage.page();
    const { endpoint } = await stage.chat("anna");
    const outcome = await page.evaluate(
      async ({ endpoint, nowhere }) => {
        const path = "/sdk.js";
        const { connectChat } = (await import(path)) as typeof window.sdk;
        const reason = (where: string) => connectChat(where, "nonsense").catch((error) => error.reason);
        return [await reason(endpoint), await reason(nowhere)];
      },
      { endpoint, nowhere: "ws://127.0.0.1:9/v1/chat/ws" },
    );
    expect(outcome).toEqual(["token-invalid", "network"]);
  });

  test("a removed member loses the conversation with a reason", async () => {
    await stage.stoa.conversations.create({ name: "club", members: [{ userId: "ben" }] });
    await ben.evaluate(async () => {
      await window.chat.join("club");
      window.seen = [];
      window.chat.on("conversationLost", ({ name }, { reason }) => window.seen.push(`${name} ${reason}`));
    });
    await stage.stoa.conversations.removeMember("club", "ben");
    await ben.waitForFunction(() => window.seen.length > 0);
    expect(await ben.evaluate(() => window.seen)).toEqual(["club removed"]);
  });

  test("no page has reported an error, and both show the same messages", async () => {
    expect([...anna.errors, ...ben.errors]).toEqual([]);
    expect(await messageTexts(anna)).toEqual(await messageTexts(ben));
  });
});
