// browser: shell
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { openChromium } from "../../harness/browsers.ts";
import { watchMediaWorkers } from "../../harness/media-workers.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { type Client, joinOnNewPage, openStage, receives, type Stage } from "./rtc-harness.ts";

let server: RealServer;
let stage: Stage;
let browser: Browser;
let roomId: string;
let ann: Client;
let cas: Client;
const workers = watchMediaWorkers();
beforeAll(async () => {
  server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000, RATE_LIMIT_RTC_TOKENS: 10_000 });
  [stage, browser] = await Promise.all([openStage(server), openChromium()]);
  roomId = await server.room();
  const scene = { stage, browser, api: server };
  [ann, cas] = await Promise.all([joinOnNewPage(scene, roomId, "ann"), joinOnNewPage(scene, roomId, "cas")]);
  await Promise.all([receives(ann.page, "cas"), receives(cas.page, "ann")]);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await stage?.close();
  await server?.close();
  workers.restore();
});

const mint = async (roomId: string, identity: string, body?: object) =>
  (await server.mint(roomId, identity, body)).token;

describe("[4] two browsers in a call", () => {
  test("after the crash of a media worker all participants are told to rejoin, and do", async () => {
    workers.crash();
    for (const { page } of [ann, cas]) {
      const end = await page.evaluate(async () => [await window.rtc.closing(), window.rtc.pushes.at(-1)]);
      expect(end).toMatchObject([{ code: 4500 }, { type: "bye", reason: "node_lost", action: "rejoin" }]);
    }
    for (const { page, token } of [ann, cas]) await stage.enter(page, token);
    await Promise.all([receives(ann.page, "cas"), receives(cas.page, "ann")]);
  }, 180_000);

  test("a token without the permission to publish can only subscribe", async () => {
    await cas.page.evaluate(() => window.rtc.ask("room.leave"));
    const token = await mint(roomId, "viewer", { permissions: {} });
    await expect(stage.enter(cas.page, token)).rejects.toThrow("PERMISSION_DENIED");
    await cas.page.evaluate(
      async ([url, credential]) => {
        const rtc = window.openRtc();
        await rtc.join(url, credential);
        rtc.receive(1);
        await rtc.offer();
      },
      [stage.endpoint, token] as const,
    );
    expect((await receives(cas.page, "ann")).framesDecoded).toBeGreaterThan(0);
  }, 180_000);
});

describe("[10] WHIP and WHEP", () => {
  test("a WHIP client publishes, a WHEP client watches, and DELETE ends both", async () => {
    const stream = await server.room();
    const url = (kind: string) => `${server.url}/${kind}/${stream}`;
    const [publisher, viewer] = [ann.page, cas.page];
    const tokens = { whip: await mint(stream, "obs"), whep: await mint(stream, "player", { permissions: {} }) };
    const published = await publisher.evaluate(([address, token]) => window.whip(address, token, "whip"), [
      url("whip"),
      tokens.whip,
    ] as const);
    const watched = await viewer.evaluate(([address, token]) => window.whip(address, token, "whep"), [
      url("whep"),
      tokens.whep,
    ] as const);
    const seen = await viewer.evaluate(async () => {
      const { rtc } = window;
      const [audio, video] = rtc.pc.getTransceivers().map(({ mid }) => String(mid));
      const { framesDecoded } = await rtc.decoded(String(video), 15);
      return { framesDecoded, energy: await rtc.heard(String(audio)) };
    });
    expect(seen.framesDecoded).toBeGreaterThanOrEqual(15);
    expect(seen.energy).toBeGreaterThan(0);
    for (const [page, location, token] of [
      [publisher, published, tokens.whip],
      [viewer, watched, tokens.whep],
    ] as const) {
      const status = await page.evaluate(
        async ([address, credential]) => {
          const headers = { authorization: `Bearer ${credential}` };
          return (await fetch(address, { method: "DELETE", headers })).status;
        },
        [location, token] as const,
      );
      expect(status).toBe(204);
    }
    expect((await server.call("GET", `/v1/rooms/${stream}/participants`)).text).toBe("[]");
  }, 180_000);
});
