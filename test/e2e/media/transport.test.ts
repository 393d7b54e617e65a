// browser: shell
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import type { MediaNode } from "../../../src/protocol/media-node.ts";
import { openChromium } from "../../harness/browsers.ts";
import { startImpairedNode } from "../../sfu/impaired-node.ts";
import { type Bridge, join, startBridge, startMedia } from "./harness.ts";

describe("a browser's transport", () => {
  const cleanup: (() => unknown)[] = [];
  let browser: Browser;
  beforeAll(async () => {
    browser = await openChromium();
  }, 180_000);
  afterEach(async () => {
    await Promise.all(browser.contexts().flatMap((context) => context.pages().map((page) => page.close())));
    for (const close of cleanup.splice(0).reverse()) await close();
  });
  afterAll(() => browser?.close());

  const serve = async (node: MediaNode) => {
    cleanup.push(() => node.close());
    const bridge = await startBridge(node);
    cleanup.push(() => bridge.stop());
    return bridge;
  };

  /** One participant publishes and another watches; returns the number of decoded frames. */
  const watch = async (bridge: Bridge) => {
    const publisher = await join(browser, bridge, "pub");
    await publisher.evaluate(async () => {
      await window.page.publish({ width: 320, height: 180 });
      await window.page.negotiate();
      await window.page.connected();
    });
    const viewer = await join(browser, bridge, "view");
    return viewer.evaluate(async () => {
      window.page.receive();
      await window.page.negotiate();
      await window.page.connected();
      const { track } = await window.page.event("trackPublished");
      const mid = await window.page.subscribe(track.id);
      return (await window.page.decoding(mid, 15)).framesDecoded;
    });
  };

  test.each(["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"] as const)(
    "SRTP with %s",
    async (profile) => {
      const node = await startMedia({ srtpProfiles: [profile] });
      const bridge = await serve(node);
      expect(await watch(bridge)).toBeGreaterThanOrEqual(15);
      const room = await node.room({ roomId: "room" });
      expect(room?.participants.map(({ transport }) => transport.srtpProfile)).toEqual([profile, profile]);
      const { refused, packetsIn } = await node.load();
      expect(Object.values(refused).reduce((sum, count) => sum + count, 0)).toBeLessThan(packetsIn / 20);
    },
    40_000,
  );

  test("without UDP, media uses TCP on the same port", async () => {
    const node = await startImpairedNode(3, { tcp: true });
    node.impairUp({ lossRatio: 1 });
    const bridge = await serve(node);
    expect(await watch(bridge)).toBeGreaterThanOrEqual(15);
    const room = await node.room({ roomId: "room" });
    expect(room?.participants.map(({ transport }) => transport.transport)).toEqual(["tcp", "tcp"]);
  }, 180_000);

  test("all participants connect despite 10 % loss and reordering during the handshake", async () => {
    const node = await startImpairedNode(5);
    node.impairUp({ lossRatio: 0.1, reorderRatio: 0.2, reorderMs: 8 });
    node.impairDown({ lossRatio: 0.1, reorderRatio: 0.2, reorderMs: 8 });
    const bridge = await serve(node);
    const pages = await Promise.all(Array.from({ length: 8 }, (_, i) => join(browser, bridge, `p${i}`)));
    await Promise.all(
      pages.map((page) =>
        page.evaluate(async () => {
          window.page.receive();
          await window.page.negotiate();
          await window.page.connected();
        }),
      ),
    );
    const connected = () => bridge.events.filter((event) => event.type === "participantConnected").length;
    for (let i = 0; i < 200 && connected() < 8; i++) await Bun.sleep(50);
    expect(connected()).toBe(8);
    expect(bridge.events.filter((event) => event.type === "participantFailed")).toEqual([]);
  }, 180_000);

  test("a second peer connection of a participant replaces the first", async () => {
    const node = await startMedia();
    const bridge = await serve(node);
    const page = await join(browser, bridge, "ann");
    const types = await page.evaluate(async () => {
      window.page.receive();
      await window.page.negotiate();
      await window.page.connected();
      const second = new RTCPeerConnection();
      second.addTransceiver("video", { direction: "recvonly" });
      await second.setLocalDescription();
      const answer = await window.page.call<{ sdp: string }>("negotiate", {
        sdp: second.localDescription?.sdp,
        publish: [],
        subscribe: [],
      });
      await second.setRemoteDescription({ type: "answer", sdp: answer.sdp });
      await window.until(() => second.connectionState === "connected" || undefined, "the second connection");
      await window.until(
        () => window.page.events.filter((e) => e.type === "participantConnected").length === 2 || undefined,
        "both",
      );
      return window.page.events.map((e) => e.type);
    });
    expect(types.filter((type) => type === "participantFailed")).toEqual([]);
  }, 180_000);
});
