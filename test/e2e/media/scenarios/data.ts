import { expect } from "bun:test";
import type { Page } from "playwright-core";
import type { Call, Scene } from "../rtc-harness.ts";

type Channel = "reliable" | "lossy";

/** Data is delivered in both directions, reliable and lossy, to all or to named participants. */
export async function exchangesData({ api }: Scene, { roomId, ann, ben, cas }: Call): Promise<void> {
  for (const { page } of [ann, ben, cas]) {
    await page.evaluate(() =>
      window.until(
        () => Object.values(window.rtc.channels).every(({ readyState }) => readyState === "open") || undefined,
        "open channels",
      ),
    );
  }
  await ann.page.evaluate(() => {
    const { reliable, lossy } = window.rtc.channels;
    for (let i = 0; i < 50; i++) reliable?.send(JSON.stringify({ topic: "t", payload: `n${i}` }));
    lossy?.send(JSON.stringify({ payload: "quick" }));
    reliable?.send(JSON.stringify({ payload: "for nobody", to: ["carl"] }));
    reliable?.send("not json");
    reliable?.send(JSON.stringify({ payload: "x".repeat(60_000), to: ["ben"] }));
  });
  const numbered = Array.from({ length: 50 }, (_, i) => ({ from: "ann", topic: "t", payload: `n${i}` }));
  const [long, ...more] = (await received(ben.page, "reliable", 51)).slice(50);
  expect(more).toEqual([]);
  expect(long).toEqual({ from: "ann", payload: "x".repeat(60_000) });
  expect((await received(ben.page, "reliable", 51)).slice(0, 50)).toEqual(numbered);
  expect(await received(ben.page, "lossy", 1)).toEqual([{ from: "ann", payload: "quick" }]);
  await ben.page.evaluate(() => {
    window.rtc.channels.reliable?.send(JSON.stringify({ payload: "back" }));
    window.rtc.channels.lossy?.send(JSON.stringify({ payload: "quickly back" }));
  });
  expect(await received(ann.page, "reliable", 1)).toEqual([{ from: "ben", payload: "back" }]);
  expect(await received(ann.page, "lossy", 1)).toEqual([{ from: "ben", payload: "quickly back" }]);
  const path = `/v1/rooms/${roomId}/data`;
  expect((await api.call("POST", path, { topic: "server", payload: "hello" })).status).toBeLessThan(300);
  // A message for others only would have arrived before this one.
  const hello = { from: null, topic: "server", payload: "hello" };
  expect((await received(cas.page, "reliable", 52)).slice(50)).toEqual([{ from: "ben", payload: "back" }, hello]);
}

function received(page: Page, channel: Channel, count: number): Promise<unknown[]> {
  return page.evaluate(
    async ([name, wanted]) => {
      const got = window.rtc.received[name];
      await window.until(() => got.length >= wanted || undefined, `${wanted} frames on ${name}`);
      return got.map((text) => JSON.parse(text));
    },
    [channel, count] as const,
  );
}
