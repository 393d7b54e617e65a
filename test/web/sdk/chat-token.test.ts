import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import { connectChat } from "../../../web/sdk/index.ts";
import { openPage, type Page } from "./page.ts";

let page: Page;
beforeEach(() => {
  jest.useFakeTimers();
  page = openPage();
});
afterEach(() => {
  jest.useRealTimers();
  page.close();
});

/** A fake chat server that, like the real one, announces a token's expiry a minute in advance. */
function serve(ttlMs: number): { refreshed: number[] } {
  const refreshed: number[] = [];
  const startedAt = Date.now();
  class Socket extends EventTarget {
    static readonly OPEN = 1;
    readyState = 1;
    constructor() {
      super();
      setTimeout(() => this.dispatchEvent(new Event("open")), 1);
      setTimeout(() => {
        this.#push({ type: "connected", userId: "anna", serverTime: new Date().toISOString() });
        this.#announceExpiry();
      }, 200);
    }
    send(text: string): void {
      const { type, id } = JSON.parse(text);
      if (type === "token.refresh") {
        refreshed.push(Date.now() - startedAt);
        this.#announceExpiry();
      }
      this.#push(type === "ping" ? { type: "pong" } : { type: "ack", id });
    }
    close(): void {}
    #announceExpiry(): void {
      const expiresAt = new Date(Date.now() + ttlMs).toISOString();
      setTimeout(() => this.#push({ type: "token.expiring", expiresAt }), Math.max(0, ttlMs - 60_000));
    }
    #push(frame: object): void {
      this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) }));
    }
  }
  globalThis.WebSocket = Socket as unknown as typeof WebSocket;
  return { refreshed };
}

async function pass(seconds: number): Promise<void> {
  for (let n = 0; n < seconds * 10; n++) {
    jest.advanceTimersByTime(100);
    for (let m = 0; m < 10; m++) await Promise.resolve();
  }
}

test.each([
  [60, [30, 60, 90]],
  [10, Array.from({ length: 20 }, (_, n) => 5 * (n + 1))],
  [600, []],
])("[3] a chat token of %d seconds is renewed once before each expiry", async (ttlSeconds, expected) => {
  const { refreshed } = serve(ttlSeconds * 1000);
  const connecting = connectChat("ws://stoa.test/v1/chat/ws", "first", { tokenProvider: async () => "next" });
  await pass(1);
  const chat = await connecting;
  await pass(100);
  chat.close();
  expect(refreshed.map((ms) => Math.round(ms / 1000))).toEqual(expected);
  const { length } = refreshed;
  await pass(60);
  expect(refreshed).toHaveLength(length);
  expect(page.listenerCount()).toBe(0);
});
