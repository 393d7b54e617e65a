import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { watchMediaWorkers } from "../../harness/media-workers.ts";
import { type RealServer, realServer } from "../../harness/running.ts";
import { describeCall } from "./call-suite.ts";
import { launchBrowser } from "./harness.ts";
import { entered, openStage, receives, type Scene, type Stage } from "./rtc-harness.ts";

let server: RealServer;
let stage: Stage;
let browser: Browser;
const workers = watchMediaWorkers();
beforeAll(async () => {
  server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000, RATE_LIMIT_RTC_TOKENS: 10_000 });
  [stage, browser] = await Promise.all([openStage(server), launchBrowser()]);
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await stage?.close();
  await server?.close();
  workers.restore();
});

const scene = (): Scene => ({ stage, browser, api: server });
const mint = async (roomId: string, identity: string, body?: object) =>
  (await server.mint(roomId, identity, body)).token;

describeCall("[4] browsers in a call, through the server's own socket", scene);

describe("[4] browsers and what a server alone can do", () => {
  test("a token that may not publish is refused its tracks, and still watches", async () => {
    const roomId = await server.room();
    const ann = await entered(scene(), roomId, "ann");
    const viewer = await stage.page(browser);
    const token = await mint(roomId, "viewer", { permissions: {} });
    await expect(stage.enter(viewer, token)).rejects.toThrow("PERMISSION_DENIED");
    await viewer.evaluate(
      async ([url, credential]) => {
        const rtc = window.openRtc();
        await rtc.join(url, credential);
        rtc.receive(1);
        await rtc.offer();
      },
      [stage.endpoint, token] as const,
    );
    expect((await receives(viewer, "ann")).framesDecoded).toBeGreaterThan(0);
    await Promise.all([ann.page.close(), viewer.close()]);
  }, 60_000);

  test("a dead media worker: everyone is told to rejoin, and does", async () => {
    const roomId = await server.room();
    const names = ["ann", "ben"];
    const pages = await Promise.all(names.map((name) => entered(scene(), roomId, name)));
    const seeEachOther = () =>
      Promise.all(pages.map(({ page, identity }) => receives(page, identity === "ann" ? "ben" : "ann")));
    await seeEachOther();
    workers.crash();
    for (const { page } of pages) {
      const end = await page.evaluate(async () => [await window.rtc.closing(), window.rtc.pushes.at(-1)]);
      expect(end).toMatchObject([{ code: 4500 }, { type: "bye", reason: "node_lost", action: "rejoin" }]);
    }
    for (const { page, token } of pages) await stage.enter(page, token);
    await seeEachOther();
    await Promise.all(pages.map(({ page }) => page.close()));
  }, 60_000);
});

describe("[10] WHIP and WHEP", () => {
  test("one publishes, the other watches; DELETE ends both", async () => {
    const roomId = await server.room();
    const url = (kind: string) => `${server.url}/${kind}/${roomId}`;
    const [publisher, viewer] = [await stage.page(browser), await stage.page(browser)];
    const tokens = { whip: await mint(roomId, "obs"), whep: await mint(roomId, "player", { permissions: {} }) };
    await publisher.evaluate(
      async ([address, token]) => {
        const { location, page } = await window.whip(address, token, "whip");
        Object.assign(window, { rtc: page, location_: location });
      },
      [url("whip"), tokens.whip] as const,
    );
    const seen = await viewer.evaluate(
      async ([address, token]) => {
        const { location, page } = await window.whip(address, token, "whep");
        Object.assign(window, { rtc: page, location_: location });
        const [audio, video] = page.pc.getTransceivers().map(({ mid }) => String(mid));
        const { framesDecoded } = await page.decoded(String(video), 15);
        return { framesDecoded, energy: await page.heard(String(audio)) };
      },
      [url("whep"), tokens.whep] as const,
    );
    expect(seen.framesDecoded).toBeGreaterThanOrEqual(15);
    expect(seen.energy).toBeGreaterThan(0);
    for (const [page, token] of [
      [publisher, tokens.whip],
      [viewer, tokens.whep],
    ] as const) {
      const status = await page.evaluate(async (credential) => {
        const headers = { authorization: `Bearer ${credential}` };
        return (await fetch(window.location_, { method: "DELETE", headers })).status;
      }, token);
      expect(status).toBe(204);
    }
    expect((await server.call("GET", `/v1/rooms/${roomId}/participants`)).text).toBe("[]");
    await Promise.all([publisher.close(), viewer.close()]);
  }, 60_000);
});
