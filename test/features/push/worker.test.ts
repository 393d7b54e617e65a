import { expect, test } from "bun:test";
import type { PushPayload } from "../../../src/protocol/chat-records.ts";
import { blockFor } from "../../web/docs/blocks.ts";

type Shown = { title: string; options: Record<string, unknown> };

/** Runs the guide's service worker with just enough of its world. */
function worker() {
  const listeners = new Map<string, (event: object) => void>();
  const shown: Shown[] = [];
  const opened: string[] = [];
  const self = {
    addEventListener: (type: string, listener: (event: object) => void) => listeners.set(type, listener),
    registration: {
      showNotification: async (title: string, options: object) => shown.push({ title, options } as Shown),
    },
    clients: { openWindow: async (url: string) => opened.push(url) },
  };
  new Function("self", blockFor("web/docs/push.md", "push-worker.js"))(self);
  const happens = (type: string, event: object) => listeners.get(type)?.({ waitUntil: () => {}, ...event });
  return { shown, opened, happens };
}

test("the guide's service worker shows every kind of push and opens its conversation", () => {
  const { shown, opened, happens } = worker();
  const base: PushPayload = {
    type: "message",
    conversationId: "conv_1",
    conversationName: "family",
    senderId: "ada",
    text: "hi",
    messageId: "msg_1",
    ringId: null,
    roomId: null,
    unreadCount: 1,
    tag: "t",
    at: "",
  };
  for (const type of ["message", "mention", "ring", "missed_call"] as const) {
    const text = type === "message" || type === "mention" ? "hi" : null;
    happens("push", { data: { json: () => ({ ...base, type, text }) } });
  }
  expect(shown.map(({ title, options }) => [title, options.body, options.tag])).toEqual([
    ["ada", "hi", "t"],
    ["ada", "hi", "t"],
    ["ada", "is calling", "t"],
    ["ada", "called", "t"],
  ]);
  happens("notificationclick", { notification: { close: () => {}, data: shown[0]?.options.data } });
  expect(opened).toEqual(["/chat/conv_1"]);
});
