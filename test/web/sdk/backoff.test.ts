import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { Backoff, pause } from "../../../web/sdk/backoff.ts";
import { openPage, type Page } from "./page.ts";

describe("[3] how long to wait before trying again", () => {
  const drawn = (luck: number) => {
    const random = spyOn(Math, "random").mockReturnValue(luck);
    const backoff = new Backoff({ firstMs: 250, maxMs: 8_000 });
    const delays = Array.from({ length: 8 }, () => backoff.next());
    backoff.reset();
    delays.push(backoff.next());
    random.mockRestore();
    return delays;
  };

  test("doubles up to a limit, and begins anew after success", () => {
    expect(drawn(1)).toEqual([250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 250]);
  });

  test("is drawn from the upper half: never less than half, and not the same for everyone", () => {
    expect(drawn(0)).toEqual([125, 250, 500, 1000, 2000, 4000, 4000, 4000, 125]);
    const firsts = new Set(Array.from({ length: 100 }, () => new Backoff().next()));
    expect(firsts.size).toBeGreaterThan(90);
    expect(Math.min(...firsts)).toBeGreaterThanOrEqual(125);
    expect(Math.max(...firsts)).toBeLessThanOrEqual(250);
  });
});

describe("[3] a pause", () => {
  let page: Page;
  beforeEach(() => {
    page = openPage();
  });
  afterEach(() => page.close());

  const HOUR_MS = 3_600_000;

  test.each([
    ["the network is back", () => page.happens("online")],
    ["the page comes out of the browser's cache", () => page.happens("pageshow")],
    ["the tab is looked at again", () => page.show(true)],
  ])("ends when %s, and leaves no listener", async (_, wake) => {
    const waiting = pause(HOUR_MS, new AbortController().signal);
    wake();
    await waiting;
    expect(page.left()).toBe(0);
  });

  test("does not end when the tab is hidden", async () => {
    const stop = new AbortController();
    const ended: string[] = [];
    const waiting = pause(HOUR_MS, stop.signal).then(() => ended.push("ended"));
    page.show(false);
    await Bun.sleep(1);
    expect(ended).toEqual([]);
    stop.abort();
    await waiting;
    expect(page.left()).toBe(0);
  });

  test("ends by itself, and at once when nobody waits any more", async () => {
    await pause(1, new AbortController().signal);
    await pause(HOUR_MS, AbortSignal.abort());
    expect(page.left()).toBe(0);
  });
});
