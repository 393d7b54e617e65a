import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { Backoff, pause } from "../../../web/sdk/backoff.ts";
import { openPage, type Page } from "./page.ts";

describe("[3] the backoff", () => {
  const delaysWith = (randomValue: number) => {
    const random = spyOn(Math, "random").mockReturnValue(randomValue);
    const backoff = new Backoff({ firstMs: 250, maxMs: 8_000 });
    const delays = Array.from({ length: 8 }, () => backoff.next());
    backoff.reset();
    delays.push(backoff.next());
    random.mockRestore();
    return delays;
  };

  test("doubles up to a limit and starts over after a reset", () => {
    expect(delaysWith(1)).toEqual([250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 250]);
  });

  test("is at least half of its ceiling and differs between clients", () => {
    expect(delaysWith(0)).toEqual([125, 250, 500, 1000, 2000, 4000, 4000, 4000, 125]);
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
    ["the network is back", () => page.dispatch("online")],
    ["the page is restored from the back/forward cache", () => page.dispatch("pageshow")],
    ["the tab becomes visible", () => page.show(true)],
  ])("ends when %s and removes its listeners", async (_, wake) => {
    const waiting = pause(HOUR_MS, new AbortController().signal);
    wake();
    await waiting;
    expect(page.listenerCount()).toBe(0);
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
    expect(page.listenerCount()).toBe(0);
  });

  test("ends after its time, and at once if it is aborted", async () => {
    await pause(1, new AbortController().signal);
    await pause(HOUR_MS, AbortSignal.abort());
    expect(page.listenerCount()).toBe(0);
  });
});
