// browser: shell
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { framesShown, joinChat, joinRoom, waitForFrames } from "./sdk/page-api.ts";
import { openStage, type Stage } from "./sdk/stage.ts";

declare global {
  interface Window {
    streamStatus: string[];
    ending: string | null;
  }
}

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

/** Collects the stream updates of the page. */
async function listen(page: Page): Promise<void> {
  await page.evaluate(() => {
    window.streamStatus = [];
    window.ending = null;
    window.conversation.on("streamUpdated", ({ status }) => window.streamStatus.push(status));
    window.room.on("connectionStateChanged", (state, error) => {
      if (state === "DISCONNECTED") window.ending = error?.code ?? "";
    });
  });
}

test("[4.5] a waiting viewer watches and chats when the host goes live, and is notified of the end within 2 s", async () => {
  const { liveStreams } = stage.stoa;
  const stream = await liveStreams.create({ title: "Launch", hostIdentity: "host" });
  const hosting = await liveStreams.addHost(stream.id, { identity: "host" });
  const watching = await liveStreams.mintViewerToken(stream.id, { identity: "viewer" });
  const [host, viewer] = await Promise.all([stage.page(), stage.page()]);
  await joinRoom(host, hosting.rtc, ["camera", "microphone"], 180);
  await joinChat(host, hosting.chat, stream.conversationId);
  await joinRoom(viewer, watching.rtc);
  await joinChat(viewer, watching.chat, stream.conversationId);
  await listen(viewer);

  // Before the start the viewer receives nothing, although the camera is published.
  while ((await liveStreams.get(stream.id)).viewerCount !== 1) await Bun.sleep(50);
  await viewer.waitForTimeout(1000);
  expect(await framesShown(viewer, "host-camera")).toBe(0);
  const publish = await viewer.evaluate(() =>
    window.room.localParticipant.enableCamera().then(
      () => "published",
      () => "refused",
    ),
  );
  expect(publish).toBe("refused");

  await liveStreams.start(stream.id);
  await viewer.waitForFunction(() => window.streamStatus.includes("LIVE"));
  await waitForFrames(viewer, "host-camera");

  await viewer.evaluate(() => window.conversation.send("hello from the sofa"));
  await host.waitForFunction(() => window.heard.includes("hello from the sofa"));
  await host.evaluate(() => window.conversation.send("welcome"));
  await viewer.waitForFunction(() => window.heard.includes("welcome"));

  const endedAt = performance.now();
  await liveStreams.end(stream.id);
  await viewer.waitForFunction(() => window.ending !== null, undefined, { polling: 20 });
  const toldMs = performance.now() - endedAt;
  expect(await viewer.evaluate(() => window.ending)).toBe("STREAM_ENDED");
  expect(toldMs).toBeLessThan(2000);
  await viewer.waitForFunction(() => window.streamStatus.includes("ENDED"));
  expect(await liveStreams.get(stream.id)).toMatchObject({ status: "ENDED", viewerCount: 0, peakViewerCount: 1 });
  expect(host.errors).toEqual([]);
  console.log(`      notified of the end after ${Math.round(toldMs)} ms`);
}, 180_000);
